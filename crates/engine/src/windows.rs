//! The time windows of blocks.
//!
//! A flush makes one block of the newest slot of a dataset, and one of every older slot or day with
//! enough rows. Rows of *thin* slots and days, those with few bytes, share blocks: a day block, or a
//! *long* block of several days. So the number of blocks depends on the bytes of a flush, and not on the
//! timestamps of its rows ([decision 0022](../../../docs/decisions/0022-thin-days-share-a-block.md)).
//!
//! **Invariants.** A window is a slot, a day, or several complete days. Windows of one flush may
//! overlap; their rows never do. The memory of a [`Spread`] is bounded, however many slots there are.

use std::collections::BTreeMap;

use sandur_model::{DAY_NS, HOUR_NS, Signal, TimeRange};

/// The most slots that are counted separately. Beyond that, all slots of the oldest day are counted as one.
const SLOTS_MAX: usize = 64;
/// The most days that are counted separately. Beyond that, several days are counted as one.
const DAYS_MAX: usize = 4_096;

/// Length of the shortest window of a signal: an hour of logs, or two hours of samples, the length of
/// blocks in Prometheus.
pub(crate) const fn slot_ns(signal: Signal) -> i64 {
    match signal {
        Signal::Logs => HOUR_NS,
        Signal::Metrics => 2 * HOUR_NS,
    }
}

/// The day that holds an instant.
pub(crate) fn day_of(instant_ns: i64) -> TimeRange {
    let start = instant_ns.div_euclid(DAY_NS).saturating_mul(DAY_NS);
    TimeRange::new(start, start.saturating_add(DAY_NS))
}

/// The days from the first to the last of these instants.
pub(crate) fn days_of(first_ns: i64, last_ns: i64) -> TimeRange {
    TimeRange::new(day_of(first_ns).start, day_of(last_ns).end)
}

/// Whether a window is longer than a day.
pub(crate) fn is_long(window: TimeRange) -> bool {
    window.length_ns() > DAY_NS
}

/// The distribution of a dataset's row bytes over time.
#[derive(Debug)]
pub(crate) struct Spread {
    slot_ns: i64,
    /// Bytes of the newest slots, by slot number.
    slots: BTreeMap<i64, u64>,
    /// The first day whose slots are counted separately. Each older day is counted as one.
    newer: i64,
    /// Bytes of older rows, by unit number.
    older: BTreeMap<i64, u64>,
    /// Slots per unit: those of a day, or of a power of two of days.
    unit: i64,
    /// The first and the last slot with rows.
    bounds: Option<(i64, i64)>,
}

/// The rows of a new block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The window of the block.
    pub(crate) window: TimeRange,
    /// The times that its rows are from.
    pub(crate) rows: TimeRange,
    /// Bytes of the rows.
    pub(crate) bytes: u64,
}

/// The slots of `first..end`, and their bytes.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: i64,
    end: i64,
    bytes: u64,
}

impl Spread {
    pub(crate) fn new(signal: Signal) -> Self {
        let slot_ns = slot_ns(signal);
        let (slots, older) = (BTreeMap::new(), BTreeMap::new());
        Self { slot_ns, slots, newer: i64::MIN, older, unit: DAY_NS / slot_ns, bounds: None }
    }

    /// The number of the slot that holds an instant.
    pub(crate) fn slot_of(&self, instant_ns: i64) -> i64 {
        instant_ns.div_euclid(self.slot_ns)
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.bounds.is_none()
    }

    /// Adds bytes of rows to a slot.
    pub(crate) fn add(&mut self, slot: i64, bytes: u64) {
        let (first, last) = self.bounds.unwrap_or((slot, slot));
        self.bounds = Some((first.min(slot), last.max(slot)));
        if self.day(slot) < self.newer {
            return self.add_older(slot, bytes);
        }
        *self.slots.entry(slot).or_default() += bytes;
        if self.slots.len() > SLOTS_MAX
            && let Some((&oldest, _)) = self.slots.first_key_value()
        {
            self.newer = self.day(oldest) + 1;
            let newer = self.slots.split_off(&(self.newer * (DAY_NS / self.slot_ns)));
            for (slot, bytes) in std::mem::replace(&mut self.slots, newer) {
                self.add_older(slot, bytes);
            }
        }
    }

    fn day(&self, slot: i64) -> i64 {
        slot.div_euclid(DAY_NS / self.slot_ns)
    }

    fn add_older(&mut self, slot: i64, bytes: u64) {
        *self.older.entry(slot.div_euclid(self.unit)).or_default() += bytes;
        while self.older.len() > DAYS_MAX {
            self.unit *= 2;
            for (unit, bytes) in std::mem::take(&mut self.older) {
                *self.older.entry(unit.div_euclid(2)).or_default() += bytes;
            }
        }
    }

    /// The windows of the rows, by time. Slots and days with less than `thin_bytes` share windows; 0
    /// gives each its own. There are at most two windows, plus two more per `thin_bytes` of rows.
    pub(crate) fn windows(&self, thin_bytes: u64) -> Vec<Window> {
        let mut windows = Vec::new();
        let mut runs = self.runs().into_iter().rev();
        // Queries read the newest rows most, and more of them will come.
        windows.extend(runs.next().map(|newest| self.window(newest)));
        let mut open: Option<Run> = None;
        for run in runs {
            let joined = match open.take() {
                Some(later) if run.bytes < thin_bytes => {
                    Run { first: run.first, end: later.end, bytes: run.bytes + later.bytes }
                }
                Some(later) => {
                    windows.push(self.window(later));
                    run
                }
                None => run,
            };
            match joined.bytes < thin_bytes {
                true => open = Some(joined),
                false => windows.push(self.window(joined)),
            }
        }
        windows.extend(open.map(|oldest| self.window(oldest)));
        windows.reverse();
        windows
    }

