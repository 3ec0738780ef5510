//! Ships inputs without an end: standard input and followed files.
//!
//! Lines are sent within about a second of their arrival; the last entry waits as long for lines that
//! continue it. Changes of a directory wake the reader if the
//! system reports them; otherwise (network file systems) files are checked every second.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use sandur_runtime::{Env, Task};
use sandur_terminal::Failed;
use tokio::sync::{Notify, mpsc};

use super::assembler::Assembler;
use super::batch::Batch;
use super::entries::ENTRY_SILENCE;
use super::followed::{Followed, find};
use super::identity::{Fingerprint, Identity};
use super::inputs::{Given, Inputs};
use super::opened::{Input, Opened, open};
use super::resume::{Known, Positions, Seen};
use super::shipper::{Origin, Shipper, stream};
use super::start::Start;

/// Age at which complete lines are sent although their batch is not full.
const FLUSH_AGE: Duration = Duration::from_secs(1);
/// Time during which changes are collected.
const GATHER: Duration = Duration::from_millis(200);
/// Interval at which files are checked although no change was reported.
const LOOK_AGE: Duration = Duration::from_secs(1);
/// Interval at which new files are searched.
const FIND_AGE: Duration = Duration::from_secs(5);
/// Maximum number of files that are followed at a time: each is open, and a process may usually have
/// 1,024.
const FOLLOWED_MAX: usize = 512;
/// Size of a read of standard input.
const READ_BYTES: usize = 64 << 10;

/// Standard input, read by another task.
struct Stdin {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    assembler: Assembler,
    origin: Origin,
    /// Time of arrival of the oldest complete entry that was not sent.
    since: Option<Duration>,
    /// Time of arrival of the last bytes.
    fed_at: Duration,
    _reader: Task<()>,
}

impl Stdin {
    /// When lines are sent, or the open entry ends, unless more arrives.
    fn due(&self) -> Option<Duration> {
        let lines = self.since.map(|since| since + FLUSH_AGE);
        let entry = self.assembler.has_open_entry().then(|| self.fed_at + ENTRY_SILENCE);
        lines.into_iter().chain(entry).min()
    }

    /// The batches that are due.
    fn take_due(&mut self, now: Duration) -> Vec<Batch> {
        if self.due().is_none_or(|due| now < due) {
            return Vec::new();
        }
        if now >= self.fed_at + ENTRY_SILENCE {
            self.assembler.cut();
        }
        self.since = None;
        std::iter::from_fn(|| self.assembler.flush()).collect()
    }
}

/// Ships standard input and followed files until they end or the command is stopped.
pub struct Live<'a> {
    shipper: &'a mut Shipper,
    env: Env,
    arguments: &'a [String],
    follows: bool,
    stdin: Option<Stdin>,
    files: Vec<Followed>,
    /// Files that are not text and were reported.
    left_out: HashSet<Identity>,
    /// Failures that were reported.
    reported: HashSet<String>,
    changed: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    found_at: Option<Duration>,
    looked_at: Duration,
}

