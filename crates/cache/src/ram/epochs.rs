//! `flush_all`: decides which items are void.
//!
//! Every item carries the number of the epoch in which it was written. A flush begins a new epoch, and
//! items of older ones are void. That is O(1) for any number of items, and exact to the write, whereas a
//! comparison of times would be exact to the second. A flush may be scheduled: the first call that sees
//! its time begins the epoch.
//!
//! Invariant: an epoch read before the lookup of an item may be stored with that item, but not one read
//! later. Otherwise an item from before a flush would pass for one from after it.

use std::sync::atomic::{AtomicU32, Ordering};

/// The current epoch and the scheduled flush.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    present: AtomicU32,
    /// When the next epoch begins, in seconds since 1970; 0 when no flush is scheduled.
    due_at: AtomicU32,
}

impl Epochs {
    /// The epoch at `now`. If a flush is due, begins a new epoch, after calling `first`.
    pub fn at(&self, now: u32, first: impl FnOnce()) -> u32 {
        let due_at = self.due_at.load(Ordering::Acquire);
        if due_at != 0 && due_at <= now {
            // If two calls see the time at once, one of them clears it and begins the epoch, in this
            // order, so that the other one at worst reads the epoch before.
            let cleared = self.due_at.compare_exchange(due_at, 0, Ordering::AcqRel, Ordering::Relaxed);
            if cleared.is_ok() {
                first();
                self.begin();
            }
        }
        self.present.load(Ordering::Acquire)
    }

    /// Voids everything written until now, and cancels a scheduled flush.
    pub fn flush(&self) {
        self.due_at.store(0, Ordering::Release);
        self.begin();
    }

    /// Schedules a flush that voids at `due_at` everything written until then. Replaces an earlier schedule.
    pub fn flush_at(&self, due_at: u32) {
        self.due_at.store(due_at.max(1), Ordering::Release);
    }

    /// When a flush is due, in seconds since 1970; 0 when none is scheduled.
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
    fn a_scheduled_flush_begins_its_epoch_once() {
        let epochs = Epochs::default();
        epochs.flush_at(10);
        assert_eq!((epochs.at(9, || ()), epochs.at(10, || ()), epochs.at(11, || ())), (0, 1, 1));
        epochs.flush_at(20);
        epochs.flush();
        assert_eq!(epochs.at(30, || ()), 2, "a flush now cancels the scheduled one");
    }
}
