//! Standard error of a server, written by a separate thread.
//!
//! The reader of a log may stop: a collector that hangs, a pager that was left open, a disk that stalls.
//! A write to such a reader does not return, so no thread that serves requests writes itself: it queues
//! its line here.
//!
//! **Invariants.** At most 1 MiB waits. A line that does not fit is dropped as a whole and counted, and
//! the log contains the number as soon as it is read again. Lines keep their order. Before [`start`],
//! which only servers call, lines are written by the thread that logs.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Maximum bytes that wait to be written.
const WAITING_MAX: usize = 1 << 20;
/// How long the end of the process waits until the last lines are read.
const PATIENCE: Duration = Duration::from_secs(1);

/// The lines of this process, after the thread was started.
static LINES: OnceLock<Arc<Lines>> = OnceLock::new();

/// Lines that wait for the writer.
struct Lines {
    waiting: Mutex<Waiting>,
    /// Signals that there are lines.
    news: Condvar,
    /// Signals that all lines are written.
    idle: Condvar,
}

struct Waiting {
    bytes: Vec<u8>,
    /// Whether the thread is writing.
    writing: bool,
    dropped: u64,
    /// Dropped lines that are not yet reported in the log.
    unreported: u64,
}

impl Lines {
    fn new() -> Self {
        // Allocated here: otherwise later growth would be counted for the thread that logs.
        let bytes = Vec::with_capacity(WAITING_MAX);
        let waiting = Waiting { bytes, writing: false, dropped: 0, unreported: 0 };
        Self { waiting: Mutex::new(waiting), news: Condvar::new(), idle: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.bytes.len() + line.len() > WAITING_MAX {
            waiting.dropped += 1;
            waiting.unreported += 1;
            return;
        }
        waiting.bytes.extend_from_slice(line);
        self.news.notify_one();
    }

    /// Waits for lines and swaps them with the empty buffer; returns how many were dropped before.
    fn take(&self, written: &mut Vec<u8>) -> u64 {
        let mut waiting = self.lock();
        waiting.writing = false;
        while waiting.bytes.is_empty() {
            self.idle.notify_all();
            waiting = self.news.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.writing = true;
        std::mem::swap(&mut waiting.bytes, written);
        std::mem::take(&mut waiting.unreported)
    }

    /// Writes lines forever; `report` creates the line with the number of dropped ones.
    fn write_to(&self, mut output: impl Write, report: impl Fn(u64)) {
        let mut taken = Vec::with_capacity(WAITING_MAX);
        loop {
            let dropped = self.take(&mut taken);
            // There is no other place to report an error.
            let _ = output.write_all(&taken);
            taken.clear();
            if dropped > 0 {
                report(dropped);
            }
        }
    }

    /// Waits until all lines are written, at most for `patience`; returns whether they are.
    fn finish(&self, patience: Duration) -> bool {
        let pending = |waiting: &mut Waiting| waiting.writing || !waiting.bytes.is_empty();
        let waited = self.idle.wait_timeout_while(self.lock(), patience, pending);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Starts the thread that writes, once per process.
pub fn start() -> io::Result<()> {
    if LINES.get().is_some() {
        return Ok(());
    }
    // Without the lock of `io::stderr`: a write that does not return would keep it locked.
    let output = std::fs::File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let lines = Arc::new(Lines::new());
    let writer = Arc::clone(&lines);
    let report =
        |lines| tracing::warn!(lines, "lines of this log were dropped because it was not read in time");
    std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_to(output, report))?;
    // Only after the thread was started: until then lines are written by the thread that logs.
    let _ = LINES.set(lines);
    Ok(())
}

/// Writes a line with its line feed, or queues it for the thread.
pub fn write(line: &[u8]) {
    match LINES.get() {
        Some(lines) => lines.add(line),
        // There is no other place to report an error.
        None => drop(io::stderr().lock().write_all(line)),
    }
}

/// Number of dropped lines.
pub fn dropped() -> u64 {
    LINES.get().map_or(0, |lines| lines.lock().dropped)
}

/// Waits up to a second until the last lines are read, at the end of the process.
pub fn finish() {
    if let Some(lines) = LINES.get() {
        lines.finish(PATIENCE);
    }
}

/// Ends the process after its log is written.
pub fn exit(code: i32) -> ! {
    finish();
    std::process::exit(code)
}

/// Writer of the log's events: one event at a time.
#[derive(Clone, Copy, Debug)]
pub struct Event;

impl Write for Event {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader that blocks until it gets a signal, and returns what it read.
    struct Reader(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn logging_does_not_wait_for_a_reader_that_stopped_and_reports_dropped_lines() {
        let lines = Arc::new(Lines::new());
        let ((go_on, may), (shown, taken)) = (channel(), channel());
        let writer = Arc::clone(&lines);
        let reporter = Arc::clone(&lines);
        let report = move |dropped: u64| reporter.add(format!("dropped {dropped}\n").as_bytes());
        std::thread::Builder::new().spawn(move || writer.write_to(Reader(may, shown), report)).unwrap();
        lines.add(b"first\n");
        while !lines.lock().writing {
            std::thread::yield_now();
        }
        // The thread is blocked in its reader: lines wait while they fit, the rest is dropped, without
        // blocking.
        let line = [&[b'x'; 1_023][..], b"\n"].concat();
        (0..WAITING_MAX / 1_024 + 3).for_each(|_| lines.add(&line));
        assert_eq!(lines.lock().dropped, 3);
        assert!(!lines.finish(Duration::from_millis(1)), "lines are waiting");
        (0..3).for_each(|_| go_on.send(()).unwrap());
        assert_eq!(taken.recv().unwrap(), b"first\n");
        assert_eq!(taken.recv().unwrap().len(), WAITING_MAX);
        assert_eq!(taken.recv().unwrap(), b"dropped 3\n");
        assert!(lines.finish(Duration::MAX), "all lines were read");
        assert_eq!(lines.lock().dropped, 3);
    }

    #[test]
    fn a_line_that_can_never_fit_is_dropped() {
        let lines = Lines::new();
        lines.add(&[b'x'; WAITING_MAX + 1]);
        lines.add(&[b'x'; WAITING_MAX]);
        let waiting = lines.lock();
        assert_eq!((waiting.dropped, waiting.bytes.len()), (1, WAITING_MAX));
    }
}