impl<'a> Live<'a> {
    /// Reads standard input if it is an argument, and follows the files if `follows` is set.
    pub fn new(shipper: &'a mut Shipper, arguments: &'a [String], follows: bool) -> Self {
        let env = shipper.sender().env().clone();
        let stdin = arguments.iter().any(|a| a == "-").then(|| stdin(shipper, &env));
        let changed = Arc::new(Notify::new());
        let wake = Arc::clone(&changed);
        // Reads are ignored; our own would wake us.
        let notify_us = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !matches!(event.kind, EventKind::Access(_))) {
                wake.notify_one();
            }
        };
        let watcher = follows.then(|| notify::recommended_watcher(notify_us).ok()).flatten();
        let (files, watched) = (Vec::new(), HashSet::new());
        let (left_out, reported, looked_at) = (HashSet::new(), HashSet::new(), env.monotonic());
        let found_at = None;
        Self {
            shipper,
            env,
            arguments,
            follows,
            stdin,
            files,
            left_out,
            reported,
            changed,
            watcher,
            watched,
            found_at,
            looked_at,
        }
    }

    /// Runs until all inputs have ended; followed files never end.
    pub async fn work(&mut self) -> Result<(), Failed> {
        if self.follows {
            self.recover();
            self.round().await?;
        }
        while self.follows || self.stdin.is_some() {
            let now = self.env.monotonic();
            let due = self.stdin.as_ref().and_then(Stdin::due);
            let flush = due.map_or(LOOK_AGE, |due| due.saturating_sub(now));
            let look = (self.looked_at + LOOK_AGE).saturating_sub(now);
            let pause = if self.follows { flush.min(look) } else { flush };
            let (shipper, changed) = (&mut *self.shipper, &self.changed);
            let waiting = shipper.is_waiting();
            let mut chunk = None;
            tokio::select! {
                arrived = next_chunk(&mut self.stdin), if self.stdin.is_some() => chunk = Some(arrived),
                settled = shipper.settle(), if waiting => settled?,
                () = changed.notified(), if self.follows => {
                    self.env.sleep(GATHER).await;
                    self.looked_at = Duration::ZERO;
                }
                () = self.env.sleep(pause) => {}
            }
            if let Some(chunk) = chunk {
                self.take(chunk).await?;
            }
            self.flush_stdin().await?;
            if self.follows && self.env.monotonic() >= self.looked_at + LOOK_AGE {
                self.round().await?;
            }
        }
        Ok(())
    }

    /// Sends the remaining lines and waits for them. With a resume point, a line without its end is left
    /// for the next push, which will find it complete.
    pub async fn end(&mut self) -> Result<(), Failed> {
        let now_ns = self.shipper.now_ns();
        if let Some(mut stdin) = self.stdin.take() {
            stdin.assembler.finish(now_ns);
            while let Some(batch) = stdin.assembler.flush() {
                self.shipper.submit(&stdin.origin, batch).await?;
            }
        }
        if !self.shipper.positions.is_kept() {
            for mut followed in std::mem::take(&mut self.files) {
                let origin = followed.origin();
                for batch in followed.finish(now_ns) {
                    self.shipper.submit(&origin, batch).await?;
                }
                self.shipper.report_times(&origin.name, followed.assembler());
            }
        }
        self.shipper.drain().await
    }

    async fn take(&mut self, chunk: Option<io::Result<Vec<u8>>>) -> Result<(), Failed> {
        let (now, now_ns) = (self.env.monotonic(), self.shipper.now_ns());
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        match chunk {
            Some(Ok(bytes)) => {
                stdin.assembler.feed(&bytes, now_ns);
                stdin.fed_at = now;
                self.shipper.report_times(&stdin.origin.name, &mut stdin.assembler);
                stdin.since = stdin.since.or(stdin.assembler.has_lines().then_some(now));
                while let Some(batch) = stdin.assembler.take_full() {
                    self.shipper.submit(&stdin.origin, batch).await?;
                }
            }
            Some(Err(error)) => self.shipper.report.failure(&format!("standard input: {error}")),
            None => {
                let Some(mut stdin) = self.stdin.take() else { return Ok(()) };
                stdin.assembler.finish(now_ns);
                self.shipper.report_times(&stdin.origin.name, &mut stdin.assembler);
                while let Some(batch) = stdin.assembler.flush() {
                    self.shipper.submit(&stdin.origin, batch).await?;
                }
                self.shipper.drain().await?;
            }
        }
        Ok(())
    }

    async fn flush_stdin(&mut self) -> Result<(), Failed> {
        let now = self.env.monotonic();
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        for batch in stdin.take_due(now) {
            self.shipper.submit(&stdin.origin, batch).await?;
        }
        Ok(())
    }

    /// Reads what is new in all files; renamed ones come first, to their end.
    async fn round(&mut self) -> Result<(), Failed> {
        let now = self.env.monotonic();
        self.looked_at = now;
        self.files.iter_mut().for_each(|file| file.look(now));
        if self.files.iter().any(Followed::is_moved) || self.found_at.is_none_or(|at| now >= at + FIND_AGE) {
            self.found_at = Some(now);
            self.discover();
        }
        self.files.sort_by_key(|file| !file.is_moved());
        let mut n = 0;
        while n < self.files.len() {
            let (now, now_ns) = (self.env.monotonic(), self.shipper.now_ns());
            let name = self.files[n].path().display().to_string();
            let turn = match self.files[n].read(now_ns, now) {
                Ok(turn) => turn,
                Err(error) => {
                    self.report_once(format!("cannot read '{name}' any longer: {error}"));
                    self.files.remove(n);
                    continue;
                }
            };
            let origin = self.files[n].origin();
            self.shipper.report_times(&origin.name, self.files[n].assembler());
            for batch in turn.batches {
                self.shipper.submit(&origin, batch).await?;
            }
            if turn.is_anew {
                self.begin_anew(n).await?;
            } else if turn.is_over {
                self.files.remove(n);
            } else if !turn.has_more {
                n += 1;
            }
        }
        Ok(())
    }

    async fn begin_anew(&mut self, n: usize) -> Result<(), Failed> {
        self.shipper.drain().await?;
        let followed = self.files.remove(n);
        let name = followed.path().display().to_string();
        self.shipper.positions.forget(followed.identity());
        self.shipper
            .report
            .notice(&format!("'{name}' was truncated or rewritten: reading it from its start"));
        match followed.anew(self.shipper.reading(), self.env.monotonic()) {
            Ok(followed) => self.files.insert(n, followed),
            Err(error) => self.report_once(format!("cannot read '{name}' any longer: {error}")),
        }
        Ok(())
    }

    /// Begins with files that were renamed since the resume point was written: the rest of them comes
    /// first.
    fn recover(&mut self) {
        for (path, known) in moved(&self.shipper.positions, self.arguments) {
            match path {
                Some(path) => self.follow(&Given { path, is_named: false }, Some(known)),
                None => self.shipper.report.notice(&gone(&known)),
            }
        }
    }

    /// Starts to follow new files.
    fn discover(&mut self) {
        let inputs = Inputs::find(self.arguments);
        inputs.failures.into_iter().for_each(|text| self.report_once(text));
        for given in inputs.files.iter().filter(|given| !self.shipper.is_own(&given.path)).collect::<Vec<_>>()
        {
            self.follow(given, None);
        }
        for directory in inputs.directories {
            if let Some(watcher) = self.watcher.as_mut().filter(|_| !self.watched.contains(&directory)) {
                // If this fails, files are still checked every second.
                let _ = watcher.watch(&directory, RecursiveMode::NonRecursive);
                self.watched.insert(directory);
            }
        }
    }

    fn follow(&mut self, given: &Given, known: Option<Known>) {
        let name = given.path.display().to_string();
        match self.open(&given.path, &name, known) {
            Ok(None) => {}
            Ok(Some(what)) if given.is_named => {
                self.report_once(format!("'{name}' is {what}; it is not followed"))
            }
            Ok(Some(what)) => self.shipper.report.notice(&format!("skipped: '{name}' is {what}")),
            Err(error) => self.report_once(format!("cannot read '{name}': {error}")),
        }
    }

    /// Starts to follow a file that is not followed yet. Returns a description if it cannot be followed.
    fn open(&mut self, path: &Path, name: &str, known: Option<Known>) -> io::Result<Option<&'static str>> {
        let identity = Identity::of(&std::fs::metadata(path)?);
        if self.left_out.contains(&identity) || self.files.iter().any(|f| f.identity() == identity) {
            return Ok(None);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let what = match metadata.is_file() {
            false => Some("not a regular file"),
            true if self.files.len() >= FOLLOWED_MAX => Some("beyond the limit of 512 followed files"),
            true => match open(Box::new(file.try_clone()?))? {
                Opened::Plain(_) => None,
                Opened::Compressed(_) => Some("compressed: only a push without --follow reads it"),
                Opened::Binary(what) => Some(what),
            },
        };
        if what.is_some() {
            self.left_out.insert(Identity::of(&metadata));
            return Ok(what);
        }
        let identity = Identity::of(&metadata);
        let known = known.or_else(|| self.shipper.positions.of(identity, path, &file));
        if known.is_none() {
            self.shipper.positions.forget(identity);
        }
        let mut labels = self.shipper.labels_of(Some(name));
        let mut start = Start::default();
        if let Some(known) = known {
            start = known.start();
            labels = known.labels_under(labels);
        }
        let fingerprint = Fingerprint::of(&file, metadata.len())?;
        let seen = Seen { path: path.to_owned(), identity, fingerprint, labels };
        let (reading, now) = (self.shipper.reading(), self.env.monotonic());
        self.files.push(Followed::new(file, seen, start, reading, now));
        Ok(None)
    }

    /// Reports a failure once.
    fn report_once(&mut self, text: String) {
        if self.reported.insert(text.clone()) {
            self.shipper.report.failure(&text);
        }
    }
}

