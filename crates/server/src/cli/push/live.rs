//! Inputs without an end: standard input, and files that are followed.
//!
//! Lines are sent within about a second of their arrival. A change of a directory wakes the reader where the
//! system tells of changes; a look every second does where it does not (network file systems).

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use sandur_base::{Env, Task};
use tokio::sync::{Notify, mpsc};

use super::assembler::Assembler;
use super::followed::{Followed, find};
use super::identity::{Fingerprint, Identity};
use super::inputs::{Given, Inputs};
use super::opened::{Input, Opened, open};
use super::resume::{Known, Positions, Seen};
use super::shipper::{Origin, Shipper, stream};
use super::start::Start;
use crate::failed_command::Failed;

/// Age at which whole lines are sent although their batch is not full.
const FLUSH_AGE: Duration = Duration::from_secs(1);
/// Time in which changes are gathered.
const GATHER: Duration = Duration::from_millis(200);
/// Time after which files are looked at although no change was reported.
const LOOK_AGE: Duration = Duration::from_secs(1);
/// Time after which files that are new are looked for.
const FIND_AGE: Duration = Duration::from_secs(5);
/// Files that are followed at the same time: each is open, and 1,024 is the usual limit of a process.
const FOLLOWED_MAX: usize = 512;
/// Bytes of one read of standard input.
const READ_BYTES: usize = 64 << 10;

/// Standard input as it arrives.
struct Stdin {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    assembler: Assembler,
    origin: Origin,
    /// When the oldest line that is not sent arrived.
    since: Option<Duration>,
    _reader: Task<()>,
}

/// Files and standard input that go on until they end or the command is stopped.
pub struct Live<'a> {
    shipper: &'a mut Shipper,
    env: Env,
    arguments: &'a [String],
    follows: bool,
    stdin: Option<Stdin>,
    files: Vec<Followed>,
    /// Files that are no text, told once.
    left_out: HashSet<Identity>,
    /// Failures that were told.
    told: HashSet<String>,
    changed: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    found_at: Option<Duration>,
    looked_at: Duration,
}

