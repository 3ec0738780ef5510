//! The bound on concurrent reads of WAL segments of other writers.
//!
//! A read of a segment holds a slot until its rows are in memory, so the slots also bound the memory of
//! segments that were read and not decoded. Slots are given in the order of the requests, so no writer waits
//! longer than one turn of each other writer.
//!
//! **Invariant.** A writer whose WAL is read slowly uses slots of its own kind, so it cannot take those of
//! the others for longer than one turn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::options::EngineOptions;

/// The bounds of the number of slots for writers that are read fast.
const FAST: (u64, u64) = (8, 64);
/// Segments of full size that are read at once may take this fraction (half) of the memory of writes.
const PART: u64 = 2;
/// The number of slots for writers that are read slowly.
const SLOW: usize = 8;
/// The most segments of one writer that are read concurrently.
const READ_AHEAD: usize = 8;

/// Whether the WAL of a writer was read fast at the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    /// It was, or nothing is known.
    Fast,
    /// The store did not answer within a turn.
    Slow,
}

/// The slots of a process.
pub(super) struct ReadSlots {
    fast: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

impl ReadSlots {
    pub(super) fn new(options: &EngineOptions) -> Self {
        let frame = (options.wal_frame_bytes).max(1);
        let fast = (options.write_bytes_always() / PART / frame).clamp(FAST.0, FAST.1);
        let semaphore = |slots| Arc::new(Semaphore::new(slots));
        Self { fast: semaphore(usize::try_from(fast).unwrap_or(1)), slow: semaphore(SLOW) }
    }

    fn of(&self, speed: Speed) -> &Arc<Semaphore> {
        match speed {
            Speed::Fast => &self.fast,
            Speed::Slow => &self.slow,
        }
    }

    /// Waits for a slot.
    pub(super) async fn one(&self, speed: Speed) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(self.of(speed)).acquire_owned().await.ok()
    }

    /// Takes up to `most` further slots for reading ahead, if they are free and nobody waits for them.
    pub(super) fn more(&self, speed: Speed, most: u64) -> Vec<OwnedSemaphorePermit> {
        let take = || Arc::clone(self.of(speed)).try_acquire_owned().ok();
        let most = usize::try_from(most).unwrap_or(READ_AHEAD).min(READ_AHEAD - 1);
        std::iter::from_fn(take).take(most).collect()
    }
}
