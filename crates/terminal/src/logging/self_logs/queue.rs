//! Lines that wait for the store: bounded, oldest first; lines that do not fit are counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A line and its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Nanoseconds since the epoch; every line of a process has a different one.
    pub timestamp: i64,
    /// The component of the server.
    pub component: Box<str>,
    /// Severity.
    pub level: &'static str,
    /// The line.
    pub line: String,
}

/// Bytes that a line counts in addition to its text.
const LINE_BYTES: usize = 96;

impl Waiting {
    fn bytes(&self) -> usize {
        self.line.len() + self.component.len() + LINE_BYTES
    }
}

/// The queue between the log and the store.
pub struct Queue {
    limit: usize,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Waiting>,
    bytes: usize,
    last: i64,
    dropped: u64,
    closed: bool,
}

impl Queue {
    /// A queue of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { limit, state: Mutex::default(), news: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line, if there is room.
    pub fn push(&self, mut waiting: Waiting) {
        let mut state = self.lock();
        if state.closed || state.bytes + waiting.bytes() > self.limit {
            state.dropped += 1;
            return;
        }
        // Equal rows with the same time are stored once, so every line needs a different time.
        waiting.timestamp = waiting.timestamp.max(state.last + 1);
        state.last = waiting.timestamp;
        state.bytes += waiting.bytes();
        let first = state.lines.is_empty();
        state.lines.push_back(waiting);
        drop(state);
        if first {
            self.news.notify_one();
        }
    }

    /// Takes the oldest lines of at most `bytes`, but at least one.
    pub fn take(&self, bytes: usize) -> Vec<Waiting> {
        let mut state = self.lock();
        let (mut taken, mut sum) = (Vec::new(), 0);
        while let Some(next) = state.lines.front().map(Waiting::bytes) {
            if !taken.is_empty() && sum + next > bytes {
                break;
            }
            sum += next;
            taken.extend(state.lines.pop_front());
        }
        state.bytes -= sum;
        taken
    }

    /// Puts back lines that could not be stored; lines that no longer fit are dropped.
    pub fn put_back(&self, lines: Vec<Waiting>) {
        let mut state = self.lock();
        for line in lines.into_iter().rev() {
            if state.bytes + line.bytes() > self.limit {
                state.dropped += 1;
            } else {
                state.bytes += line.bytes();
                state.lines.push_front(line);
            }
        }
    }

    /// Lines that were dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.lock().dropped)
    }

    /// Waits until there are lines, or the queue is closed.
    pub async fn wait(&self) {
        while self.is_idle() {
            self.news.notified().await;
        }
    }

    fn is_idle(&self) -> bool {
        let state = self.lock();
        !state.closed && state.lines.is_empty()
    }

    /// Accepts no more lines; wakes the waiting task.
    pub fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Waits until the queue is closed. Only one task may wait, here or in [`Queue::wait`].
    pub async fn closed(&self) {
        while !self.is_closed() {
            self.news.notified().await;
        }
    }

    /// Whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(timestamp: i64, text: &str) -> Waiting {
        Waiting { timestamp, component: "c".into(), level: "info", line: text.to_owned() }
    }

    #[test]
    fn lines_that_do_not_fit_are_dropped_and_counted() {
        let queue = Queue::new(2 * (LINE_BYTES as u64 + 6));
        queue.push(line(5, "first"));
        queue.push(line(5, "other"));
        queue.push(line(5, "third"));
        assert_eq!(queue.take_dropped(), 1);
        assert_eq!(queue.take_dropped(), 0, "each line is counted once");
        let taken = queue.take(1);
        assert_eq!(taken, [line(5, "first")]);
        let rest = queue.take(1 << 20);
        assert_eq!(rest, [line(6, "other")], "no two lines have the same time");
        queue.push(line(9, "x"));
        queue.put_back(vec![line(7, "old"), line(8, "older")]);
        let order: Vec<i64> = queue.take(1 << 20).iter().map(|l| l.timestamp).collect();
        assert_eq!((order, queue.take_dropped()), (vec![8, 9], 1), "the oldest is dropped first");
        queue.close();
        queue.push(line(10, "late"));
        assert!(queue.is_closed() && queue.take(1 << 20).is_empty());
    }
}
