//! The endurance of a device as a budget of bytes per day, and a fair way to stay within it.
//!
//! A token bucket that holds the bytes of one hour. While it is at least half full, every value is
//! admitted. Below that, values are admitted with a probability that falls with the level. So under a
//! steady excess of offers the rate settles at the budget, and the values written are a sample of all
//! offers instead of the first ones of each hour. (CacheLib's "dynamic random" admission has the same
//! aim; the feedback by level is ours.) Values that save more requests per byte are thinned less.
//!
//! **Invariants.** Over any time, bytes spent by thinned writes are at most the bucket, plus the rate
//! times the time, plus one value. Writes that are exempt from thinning can overdraw the bucket, and are
//! then paid back before anything else is admitted. All methods take a shared reference; concurrent
//! threads may admit one value each too many.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Level, as a share of the bucket, from which on no value is thinned.
const FREE_LEVEL: f64 = 0.5;
/// Bytes whose transfer costs about as much as one request: a store sends them in the duration of a
/// request (some 30 ms at 100 MB/s), which is also about the ratio of the list prices of a request and
/// of a byte read.
const REQUEST_BYTES: f64 = 3.0e6;
/// Weight of the newest value in the running mean of sizes.
const MEAN_WEIGHT: f64 = 1.0 / 256.0;

/// The budget per day, and the bytes that are left.
#[derive(Debug)]
pub(crate) struct WriteBudget {
    bytes_per_day: u64,
    /// Bytes left; below zero after exempt writes beyond the budget.
    left: AtomicI64,
    /// Time in milliseconds up to which the bucket was filled.
    filled_at_ms: AtomicU64,
    /// Mean size of the offered values, as the bits of an `f64`.
    mean_bytes: AtomicU64,
}

impl WriteBudget {
    /// A full bucket. 0 bytes per day means no limit.
    pub(crate) fn new(bytes_per_day: u64) -> Self {
        Self {
            bytes_per_day,
            left: AtomicI64::new(bucket_bytes(bytes_per_day)),
            filled_at_ms: AtomicU64::new(0),
            mean_bytes: AtomicU64::new(0f64.to_bits()),
        }
    }

    /// Whether a value of `bytes` may be written now; `draw` is a random number in [0, 1).
    pub(crate) fn admits(&self, bytes: u64, now_ms: u64, draw: f64) -> bool {
        if self.bytes_per_day == 0 {
            return true;
        }
        self.fill(now_ms);
        let mean = self.note_size(bytes as f64);
        let level = self.left.load(Relaxed) as f64 / bucket_bytes(self.bytes_per_day) as f64;
        if level <= 0.0 {
            return false;
        }
        let worth = saved_per_byte(bytes as f64) / saved_per_byte(mean);
        draw < level / FREE_LEVEL * worth || level >= FREE_LEVEL
    }

    /// Counts bytes written, of admitted values and of others.
    pub(crate) fn spend(&self, bytes: u64) {
        if self.bytes_per_day > 0 {
            self.left.fetch_sub(bytes as i64, Relaxed);
        }
    }

    fn fill(&self, now_ms: u64) {
        let from = self.filled_at_ms.load(Relaxed);
        if from == 0 {
            // The first call sets the clock; the bucket is full already.
            let _ = self.filled_at_ms.compare_exchange(0, now_ms.max(1), Relaxed, Relaxed);
            return;
        }
        let gain = u128::from(now_ms.saturating_sub(from)) * u128::from(self.bytes_per_day) / 86_400_000;
        if gain == 0 || self.filled_at_ms.compare_exchange(from, now_ms, Relaxed, Relaxed).is_err() {
            return;
        }
        let full = bucket_bytes(self.bytes_per_day);
        let gain = i64::try_from(gain).unwrap_or(full).min(full);
        let level = self.left.fetch_add(gain, Relaxed) + gain;
        if level > full {
            self.left.fetch_sub(level - full, Relaxed);
        }
    }

    fn note_size(&self, bytes: f64) -> f64 {
        let former = f64::from_bits(self.mean_bytes.load(Relaxed));
        let mean = if former == 0.0 { bytes } else { former + (bytes - former) * MEAN_WEIGHT };
        self.mean_bytes.store(mean.to_bits(), Relaxed);
        mean
    }
}

/// Size of the bucket: the bytes of one hour.
fn bucket_bytes(bytes_per_day: u64) -> i64 {
    ((bytes_per_day / 24) as i64).max(1)
}

/// Cost of a read from the store that a hit saves, per byte kept: a request, and the transfer.
fn saved_per_byte(bytes: f64) -> f64 {
    1.0 / bytes.max(1.0) + 1.0 / REQUEST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;

    /// Offers values of one size, `wish` bytes per day. Returns the bytes written on the second day, and
    /// the longest pause between two writes in ms.
    fn second_day(budget: u64, wish: u64, size: u64) -> (u64, u64) {
        let budget = WriteBudget::new(budget);
        let (mut state, mut written, mut last, mut pause) = (1u64, 0, DAY_MS, 0);
        let step = DAY_MS * size / wish;
        for at in 1..2 * DAY_MS / step {
            let now = at * step;
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if budget.admits(size, now, (state >> 11) as f64 / (1u64 << 53) as f64) {
                budget.spend(size);
                if now >= DAY_MS {
                    written += size;
                    pause = pause.max(now - last);
                    last = now;
                }
            }
        }
        (written, pause)
    }

    #[test]
    fn a_steady_excess_is_thinned_to_the_budget_without_pauses() {
        let (written, pause) = second_day(100_000_000, 1_000_000_000, 10_000);
        assert!((97_000_000..=103_000_000).contains(&written), "{written}");
        assert!(pause < 5 * 60_000, "a pause of {pause} ms: values were admitted in bursts");
    }

    #[test]
    fn offers_below_the_budget_are_all_written() {
        let (written, _) = second_day(100_000_000, 90_000_000, 10_000);
        assert!(written >= 89_900_000, "{written}");
        let unlimited = WriteBudget::new(0);
        assert!(unlimited.admits(u64::MAX, 0, 0.999));
    }

    #[test]
    fn small_values_are_thinned_less_than_large_ones() {
        let budget = WriteBudget::new(24_000_000);
        let (mut state, mut admitted, mut asked) = (7u64, [0u32; 2], [0u32; 2]);
        for at in 0..200_000u64 {
            let kind = (at % 2) as usize;
            let size = [10_000, 1_000_000][kind];
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            asked[kind] += 1;
            if budget.admits(size, 1 + at * 1_000, (state >> 11) as f64 / (1u64 << 53) as f64) {
                admitted[kind] += 1;
                budget.spend(size);
            }
        }
        let part = |kind: usize| f64::from(admitted[kind]) / f64::from(asked[kind]);
        assert!(part(0) > 10.0 * part(1) && part(1) > 0.0, "{} and {}", part(0), part(1));
    }

    #[test]
    fn exempt_writes_are_paid_back() {
        let budget = WriteBudget::new(24_000);
        assert!(budget.admits(1, 1, 0.5));
        budget.spend(2_500);
        assert!(!budget.admits(1, 2, 0.0), "overdrawn");
        assert!(!budget.admits(1, 1 + 3_600_000, 0.0), "an hour does not pay back 1,500 bytes");
        assert!(budget.admits(1, 1 + 2 * 3_600_000, 0.0));
    }
}
