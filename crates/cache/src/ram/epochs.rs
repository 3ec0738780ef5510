//! `flush_all`: which items are void.
//!
//! Every item carries the number of the epoch in which it was written; a flush begins a new epoch,
//! and items of older ones are void. That is O(1) however many items there are, and exact to the
//! write, where a comparison of times would be exact to the second. A flush may be set for later:
//! whichever call first sees its time come begins the epoch.
//!
//! Invariant: an epoch read before an item was looked up may be written with that item, but not one
//! read later: an item from before a flush must not pass for one from after it.

use std::sync::atomic::{AtomicU32, Ordering};

/// The present epoch and the flush to come.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    present: AtomicU32,
    /// When the next epoch begins, in seconds since the epoch of Unix; 0 when no flush is set.
    due_at: AtomicU32,
}

impl Epochs {
    /// The epoch at `now`; begins a new one when a flush is due, after `first` was done.
    pub fn at(&self, now: u32, first: impl FnOnce()) -> u32 {
        let due_at = self.due_at.load(Ordering::Acquire);
        if due_at != 0 && due_at <= now {
            // Two calls may both see the time come: one of them clears it and begins the epoch,
            // in this order, so that the other one at worst reads the epoch before.
            let cleared = self.due_at.compare_exchange(due_at, 0, Ordering::AcqRel, Ordering::Relaxed);
            if cleared.is_ok() {
                first();
                self.begin();
            }
        }
        self.present.load(Ordering::Acquire)
    }

    /// Voids everything written until now, and forgets a flush that was set for later.
    pub fn flush(&self) {
        self.due_at.store(0, Ordering::Release);
        self.begin();
    }

    /// Voids at `due_at` everything written until then. One such flush can be set at a time.
    pub fn flush_at(&self, due_at: u32) {
        self.due_at.store(due_at.max(1), Ordering::Release);
    }

    /// When a flush is due, in seconds since the epoch of Unix; 0 when none is set.
    pub fn due_at(&self) -> u32 {
        self.due_at.load(Ordering::Acquire)
    }

    fn begin(&self) {
        self.present.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_for_later_begins_its_epoch_once() {
        let epochs = Epochs::default();
        epochs.flush_at(10);
        assert_eq!((epochs.at(9, || ()), epochs.at(10, || ()), epochs.at(11, || ())), (0, 1, 1));
        epochs.flush_at(20);
        epochs.flush();
        assert_eq!(epochs.at(30, || ()), 2, "a flush now replaces the one set for later");
    }
}