impl<'a> Live<'a> {
    /// Reads standard input if the arguments name it, and follows their files if asked to.
    pub fn new(shipper: &'a mut Shipper, arguments: &'a [String], follows: bool) -> Self {
        let env = shipper.sender().env().clone();
        let stdin = arguments.iter().any(|a| a == "-").then(|| stdin(shipper, &env));
        let changed = Arc::new(Notify::new());
        let wake = Arc::clone(&changed);
        // Reading is no change; our own would wake us.
        let tell = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !matches!(event.kind, EventKind::Access(_))) {
                wake.notify_one();
            }
        };
        let watcher = follows.then(|| notify::recommended_watcher(tell).ok()).flatten();
        let (files, watched) = (Vec::new(), HashSet::new());
        let (left_out, told, looked_at) = (HashSet::new(), HashSet::new(), env.monotonic());
        let found_at = None;
        Self {
            shipper,
            env,
            arguments,
            follows,
            stdin,
            files,
            left_out,
            told,
            changed,
            watcher,
            watched,
            found_at,
            looked_at,
        }
    }

    /// Goes on until everything has ended; followed files never do.
    pub async fn work(&mut self) -> Result<(), Failed> {
        if self.follows {
            self.recover();
            self.round().await?;
        }
        while self.follows || self.stdin.is_some() {
            let now = self.env.monotonic();
            let since = self.stdin.as_ref().and_then(|stdin| stdin.since);
            let flush = since.map_or(LOOK_AGE, |since| (since + FLUSH_AGE).saturating_sub(now));
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

    /// Sends what is left and waits for it. With a resume point a line without its end stays for the next
    /// time, which finds it whole.
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
                if let Some(batch) = followed.finish(now_ns) {
                    self.shipper.submit(&followed.origin(), batch).await?;
                }
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
                stdin.since = stdin.since.or(stdin.assembler.has_lines().then_some(now));
                while let Some(batch) = stdin.assembler.take_full() {
                    self.shipper.submit(&stdin.origin, batch).await?;
                }
            }
            Some(Err(error)) => self.shipper.report.failure(&format!("standard input: {error}")),
            None => {
                let Some(mut stdin) = self.stdin.take() else { return Ok(()) };
                stdin.assembler.finish(now_ns);
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
        if stdin.since.is_none_or(|since| now < since + FLUSH_AGE) {
            return Ok(());
        }
        stdin.since = None;
        while let Some(batch) = stdin.assembler.flush() {
            self.shipper.submit(&stdin.origin, batch).await?;
        }
        Ok(())
    }

    /// Reads what is new in all files: renamed ones first, to their end.
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
                    self.tell(format!("cannot read '{name}' any more: {error}"));
                    self.files.remove(n);
                    continue;
                }
            };
            let origin = self.files[n].origin();
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
            .notice(&format!("'{name}' was emptied or written anew: reading it from its start"));
        match followed.anew(self.shipper.recogniser(), self.env.monotonic()) {
            Ok(followed) => self.files.insert(n, followed),
            Err(error) => self.tell(format!("cannot read '{name}' any more: {error}")),
        }
        Ok(())
    }

    /// Begins with files that were renamed since the resume point was written: their rest comes first.
    fn recover(&mut self) {
        for (path, known) in moved(&self.shipper.positions, self.arguments) {
            match path {
                Some(path) => self.follow(&Given { path, is_named: false }, Some(known)),
                None => self.shipper.report.notice(&gone(&known)),
            }
        }
    }

    /// Follows files that are new.
    fn discover(&mut self) {
        let inputs = Inputs::find(self.arguments);
        inputs.failures.into_iter().for_each(|text| self.tell(text));
        for given in inputs.files.iter().filter(|given| !self.shipper.is_own(&given.path)).collect::<Vec<_>>()
        {
            self.follow(given, None);
        }
        for directory in inputs.directories {
            if let Some(watcher) = self.watcher.as_mut().filter(|_| !self.watched.contains(&directory)) {
                // Without it there is still the look every second.
                let _ = watcher.watch(&directory, RecursiveMode::NonRecursive);
                self.watched.insert(directory);
            }
        }
    }

    fn follow(&mut self, given: &Given, known: Option<Known>) {
        let name = given.path.display().to_string();
        match self.open(&given.path, &name, known) {
            Ok(None) => {}
            Ok(Some(what)) if given.is_named => self.tell(format!("'{name}' is {what}; it is not followed")),
            Ok(Some(what)) => self.shipper.report.notice(&format!("left out: '{name}' is {what}")),
            Err(error) => self.tell(format!("cannot read '{name}': {error}")),
        }
    }

    /// Follows a file that is not followed yet; says what it is if that cannot be done.
    fn open(&mut self, path: &Path, name: &str, known: Option<Known>) -> io::Result<Option<&'static str>> {
        let identity = Identity::of(&std::fs::metadata(path)?);
        if self.left_out.contains(&identity) || self.files.iter().any(|f| f.identity() == identity) {
            return Ok(None);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let what = match metadata.is_file() {
            false => Some("no regular file"),
            true if self.files.len() >= FOLLOWED_MAX => Some("one more than can be followed at a time (512)"),
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
        let mut labels = self.shipper.labels_of(Some(name));
        let mut start = Start::default();
        if let Some(known) = known {
            start = known.start();
            labels = known.labels_under(labels);
        }
        let fingerprint = Fingerprint::of(&file, metadata.len())?;
        let seen = Seen { path: path.to_owned(), identity, fingerprint, labels };
        let (recogniser, now) = (self.shipper.recogniser(), self.env.monotonic());
        self.files.push(Followed::new(file, seen, start, recogniser, now));
        Ok(None)
    }

    /// Says a failure once, however often it comes up.
    fn tell(&mut self, text: String) {
        if self.told.insert(text.clone()) {
            self.shipper.report.failure(&text);
        }
    }
}

/// Known files whose names are of others now, if the arguments mean them; where they are.
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
        // An inode that another file has taken is no trace of this one.
        let open = path.and_then(|path| Some((File::open(&path).ok()?, path)));
        let same = open.filter(|(file, path)| positions.of(known.identity(), path, file).is_some());
        (same.map(|(_, path)| path), known.clone())
    });
    found.collect()
}

/// What is said of a file that has gone.
pub fn gone(known: &Known) -> String {
    let (path, offset) = (known.path.display(), known.offset);
    format!(
        "'{path}' as it was is gone: it was sent up to byte {offset}; what followed, if anything, was not"
    )
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
    let assembler = Assembler::new(labels, shipper.recogniser(), Start::default());
    let origin = Origin { name: "standard input".to_owned(), file: None };
    Stdin { chunks, assembler, origin, since: None, _reader: reader }
}

/// Reads until the end or an error, in a thread that may wait as long as the writer likes.
async fn read_stdin(env: Env, chunks: mpsc::Sender<io::Result<Vec<u8>>>) {
    let opened = env.run_blocking(|| open(Box::new(io::stdin()))).await;
    let mut input = match opened {
        Ok(Opened::Plain(input) | Opened::Compressed(input)) => input,
        Ok(Opened::Binary(what)) => {
            let error = io::Error::other(format!("it is {what}; nothing of it was sent"));
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
