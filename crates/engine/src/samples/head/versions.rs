//! Counts the samples of a head by minute. The counts show whether a cached answer about some time may
//! be outdated.
//!
//! Most new samples are of the last minute, so results for earlier minutes stay valid while a head
//! grows. **Invariant:** a sample is counted after readers can see it.

use std::collections::BTreeMap;

/// Milliseconds of a slot, until there are more than [`SLOTS_MAX`].
const SLOT_MS: i64 = 60_000;
/// The most slots. Beyond that each becomes four times as long.
const SLOTS_MAX: usize = 1_024;

/// Numbers of samples by time slot.
pub(super) struct Versions {
    slot_ms: i64,
    slots: BTreeMap<i64, u64>,
}

/// Samples to be counted, most of them in one slot.
#[derive(Default)]
pub(super) struct Counting {
    counts: Vec<(i64, u64)>,
}

/// The samples of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) first_ms: i64,
    pub(super) last_ms: i64,
    pub(super) rows: u64,
}

impl Default for Versions {
    fn default() -> Self {
        Self { slot_ms: SLOT_MS, slots: BTreeMap::new() }
    }
}

impl Counting {
    /// Notes a sample.
    #[inline]
    pub(super) fn add(&mut self, time_ms: i64) {
        let slot = time_ms.div_euclid(SLOT_MS);
        match self.counts.last_mut() {
            Some((last, count)) if *last == slot => *count += 1,
            _ => self.counts.push((slot, 1)),
        }
    }
}

impl Versions {
    /// Adds counted samples.
    pub(super) fn count(&mut self, counting: Counting) {
        for (slot, count) in counting.counts {
            let slot = slot.div_euclid(self.slot_ms / SLOT_MS);
            *self.slots.entry(slot).or_default() += count;
            while self.slots.len() > SLOTS_MAX {
                self.slot_ms = self.slot_ms.saturating_mul(4);
                for (slot, count) in std::mem::take(&mut self.slots) {
                    *self.slots.entry(slot.div_euclid(4)).or_default() += count;
                }
            }
        }
    }

    /// The slots with samples, by time.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().map(|(slot, rows)| {
            let first_ms = slot.saturating_mul(self.slot_ms);
            Slot { first_ms, last_ms: first_ms.saturating_add(self.slot_ms - 1), rows: *rows }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(times: impl IntoIterator<Item = i64>) -> Vec<Slot> {
        let (mut versions, mut counting) = (Versions::default(), Counting::default());
        times.into_iter().for_each(|time| counting.add(time));
        versions.count(counting);
        versions.slots().collect()
    }

    #[test]
    fn samples_count_in_their_minute() {
        let slot = |first_ms, rows| Slot { first_ms, last_ms: first_ms + 59_999, rows };
        assert_eq!(counted([0, 59_999, 60_000, -1, 1]), [slot(-60_000, 1), slot(0, 3), slot(60_000, 1)]);
    }

    #[test]
    fn times_far_apart_take_bounded_memory() {
        let slots = counted((0..100_000).map(|n| n * 3_600_000).chain([i64::MIN, i64::MAX]));
        assert!(slots.len() <= SLOTS_MAX, "{}", slots.len());
        assert_eq!(slots.iter().map(|slot| slot.rows).sum::<u64>(), 100_002);
        let holds = |time: i64| slots.iter().any(|slot| (slot.first_ms..=slot.last_ms).contains(&time));
        assert!(holds(i64::MIN) && holds(i64::MAX) && holds(0));
    }
}
