//! Pushes a file once, from its resume point to its end.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, SystemTime};

use sandur_terminal::Failed;

use super::assembler::Assembler;
use super::batch::Batch;
use super::entries::ENTRY_SILENCE;
use super::exposition::is_exposition;
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
    /// A file to which a program may be writing the last entry, if the next push can continue with it.
    growing: Option<File>,
    /// Whether the end of that file was read before.
    has_waited: bool,
    /// The error that ended the input early.
    failure: Option<io::Error>,
}

/// The next part of an input.
enum Part {
    Batch(Box<Batch>),
    /// The last entry may be incomplete: read again after this time.
    Pause(Duration),
    End,
}

/// A file that was opened.
enum Begun {
    Ready(Box<Reader>, Origin),
    /// Not text; a description of it.
    Binary(&'static str),
}

impl Reader {
    /// The next part.
    fn next(&mut self, now_ns: i64) -> Part {
        loop {
            if let Some(batch) = self.assembler.take_full() {
                return Part::Batch(Box::new(batch));
            }
            if self.ended {
                return self.assembler.flush().map_or(Part::End, |batch| Part::Batch(Box::new(batch)));
            }
            match self.input.read(&mut self.chunk) {
                Ok(0) => match self.remaining_silence(now_ns) {
                    None => self.end(now_ns, None),
                    Some(_) if self.has_waited => self.ended = true,
                    Some(pause) => {
                        self.has_waited = true;
                        return Part::Pause(pause);
                    }
                },
                Ok(n) => self.assembler.feed(&self.chunk[..n], now_ns),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.end(now_ns, Some(error)),
            }
        }
    }

    /// How much longer a file that was written to must be silent until its last entry is complete.
    fn remaining_silence(&self, now_ns: i64) -> Option<Duration> {
        let is_open = self.assembler.has_open_entry() || self.assembler.has_partial();
        let file = self.growing.as_ref().filter(|_| is_open)?;
        let modified = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
        let modified = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let age = Duration::from_nanos(u64::try_from(now_ns).ok()?).checked_sub(modified)?;
        ENTRY_SILENCE.checked_sub(age)
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
            let (back, part) = env
                .run_blocking(move || {
                    let part = reader.next(now_ns);
                    (reader, part)
                })
                .await;
            reader = back;
            match part {
                Part::Batch(batch) => self.submit(&origin, *batch).await?,
                Part::Pause(pause) => env.sleep(pause).await,
                Part::End => break,
            }
            self.report_times(&name, &mut reader.assembler);
        }
        self.report_times(&name, &mut reader.assembler);
        if reader.assembler.has_open_entry() || reader.assembler.has_partial() {
            self.report.notice(&format!("'{name}' is being written to: the next push sends its last entry"));
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
        let (mut seen, mut growing) = (None, None);
        if metadata.is_file() {
            let identity = Identity::of(&metadata);
            match self.positions.of(identity, path, &file) {
                Some(known) => (start, labels) = (known.start(), known.labels_under(labels)),
                None => self.positions.forget(identity),
            }
            let fingerprint = Fingerprint::of(&file, metadata.len())?;
            if is_exposition(&file) {
                self.report.notice(&format!(
                    "warning: '{name}' is in Prometheus's text format and is pushed as lines; --metrics \
                     pushes its samples"
                ));
            }
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
                growing = self.positions.is_kept().then(|| file.try_clone()).transpose()?;
                Box::new(file)
            }
            Opened::Plain(input) => input,
        };
        let assembler = Assembler::new(stream(&labels), self.reading(), start);
        let chunk = vec![0; READ_BYTES];
        let origin = Origin { name: name.to_owned(), file: seen };
        let reader =
            Reader { input, assembler, chunk, ended: false, growing, has_waited: false, failure: None };
        Ok(Begun::Ready(Box::new(reader), origin))
    }
}
