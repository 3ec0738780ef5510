//! The newest durable frames of this process's WAL in memory, for processes that follow it.
//!
//! **Invariants.** Frames are added in the order of their numbers, when they are durable and in no other
//! state. The frames in memory have no gap and end at [`RecentFrames::end`]. Their memory is reserved;
//! what does not fit is read from the bucket.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_runtime::Env;
use tokio::sync::watch;

/// The newest frames of one incarnation.
pub(crate) struct RecentFrames {
    budget: MemoryBudget,
    end: watch::Sender<u64>,
    kept: Mutex<VecDeque<(Bytes, Reservation)>>,
}

impl RecentFrames {
    /// Keeps as many frames as fit into the budget.
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        Self { budget, end: watch::Sender::new(0), kept: Mutex::default() }
    }

    /// Adds the frame `sequence`, which is durable.
    pub(super) fn add(&self, sequence: u64, bytes: Bytes) {
        let mut kept = self.kept();
        if *self.end.borrow() != sequence {
            kept.clear();
        }
        let memory = loop {
            match self.budget.reserve(bytes.len() as u64) {
                Ok(memory) => break Some(memory),
                Err(_) if kept.pop_front().is_some() => {}
                Err(_) => break None,
            }
        };
        match memory {
            Some(memory) => kept.push_back((bytes, memory)),
            None => kept.clear(),
        }
        drop(kept);
        self.end.send_replace(sequence + 1);
    }

    /// Returns the frames from `from` on, in total at most `most_bytes`, except for the first one, and the
    /// number after the last durable frame. With zero bytes there are no frames. `None` if they are not in
    /// memory.
    pub(crate) fn from(&self, from: u64, most_bytes: u64) -> Option<(Vec<Bytes>, u64)> {
        let kept = self.kept();
        let end = *self.end.borrow();
        let missing = end.checked_sub(from)?;
        let skipped = (kept.len() as u64).checked_sub(missing)?;
        let (mut frames, mut bytes) = (Vec::new(), 0u64);
        for (frame, _) in kept.iter().skip(skipped as usize) {
            bytes += frame.len() as u64;
            if bytes > most_bytes && (most_bytes == 0 || !frames.is_empty()) {
                break;
            }
            frames.push(frame.clone());
        }
        Some((frames, end))
    }

    /// Waits until frame `from` is durable, or for `wait`.
    pub(crate) async fn wait_for(&self, env: &Env, from: u64, wait: Duration) {
        let mut end = self.end.subscribe();
        // The sender lives as long as `self`.
        let _ = env.timeout(wait, end.wait_for(|end| *end > from)).await;
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(Bytes, Reservation)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize) -> Bytes {
        Bytes::from(vec![1; length])
    }

    #[test]
    fn the_newest_frames_are_kept_within_the_budget() {
        let budget = MemoryBudget::root("recent", 100);
        let recent = RecentFrames::new(budget.clone());
        assert_eq!(recent.from(0, 1_000), Some((vec![], 0)));
        assert_eq!(recent.from(1, 1_000), None, "a number that was never written");
        (0..5).for_each(|sequence| recent.add(sequence, frame(30)));
        assert_eq!(recent.from(1, 1_000), None, "a frame that is not in memory any more");
        assert_eq!(recent.from(2, 1_000).unwrap(), (vec![frame(30); 3], 5));
        assert_eq!(recent.from(2, 60).unwrap().0.len(), 2);
        assert_eq!(recent.from(2, 1).unwrap().0.len(), 1, "the first frame is always sent");
        assert_eq!(recent.from(2, 0).unwrap(), (vec![], 5), "only the end is asked for");
        assert_eq!(recent.from(5, 1).unwrap(), (vec![], 5));
        assert!(budget.used() <= 100);
        recent.add(5, frame(101));
        assert_eq!((recent.from(5, 1_000), budget.used()), (None, 0));
        assert_eq!(recent.from(6, 1_000), Some((vec![], 6)));
        recent.add(6, frame(7));
        assert_eq!(recent.from(6, 1_000), Some((vec![frame(7)], 7)));
    }
}
