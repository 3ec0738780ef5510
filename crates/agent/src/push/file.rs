//! Pushes a file once, from its resume point to its end.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use sandur_terminal::Failed;

use super::assembler::Assembler;
use super::batch::Batch;
use super::identity::{Fingerprint, Identity};
use super::inputs::Given;
use super::opened::{Input, Opened, open};
use super::resume::Seen;
use super::shipper::{Origin, Shipper, stream};
use super::start::Start;

/// Size of a read.
const READ_BYTES: usize = 256 << 10;

/// Reads an input to its end, batch by batch.
struct Reader {
    input: Input,
    assembler: Assembler,
    chunk: Vec<u8>,
    ended: bool,
    /// The error that ended the input early.
    failure: Option<io::Error>,
}

/// A file that was opened.
enum Begun {
    Ready(Box<Reader>, Origin),
    /// Not text; a description of it.
    Binary(&'static str),
}

impl Reader {
    /// The next batch; `None` at the end.
    fn next(&mut self, now_ns: i64) -> Option<Batch> {
        loop {
            if let Some(batch) = self.assembler.take_full() {
                return Some(batch);
            }
            if self.ended {
                return self.assembler.flush();
            }
            match self.input.read(&mut self.chunk) {
                Ok(0) => self.end(now_ns, None),
                Ok(n) => self.assembler.feed(&self.chunk[..n], now_ns),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.end(now_ns, Some(error)),
            }
        }
    }

    fn end(&mut self, now_ns: i64, failure: Option<io::Error>) {
        self.assembler.finish(now_ns);
        (self.ended, self.failure) = (true, failure);
    }
}

impl Shipper {
    /// Ships a file. Problems with the file are reported and counted; other errors end the push.
    pub async fn ship_file(&mut self, given: &Given) -> Result<(), Failed> {
        let name = given.path.display().to_string();
        let opened = match self.start_file(&given.path, &name) {
            Ok(opened) => opened,
            Err(error) => {
                self.report.failure(&format!("cannot read '{name}': {error}"));
                return Ok(());
            }
        };
        let (mut reader, origin) = match opened {
            Begun::Ready(reader, origin) => (reader, origin),
            Begun::Binary(what) if given.is_named => {
                self.report.failure(&format!("'{name}' is {what}; none of it was sent"));
                return Ok(());
            }
            Begun::Binary(what) => {
                self.report.notice(&format!("skipped: '{name}' is {what}"));
                return Ok(());
            }
        };
        let env = self.sender().env().clone();
        loop {
            let now_ns = self.now_ns();
            // Reading and recognising times block; requests continue meanwhile.
            let (back, batch) = env
                .run_blocking(move || {
                    let batch = reader.next(now_ns);
                    (reader, batch)
                })
                .await;
            reader = back;
            let Some(batch) = batch else { break };
            self.submit(&origin, batch).await?;
        }
        if let Some(error) = reader.failure {
            let end = reader.assembler.offset();
            let text = format!("'{name}' is damaged or truncated at byte {end} of its text: {error}");
            self.report.failure(&format!("{text}; the text before was sent"));
        }
        Ok(())
    }

    fn start_file(&mut self, path: &Path, name: &str) -> io::Result<Begun> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let mut labels = self.labels_of(Some(name));
        let mut start = Start::default();
        let mut seen = None;
        if metadata.is_file() {
            let identity = Identity::of(&metadata);
            if let Some(known) = self.positions.of(identity, path, &file) {
                start = known.start();
                labels = known.labels_under(labels);
            }
            let fingerprint = Fingerprint::of(&file, metadata.len())?;
            seen = Some(Seen { path: path.to_owned(), identity, fingerprint, labels: labels.clone() });
        }
        let input = match open(Box::new(file.try_clone()?))? {
            Opened::Binary(what) => return Ok(Begun::Binary(what)),
            Opened::Compressed(mut input) => {
                // Offsets are those of the decompressed text.
                io::copy(&mut input.by_ref().take(start.offset), &mut io::sink())?;
                self.report.begin(name, 0);
                input
            }
            Opened::Plain(_) if metadata.is_file() => {
                if start.offset > metadata.len() {
                    start = Start::default();
                }
                file.seek(SeekFrom::Start(start.offset))?;
                self.report.begin(name, metadata.len().saturating_sub(start.offset));
                Box::new(file)
            }
            Opened::Plain(input) => input,
        };
        let assembler = Assembler::new(stream(&labels), self.recogniser(), start);
        let chunk = vec![0; READ_BYTES];
        let origin = Origin { name: name.to_owned(), file: seen };
        let reader = Reader { input, assembler, chunk, ended: false, failure: None };
        Ok(Begun::Ready(Box::new(reader), origin))
    }
}
