//! Whether anybody asks for what comes to flash on probation.
//!
//! A value that answers a question was missed before it came. Where next to nothing that comes was missed,
//! clients write without reading, such as a job that publishes its results: then nobody waits for what came
//! first to be found again, and what was written last is worth no less than it.
//!
//! **Invariants.** Counts are of about the last [`WINDOW_SHARE`]th of the capacity that came, and of no fewer
//! than half of [`WINDOW_VALUES`] values. Nothing here waits; what several threads count at once may be off
//! by their number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// After this part of the capacity what was counted before counts half.
const WINDOW_SHARE: u64 = 32;
/// But not after fewer values than this: one miss would be remembered for ever, or for nothing.
const WINDOW_VALUES: u64 = 64;
/// Values that may come for each that was missed. Negative lookups and values that go before they get to
/// flash make the misses many more than what comes, and whatever is written through makes them fewer.
const CAME_PER_MISS: u64 = 16;

/// Counts of values.
#[derive(Debug, Default)]
pub(super) struct Demand {
    missed: AtomicU64,
    came: AtomicU64,
    came_bytes: AtomicU64,
}

impl Demand {
    /// Somebody asked for a value that is nowhere.
    pub fn missed(&self) {
        self.missed.fetch_add(1, Relaxed);
    }

    /// A value of so many bytes came on probation to a tier of `capacity` bytes.
    pub fn came(&self, bytes: u64, capacity: u64) {
        let came = self.came.fetch_add(1, Relaxed) + 1;
        let came_bytes = self.came_bytes.fetch_add(bytes, Relaxed) + bytes;
        if came_bytes > capacity / WINDOW_SHARE && came >= WINDOW_VALUES {
            self.came_bytes.store(0, Relaxed);
            for count in [&self.missed, &self.came] {
                count.store(count.load(Relaxed) / 2, Relaxed);
            }
        }
    }

    /// Whether it is asked for. Not without evidence.
    pub fn is_wanted(&self) -> bool {
        let missed = self.missed.load(Relaxed);
        missed > 0 && missed.saturating_mul(CAME_PER_MISS) >= self.came.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 32_000;

    #[test]
    fn what_is_written_without_having_been_missed_is_not_wanted() {
        let demand = Demand::default();
        assert!(!demand.is_wanted(), "nobody has asked for anything");
        demand.missed();
        (0..16).for_each(|_| demand.came(10, CAPACITY));
        assert!(demand.is_wanted());
        demand.came(10, CAPACITY);
        assert!(!demand.is_wanted(), "one of seventeen");
    }

    #[test]
    fn values_of_any_size_are_wanted_for_their_own_misses_alone() {
        for bytes in [10, 400, 2_000] {
            let (asked_once, asked_always) = (Demand::default(), Demand::default());
            asked_once.missed();
            for _ in 0..200 {
                asked_once.came(bytes, CAPACITY);
                asked_always.missed();
                asked_always.came(bytes, CAPACITY);
                assert!(asked_always.is_wanted(), "values of {bytes} bytes");
            }
            assert!(!asked_once.is_wanted(), "values of {bytes} bytes");
        }
    }

    #[test]
    fn what_comes_soon_outweighs_what_was_counted_before() {
        let demand = Demand::default();
        let (fill, publish) = (|| (demand.missed(), demand.came(10, CAPACITY)), || demand.came(10, CAPACITY));
        (0..10_000).for_each(|_| _ = fill());
        (0..300).for_each(|_| publish());
        assert!(demand.is_wanted(), "a burst is no habit");
        (0..1_000).for_each(|_| publish());
        assert!(!demand.is_wanted());
        (0..100).for_each(|_| _ = fill());
        assert!(demand.is_wanted());
    }
}
