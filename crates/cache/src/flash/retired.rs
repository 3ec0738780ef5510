//! Retired slots: out of use since a write to them failed, and tried again with back-off.
//!
//! A device that refuses a write occasionally stays in use, and every refusal takes a slot from it. Each
//! slot is tried separately after a pause: if its superblock can be overwritten, the slot is free again.
//! A slot that fails again before it has held a complete segment gets a longer pause. When the device
//! comes back after it was out of use as a whole, all slots are tried at once.
//!
//! Invariant: a slot is tried again only when the index has no entry for it any more.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_runtime::Backoff;

/// Pauses before attempts.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// The retired slots. See the module.
#[derive(Default)]
pub(super) struct Retired(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    /// The slots by the time of their next attempt.
    due: BTreeSet<(Duration, u32)>,
    /// Consecutive failures of slots that have not held a complete segment since.
    failures: HashMap<u32, u32>,
}

impl Retired {
    /// Adds a slot after a failed write to it. The index must have no entry for it any more.
    pub fn add(&self, slot: u32, now: Duration) {
        let mut lines = self.lock();
        let failures = lines.failures.entry(slot).or_default();
        let pause = BACKOFF.pause(*failures);
        *failures = failures.saturating_add(1).min(u32::BITS - 1);
        lines.due.insert((now + pause, slot));
    }

    /// Resets the failures of a slot that holds a complete segment.
    pub fn is_sound(&self, slot: u32) {
        self.lock().failures.remove(&slot);
    }

    /// Makes all attempts due now.
    pub fn hurry(&self) {
        let mut lines = self.lock();
        lines.due = lines.due.iter().map(|&(_, slot)| (Duration::ZERO, slot)).collect();
    }

    /// Takes a slot whose attempt is due.
    pub fn take_due(&self, now: Duration) -> Option<u32> {
        let mut lines = self.lock();
        let &(due, slot) = lines.due.first()?;
        if due > now {
            return None;
        }
        lines.due.pop_first();
        Some(slot)
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_until_a_segment_is_complete_or_the_device_is_back() {
        let retired = Retired::default();
        retired.add(3, SECOND);
        retired.add(4, SECOND);
        assert_eq!(retired.take_due(SECOND), None);
        assert_eq!(retired.take_due(SECOND * 2), Some(3));
        assert_eq!(retired.take_due(SECOND * 2), Some(4));
        retired.is_sound(4);
        retired.add(3, SECOND * 2);
        retired.add(4, SECOND * 2);
        assert_eq!(retired.take_due(SECOND * 3), Some(4));
        assert_eq!(retired.take_due(SECOND * 3), None);
        retired.hurry();
        assert_eq!(retired.take_due(SECOND * 3), Some(3));
        let longest = (0..100).map(|_| retired.add(5, SECOND)).last();
        assert_eq!(
            longest.map(|()| retired.lock().due.last().copied()),
            Some(Some((BACKOFF.pause(u32::MAX) + SECOND, 5)))
        );
    }
}