    /// Slots and units with rows, by time.
    fn runs(&self) -> Vec<Run> {
        let Some((first, _)) = self.bounds else { return Vec::new() };
        let newest = self.slots.first_key_value().map_or(i64::MAX, |(slot, _)| *slot);
        let of_unit = |(unit, bytes): (&i64, &u64)| {
            let start = unit.saturating_mul(self.unit);
            let end = start.saturating_add(self.unit).min(newest);
            Run { first: start.max(first), end, bytes: *bytes }
        };
        let of_slot = |(slot, bytes): (&i64, &u64)| Run { first: *slot, end: *slot + 1, bytes: *bytes };
        self.older.iter().map(of_unit).chain(self.slots.iter().map(of_slot)).collect()
    }

    fn window(&self, Run { first, end, bytes }: Run) -> Window {
        let (start, end) = (first.saturating_mul(self.slot_ns), end.saturating_mul(self.slot_ns));
        let rows = TimeRange::new(start, end);
        let is_slot = rows.length_ns() <= self.slot_ns;
        Window { window: if is_slot { rows } else { days_of(start, end - 1) }, rows, bytes }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: u64 = 1 << 20;

    /// Windows of logs in hours, and their megabytes.
    fn windows(rows: &[(i64, u64)], thin_mb: u64) -> Vec<((i64, i64), u64)> {
        let mut spread = Spread::new(Signal::Logs);
        rows.iter().for_each(|(hour, mb)| spread.add(*hour, mb * MB));
        let hours = |range: TimeRange| (range.start / HOUR_NS, range.end / HOUR_NS);
        spread.windows(thin_mb * MB).iter().map(|one| (hours(one.window), one.bytes / MB)).collect()
    }

    #[test]
    fn two_slots_have_a_block_each() {
        assert_eq!(windows(&[(10, 1), (9, 1)], 4), [((9, 10), 1), ((10, 11), 1)]);
        assert_eq!(windows(&[(10, 1)], 4), [((10, 11), 1)]);
        assert_eq!(windows(&[], 4), []);
    }

    #[test]
    fn thin_slots_share_a_day_and_thin_days_a_block() {
        let day = [(30, 1), (31, 1), (32, 1), (40, 9)];
        assert_eq!(windows(&day, 4), [((24, 48), 3), ((40, 41), 9)]);
        assert_eq!(windows(&day, 1), [((30, 31), 1), ((31, 32), 1), ((32, 33), 1), ((40, 41), 9)]);
        let days = [(-30, 1), (5, 1), (50, 5), (100, 1), (130, 1), (200, 1)];
        // The dense day is between two groups.
        assert_eq!(windows(&days, 4), [((-48, 24), 2), ((50, 51), 5), ((96, 144), 2), ((200, 201), 1)]);
    }

    #[test]
    fn a_century_of_days_makes_two_blocks_and_its_decades_make_a_few() {
        let century: Vec<(i64, u64)> = (0..36_500).map(|day| (day * 24, 0)).collect();
        assert_eq!(windows(&century, 4).len(), 2);
        let heavy: Vec<(i64, u64)> = (0..36_500).map(|day| (day * 24, 1)).collect();
        let found = windows(&heavy, 4);
        assert!(found.len() < 36_500 / 16 + 64, "units of 16 days have enough bytes: {}", found.len());
    }

    #[test]
    fn without_a_bound_every_slot_and_day_has_its_own_window() {
        let rows: Vec<(i64, u64)> = (0..100).map(|hour| (hour, 1)).collect();
        let found = windows(&rows, 0);
        assert_eq!(found[..3], [((0, 24), 24), ((24, 48), 24), ((48, 49), 1)]);
        assert_eq!(found.len(), 2 + 52);
    }

    #[test]
    fn a_dense_day_is_not_counted_in_parts() {
        // The first half of a dense day is among the newest slots until later slots arrive.
        let day = (0..24).map(|hour| (hour, 1));
        let later = (30..83).map(|hour| (hour, 0));
        assert_eq!(windows(&day.chain(later).collect::<Vec<_>>(), 20)[0], ((0, 24), 24));
    }

    proptest! {
        /// Whatever slots the rows have, each row is in exactly one window, and windows are few.
        #[test]
        fn each_row_is_in_one_window(
            slots in prop::collection::vec(
                (prop_oneof![-2_000i64..2_000, -1_200_000i64..1_200_000], 0u64..3),
                1..6_000,
            ),
            thin in 0u64..200,
            signal in prop_oneof![Just(Signal::Logs), Just(Signal::Metrics)],
        ) {
            let mut spread = Spread::new(signal);
            slots.iter().for_each(|(slot, bytes)| spread.add(*slot, *bytes));
            let found = spread.windows(thin);
            for pair in found.windows(2) {
                prop_assert!(pair[0].rows.end <= pair[1].rows.start, "{:?}", pair);
            }
            let total: u64 = slots.iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(found.iter().map(|one| one.bytes).sum::<u64>(), total);
            for (slot, _) in &slots {
                let at = slot * slot_ns(signal);
                let of: Vec<&Window> = found.iter().filter(|one| one.rows.contains(at)).collect();
                prop_assert_eq!(of.len(), 1);
                prop_assert!(of[0].window.start <= at && at + slot_ns(signal) <= of[0].window.end);
            }
            if let Some(full) = total.checked_div(thin) {
                prop_assert!(found.len() as u64 <= 2 + 2 * full, "{} of {}", found.len(), total);
            }
        }
    }
}
