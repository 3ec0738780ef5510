//! Lines that wait in memory for one connection of a target.
//!
//! **Invariants.** At most `limit` bytes wait, each of them reserved from the relay's budget. Chunks are in
//! the order of arrival, and a name always takes the same lane, so that its points stay in their order.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::Reservation;
use tokio::sync::Notify;

/// Bytes that a chunk is filled up to.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Lines that are written together.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) lines: Vec<u8>,
    pub(crate) points: u32,
    /// When its first line came.
    pub(crate) since: Duration,
    /// Its memory, unless it comes from a disk, when it is part of what its lane holds.
    pub(crate) held: Option<Reservation>,
}

struct Waiting {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    held: Reservation,
}

/// What waits.
pub(crate) struct Lane {
    waiting: Mutex<Waiting>,
    limit: usize,
    /// Told when something waits, or is about to be too much.
    pub(crate) wake: Notify,
    /// Told when more than a half waits: it is time to spill.
    pub(crate) crowded: Notify,
}

impl Lane {
    /// A lane whose bytes are added to what is held already.
    pub(crate) fn new(limit: usize, held: Reservation) -> Self {
        let waiting = Mutex::new(Waiting { chunks: VecDeque::new(), bytes: 0, held });
        Self { waiting, limit, wake: Notify::new(), crowded: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds lines; gives the bytes that wait, or nothing when there is no room.
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

    /// The oldest chunk.
    pub(crate) fn take(&self) -> Option<Chunk> {
        let mut waiting = self.waiting();
        let mut chunk = waiting.chunks.pop_front()?;
        waiting.bytes -= chunk.lines.len();
        chunk.held = Some(waiting.held.split(chunk.lines.len() as u64));
        Some(chunk)
    }

    /// Puts the oldest chunk back.
    pub(crate) fn put_back(&self, mut chunk: Chunk) {
        let mut waiting = self.waiting();
        waiting.bytes += chunk.lines.len();
        if let Some(held) = chunk.held.take() {
            waiting.held.absorb(held);
        }
        waiting.chunks.push_front(chunk);
    }

    /// When the oldest chunk came.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.waiting().chunks.front().map(|chunk| chunk.since)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.waiting().bytes
    }
}
