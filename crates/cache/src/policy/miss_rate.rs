//! The miss rate of the values that flash admits on probation.
//!
//! A value that answers a read was missed before it was admitted. If almost no admitted value was
//! missed, clients write without reading, as a job that publishes its results does. Then no reader looks
//! for the oldest values again, and the newest are worth no less.
//!
//! **Invariants.** The counts cover about the last [`WINDOW_SHARE`]th of the capacity that was admitted,
//! and at least half of [`WINDOW_VALUES`] values. No method waits; concurrent counting may be off by the
//! number of threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// After this fraction of the capacity was admitted, earlier counts are halved.
const WINDOW_SHARE: u64 = 32;
/// The smallest number of values in the window, so that a single miss has neither too long nor too short
/// an effect.
const WINDOW_VALUES: u64 = 64;
/// Most values admitted per miss at a high miss rate. Negative lookups, and values that leave before
/// they reach flash, make misses more numerous than admissions; values that are written through make
/// them less numerous.
const ADMITTED_PER_MISS: u64 = 16;

/// Counts of misses and of admitted values.
#[derive(Debug, Default)]
pub(super) struct MissRate {
    misses: AtomicU64,
    admitted: AtomicU64,
    admitted_bytes: AtomicU64,
}

impl MissRate {
    /// Counts a lookup that missed in both tiers.
    pub fn note_miss(&self) {
        self.misses.fetch_add(1, Relaxed);
    }

    /// Counts a value of `bytes` bytes that was admitted on probation to a tier of `capacity` bytes.
    pub fn note_admitted(&self, bytes: u64, capacity: u64) {
        let admitted = self.admitted.fetch_add(1, Relaxed) + 1;
        let admitted_bytes = self.admitted_bytes.fetch_add(bytes, Relaxed) + bytes;
        if admitted_bytes > capacity / WINDOW_SHARE && admitted >= WINDOW_VALUES {
            self.admitted_bytes.store(0, Relaxed);
            for count in [&self.misses, &self.admitted] {
                count.store(count.load(Relaxed) / 2, Relaxed);
            }
        }
    }

    /// Whether there is at least one miss for sixteen admitted values. Without any miss the rate is low.
    pub fn is_high(&self) -> bool {
        let misses = self.misses.load(Relaxed);
        misses > 0 && misses.saturating_mul(ADMITTED_PER_MISS) >= self.admitted.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 32_000;

    #[test]
    fn writes_without_misses_have_a_low_miss_rate() {
        let rate = MissRate::default();
        assert!(!rate.is_high(), "there was no miss");
        rate.note_miss();
        (0..16).for_each(|_| rate.note_admitted(10, CAPACITY));
        assert!(rate.is_high());
        rate.note_admitted(10, CAPACITY);
        assert!(!rate.is_high(), "one of seventeen");
    }

    #[test]
    fn the_miss_rate_does_not_depend_on_the_size_of_values() {
        for bytes in [10, 400, 2_000] {
            let (missed_once, missed_always) = (MissRate::default(), MissRate::default());
            missed_once.note_miss();
            for _ in 0..200 {
                missed_once.note_admitted(bytes, CAPACITY);
                missed_always.note_miss();
                missed_always.note_admitted(bytes, CAPACITY);
                assert!(missed_always.is_high(), "values of {bytes} bytes");
            }
            assert!(!missed_once.is_high(), "values of {bytes} bytes");
        }
    }

    #[test]
    fn recent_counts_outweigh_older_ones() {
        let rate = MissRate::default();
        let (fill, publish) =
            (|| (rate.note_miss(), rate.note_admitted(10, CAPACITY)), || rate.note_admitted(10, CAPACITY));
        (0..10_000).for_each(|_| _ = fill());
        (0..300).for_each(|_| publish());
        assert!(rate.is_high(), "a burst does not outweigh the window");
        (0..1_000).for_each(|_| publish());
        assert!(!rate.is_high());
        (0..100).for_each(|_| _ = fill());
        assert!(rate.is_high());
    }
}
