//! Standard error of a server, written by a thread of its own.
//!
//! Whoever reads a log may stop: a collector that hangs, a pager that somebody left open, a disk that stalls.
//! A write to such a reader does not return, so no thread that serves writes: it leaves its line here.
//!
//! **Invariants.** At most 1 MiB waits. A line that does not fit is dropped as a whole and counted, and the
//! log says how many as soon as it is read again. Lines stay in their order. Before [`start`], which commands
//! that do not serve never call, lines are written by whom they come from.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes that may wait to be written.
const WAITING_MAX: usize = 1 << 20;
/// How long the end of the process waits for the last lines to be read.
const PATIENCE: Duration = Duration::from_secs(1);

/// The lines of this process, once a thread writes them.
static LINES: OnceLock<Arc<Lines>> = OnceLock::new();

/// Lines on their way to a reader.
struct Lines {
    waiting: Mutex<Waiting>,
    /// Something waits.
    news: Condvar,
    /// Everything was written.
    idle: Condvar,
}

struct Waiting {
    bytes: Vec<u8>,
    /// Whether the thread writes what it took.
    writing: bool,
    dropped: u64,
    /// Those of them that the log has not told of.
    untold: u64,
}

impl Lines {
    fn new() -> Self {
        // Allocated here: later growth would be charged to whoever logs.
        let bytes = Vec::with_capacity(WAITING_MAX);
        let waiting = Waiting { bytes, writing: false, dropped: 0, untold: 0 };
        Self { waiting: Mutex::new(waiting), news: Condvar::new(), idle: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8]) {
        let mut waiting = self.lock();
        if waiting.bytes.len() + line.len() > WAITING_MAX {
            waiting.dropped += 1;
            waiting.untold += 1;
            return;
        }
        waiting.bytes.extend_from_slice(line);
        self.news.notify_one();
    }

    /// Waits for lines and swaps them for the empty buffer; gives how many were dropped before.
    fn take(&self, written: &mut Vec<u8>) -> u64 {
        let mut waiting = self.lock();
        waiting.writing = false;
        while waiting.bytes.is_empty() {
            self.idle.notify_all();
            waiting = self.news.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.writing = true;
        std::mem::swap(&mut waiting.bytes, written);
        std::mem::take(&mut waiting.untold)
    }

    /// Writes lines for ever; `tell` makes the line that says how many were dropped.
    fn write_to(&self, mut output: impl Write, tell: impl Fn(u64)) {
        let mut taken = Vec::with_capacity(WAITING_MAX);
        loop {
            let dropped = self.take(&mut taken);
            // There is no place left to report an error.
            let _ = output.write_all(&taken);
            taken.clear();
            if dropped > 0 {
                tell(dropped);
            }
        }
    }

    /// Waits until everything was written, or for as long as that; whether it was.
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
    // Not behind the lock of `io::stderr`: a write that does not return would hold it.
    let output = std::fs::File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let lines = Arc::new(Lines::new());
    let writer = Arc::clone(&lines);
    let tell = |lines| tracing::warn!(lines, "lines of this log were dropped: it was not read in time");
    std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_to(output, tell))?;
    // Not before the thread is there: until then lines are written by whom they come from.
    let _ = LINES.set(lines);
    Ok(())
}

/// Writes a line with its end, or leaves it to the thread that does.
pub fn write(line: &[u8]) {
    match LINES.get() {
        Some(lines) => lines.add(line),
        // There is no place left to report an error.
        None => drop(io::stderr().lock().write_all(line)),
    }
}

/// Lines that were dropped.
pub fn dropped() -> u64 {
    LINES.get().map_or(0, |lines| lines.lock().dropped)
}

/// Gives the last lines a second to be read: for the end of the process.
pub fn finish() {
    if let Some(lines) = LINES.get() {
        lines.finish(PATIENCE);
    }
}

/// Ends the process at once, after what it logged.
pub fn exit(code: i32) -> ! {
    finish();
    std::process::exit(code)
}

/// What writes the events of the log: one at a time.
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

    /// A reader that takes nothing until it is told to, and shows what it took.
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
    fn nobody_waits_for_a_reader_that_stopped_and_the_log_tells_what_it_lost() {
        let lines = Arc::new(Lines::new());
        let ((go_on, may), (shown, taken)) = (channel(), channel());
        let writer = Arc::clone(&lines);
        let teller = Arc::clone(&lines);
        let tell = move |dropped: u64| teller.add(format!("dropped {dropped}\n").as_bytes());
        std::thread::Builder::new().spawn(move || writer.write_to(Reader(may, shown), tell)).unwrap();
        lines.add(b"first\n");
        while !lines.lock().writing {
            std::thread::yield_now();
        }
        // The thread is at its reader: what fits waits, the rest is dropped, and nobody is held up.
        let line = [&[b'x'; 1_023][..], b"\n"].concat();
        (0..WAITING_MAX / 1_024 + 3).for_each(|_| lines.add(&line));
        assert_eq!(lines.lock().dropped, 3);
        assert!(!lines.finish(Duration::from_millis(1)), "something waits");
        (0..3).for_each(|_| go_on.send(()).unwrap());
        assert_eq!(taken.recv().unwrap(), b"first\n");
        assert_eq!(taken.recv().unwrap().len(), WAITING_MAX);
        assert_eq!(taken.recv().unwrap(), b"dropped 3\n");
        assert!(lines.finish(Duration::MAX), "everything was read");
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
