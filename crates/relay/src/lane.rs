//! The queue in memory of one connection to a target.
//!
//! **Invariants.** At most `limit` bytes are queued, each reserved from the relay's budget. Chunks are
//! in the order of arrival. A name always uses the same lane, so its points stay in order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_memory::Reservation;
use tokio::sync::Notify;

/// Bytes up to which a chunk is filled.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Lines that are written in one call.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) lines: Vec<u8>,
    pub(crate) points: u32,
    /// When its first line arrived.
    pub(crate) since: Duration,
    /// Its memory. `None` if it was read from disk; its memory then is part of the lane's reservation.
    pub(crate) held: Option<Reservation>,
}

struct Waiting {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    held: Reservation,
}

/// The queue.
pub(crate) struct Lane {
    waiting: Mutex<Waiting>,
    limit: usize,
    /// Notified when lines are queued, and when the queue is nearly full.
    pub(crate) wake: Notify,
    /// Notified when the queue is more than half full: it is time to spill.
    pub(crate) crowded: Notify,
}

impl Lane {
    /// A lane that adds its bytes to an existing reservation.
    pub(crate) fn new(limit: usize, held: Reservation) -> Self {
        let waiting = Mutex::new(Waiting { chunks: VecDeque::new(), bytes: 0, held });
        Self { waiting, limit, wake: Notify::new(), crowded: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues lines. Returns the bytes in the queue, or `None` when there is no room.
    pub(crate) fn push(&self, lines: &[u8], points: u32, now: Duration) -> Option<usize> {
        let mut waiting = self.waiting();
        let fits = waiting.bytes + lines.len() <= self.limit;
        if !fits || waiting.held.grow(lines.len() as u64).is_err() {
            drop(waiting);
            self.crowded.notify_one();
            return None;
        }
        waiting.bytes += lines.len();
        match waiting.chunks.back_mut() {
            Some(last) if last.lines.len() + lines.len() <= CHUNK_BYTES => {
                last.lines.extend_from_slice(lines);
                last.points += points;
            }
            _ => waiting.chunks.push_back(Chunk { lines: lines.to_vec(), points, since: now, held: None }),
        }
        let bytes = waiting.bytes;
        drop(waiting);
        self.wake.notify_one();
        if bytes > self.limit / 2 {
            self.crowded.notify_one();
        }
        Some(bytes)
    }

    /// Removes and returns the oldest chunk.
    pub(crate) fn take(&self) -> Option<Chunk> {
        let mut waiting = self.waiting();
        let mut chunk = waiting.chunks.pop_front()?;
        waiting.bytes -= chunk.lines.len();
        chunk.held = Some(waiting.held.split(chunk.lines.len() as u64));
        Some(chunk)
    }

    /// Puts a chunk back in front of the queue.
    pub(crate) fn put_back(&self, mut chunk: Chunk) {
        let mut waiting = self.waiting();
        waiting.bytes += chunk.lines.len();
        if let Some(held) = chunk.held.take() {
            waiting.held.absorb(held);
        }
        waiting.chunks.push_front(chunk);
    }

    /// Returns when the oldest chunk arrived.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.waiting().chunks.front().map(|chunk| chunk.since)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.waiting().bytes
    }
}