/// Known files that have another name now and are meant by the arguments, with their present path.
pub fn moved(positions: &Positions, arguments: &[String]) -> Vec<(Option<PathBuf>, Known)> {
    let is_meant = |path: &Path| {
        arguments.iter().any(|text| {
            let is_matched = || glob::Pattern::new(text).is_ok_and(|pattern| pattern.matches_path(path));
            Path::new(text) == path || (Path::new(text).is_dir() && path.starts_with(text)) || is_matched()
        })
    };
    let is_own =
        |known: &Known| std::fs::metadata(&known.path).is_ok_and(|m| Identity::of(&m) == known.identity());
    let lost = positions.files().filter(|known| is_meant(&known.path) && !is_own(known));
    let found = lost.map(|known| {
        let path = find(known.identity(), &known.path);
        // If another file has this inode, the known file is gone.
        let open = path.and_then(|path| Some((File::open(&path).ok()?, path)));
        let same = open.filter(|(file, path)| positions.of(known.identity(), path, file).is_some());
        (same.map(|(_, path)| path), known.clone())
    });
    found.collect()
}

/// The notice about a known file that is gone.
pub fn gone(known: &Known) -> String {
    let (path, offset) = (known.path.display(), known.offset);
    format!("the former '{path}' is gone: it was sent up to byte {offset}; the rest, if any, was not")
}

