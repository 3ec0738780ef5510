//! Retired slots: out of use since a write to them failed, and tried again with back-off.
//!
//! A device that refuses a write now and then stays in use, and every refusal takes a slot from it. Each
//! slot is tried by itself after a pause: when its superblock can be made void, it is free again. A slot
//! that fails again before a segment there is whole has a longer pause. When the whole device was out of
//! use and is taken back, all are tried at once.
//!
//! Invariant: a slot is in line for another try only when nothing in the index points to it any more.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::Backoff;

/// The pauses before a slot is tried.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// See the module.
#[derive(Default)]
pub(super) struct Retired(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    /// When each slot is tried next.
    due: BTreeSet<(Duration, u32)>,
    /// Failures in a row of slots that have not held a whole segment since.
    failures: HashMap<u32, u32>,
}

impl Retired {
    /// A write to a slot failed; nothing points to it any more.
    pub fn add(&self, slot: u32, now: Duration) {
        let mut lines = self.lock();
        let failures = lines.failures.entry(slot).or_default();
        let pause = BACKOFF.pause(*failures);
        *failures = failures.saturating_add(1).min(u32::BITS - 1);
        lines.due.insert((now + pause, slot));
    }

    /// A segment there is whole.
    pub fn is_sound(&self, slot: u32) {
        self.lock().failures.remove(&slot);
    }

    /// All are tried again without waiting.
    pub fn hurry(&self) {
        let mut lines = self.lock();
        lines.due = lines.due.iter().map(|&(_, slot)| (Duration::ZERO, slot)).collect();
    }

    /// A slot whose pause is over.
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
    fn pauses_double_until_a_segment_is_whole_or_the_device_is_taken_back() {
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