async fn next_chunk(stdin: &mut Option<Stdin>) -> Option<io::Result<Vec<u8>>> {
    match stdin {
        Some(stdin) => stdin.chunks.recv().await,
        None => std::future::pending().await,
    }
}

fn stdin(shipper: &Shipper, env: &Env) -> Stdin {
    let (sender, chunks) = mpsc::channel(4);
    let reader = env.spawn("stdin", read_stdin(env.clone(), sender));
    let labels = stream(&shipper.labels_of(None));
    let assembler = Assembler::new(labels, shipper.reading(), Start::default());
    let origin = Origin { name: "standard input".to_owned(), file: None };
    Stdin { chunks, assembler, origin, since: None, fed_at: env.monotonic(), _reader: reader }
}

/// Reads to the end or to an error, on a thread that may block.
async fn read_stdin(env: Env, chunks: mpsc::Sender<io::Result<Vec<u8>>>) {
    let opened = env.run_blocking(|| open(Box::new(io::stdin()))).await;
    let mut input = match opened {
        Ok(Opened::Plain(input) | Opened::Compressed(input)) => input,
        Ok(Opened::Binary(what)) => {
            let error = io::Error::other(format!("it is {what}; none of it was sent"));
            let _ = chunks.send(Err(error)).await;
            return;
        }
        Err(error) => {
            let _ = chunks.send(Err(error)).await;
            return;
        }
    };
    loop {
        let (back, read) = env.run_blocking(move || read_some(input)).await;
        input = back;
        let is_last = !matches!(&read, Ok(bytes) if !bytes.is_empty());
        let is_end = matches!(&read, Ok(bytes) if bytes.is_empty());
        if is_end || chunks.send(read).await.is_err() || is_last {
            return;
        }
    }
}

fn read_some(mut input: Input) -> (Input, io::Result<Vec<u8>>) {
    let mut chunk = vec![0; READ_BYTES];
    loop {
        match input.read(&mut chunk) {
            Ok(n) => {
                chunk.truncate(n);
                return (input, Ok(chunk));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (input, Err(error)),
        }
    }
}
