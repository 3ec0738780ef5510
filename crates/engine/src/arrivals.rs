//! Counts the rows of a tenant in a head by time slot. The counts show whether a cached answer about some
//! time is still valid.
//!
//! Most new rows are of the last seconds, so results for earlier times stay valid while a head grows.
//!
//! A slot ends with a multiple of its length, inclusive: a step at such an instant reads the rows up to and
//! including it, so that its answer stays valid when later rows come.
//!
//! **Invariants.** A row is counted after readers can see it and before it is acknowledged. Counts only grow,
//! so equal counts mean equal rows. The number of slots is bounded: with too many, all become longer.

use std::collections::BTreeMap;

use sandur_base::Id;
use sandur_model::{MILLISECOND_NS, TimeRange};
use sandur_query::Holding;
use xxhash_rust::xxh3::xxh3_128;

/// Length of a slot, until there are more than [`SLOTS_MAX`]. The steps of most dashboards are multiples of
/// it.
const SLOT_MS: i64 = 5_000;
const SLOT_NS: i64 = SLOT_MS * MILLISECOND_NS;
/// The most slots: 85 minutes without a gap. Beyond that each becomes four times as long.
const SLOTS_MAX: usize = 1_024;

/// The rows of one tenant in a head, by time slot.
pub(crate) struct Arrivals {
    /// Length of a slot, in slots of [`SLOT_NS`]: a power of four.
    length: i64,
    slots: BTreeMap<i64, Count>,
}

/// Rows of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    rows: u64,
    bytes: u64,
}

/// Rows to be counted, most of them in one slot.
#[derive(Default)]
pub(crate) struct Counting(Vec<(i64, Count)>);

impl Counting {
    /// Notes a row with a time in milliseconds.
    #[inline]
    pub(crate) fn add_ms(&mut self, time_ms: i64, bytes: u64) {
        self.add(time_ms.saturating_sub(1).div_euclid(SLOT_MS), bytes);
    }

    /// Notes a row with a time in nanoseconds.
    #[inline]
    pub(crate) fn add_ns(&mut self, time_ns: i64, bytes: u64) {
        self.add(time_ns.saturating_sub(1).div_euclid(SLOT_NS), bytes);
    }

    #[inline]
    fn add(&mut self, slot: i64, bytes: u64) {
        match self.0.last_mut() {
            Some((last, count)) if *last == slot => count.add(Count { rows: 1, bytes }),
            _ => self.0.push((slot, Count { rows: 1, bytes })),
        }
    }
}

impl Count {
    fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { length: 1, slots: BTreeMap::new() }
    }
}

impl Arrivals {
    /// Adds counted rows.
    pub(crate) fn count(&mut self, counting: Counting) {
        let mut counted = counting.0.into_iter().peekable();
        while let Some((slot, mut count)) = counted.next() {
            let slot = self.wide(slot);
            // Pushes of old samples have many short slots in a row, which are few long ones.
            while let Some((_, more)) = counted.next_if(|(next, _)| self.wide(*next) == slot) {
                count.add(more);
            }
            self.slots.entry(slot).or_default().add(count);
            while self.slots.len() > SLOTS_MAX {
                self.length = self.length.saturating_mul(4);
                for (slot, count) in std::mem::take(&mut self.slots) {
                    self.slots.entry(slot.div_euclid(4)).or_default().add(count);
                }
            }
        }
    }

    /// The slot that includes a slot of [`SLOT_NS`]. The length is a power of two, so this is a division that
    /// rounds down.
    #[inline]
    fn wide(&self, slot: i64) -> i64 {
        slot >> self.length.trailing_zeros()
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.slots.values().map(|count| count.rows).sum()
    }

    /// The slots that overlap the range, as holdings of the head of `incarnation` that begins at sequence
    /// number `start`. All rows have times between `earliest` and `latest`, in nanoseconds.
    pub(crate) fn holdings(
        &self,
        (incarnation, start): (Id, u64),
        (earliest, latest): (i64, i64),
        range: TimeRange,
    ) -> Vec<Holding> {
        let length_ns = self.length.saturating_mul(SLOT_NS);
        let mut named = [0; 48];
        named[..16].copy_from_slice(&incarnation.to_bytes());
        named[16..24].copy_from_slice(&start.to_le_bytes());
        named[24..32].copy_from_slice(&self.length.to_le_bytes());
        let mut holding = |(slot, count): (&i64, &Count)| {
            let before = slot.saturating_mul(length_ns);
            // Times before the first instant of nanoseconds are stored as that instant.
            let first = if before == i64::MIN { before } else { before.saturating_add(1) };
            named[32..40].copy_from_slice(&slot.to_le_bytes());
            named[40..].copy_from_slice(&count.rows.to_le_bytes());
            let (first, last) = (first.max(earliest), before.saturating_add(length_ns).min(latest));
            let version = xxh3_128(&named);
            Holding { first, last, version, bytes: count.bytes.max(1), block: (first, last) }
        };
        let all = self.slots.iter().map(&mut holding);
        all.filter(|holding| range.touches(holding.first, holding.last)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn counted(arrivals: &mut Arrivals, seconds: &[i64]) {
        let mut counting = Counting::default();
        seconds.iter().for_each(|second| counting.add_ns(second * S, 10));
        arrivals.count(counting);
    }

    fn seen(arrivals: &Arrivals, first: i64, last: i64) -> Vec<(u128, u64)> {
        let range = TimeRange::inclusive(first * S, last * S);
        let holdings = arrivals.holdings((Id(1), 7), (i64::MIN, i64::MAX), range);
        holdings.into_iter().map(|h| (h.version, h.bytes)).collect()
    }

    #[test]
    fn versions_change_where_rows_come() {
        let mut arrivals = Arrivals::default();
        counted(&mut arrivals, &[0, 1, 14, 15, 40, 3]);
        let (early, late) = (seen(&arrivals, 1, 5), seen(&arrivals, 36, 60));
        assert_eq!(early.iter().map(|s| s.1).collect::<Vec<_>>(), [20]);
        assert_eq!((seen(&arrivals, 0, 60).len(), seen(&arrivals, 41, 60).len()), (4, 0));
        counted(&mut arrivals, &[39]);
        assert!(seen(&arrivals, 1, 5) == early && seen(&arrivals, 36, 60) != late);
        assert_eq!(arrivals.rows(), 7);
    }

    /// Goal: series that are counted at once have the versions of their rows counted one by one.
    #[test]
    fn rows_of_long_series_are_counted_as_single_rows_are() {
        let series: Vec<i64> = (-3_000..3_000).map(|n| n * 15).collect();
        let (mut at_once, mut singly) = (Arrivals::default(), Arrivals::default());
        for _ in 0..3 {
            counted(&mut at_once, &series);
            series.iter().for_each(|second| counted(&mut singly, &[*second]));
        }
        assert_eq!((at_once.rows(), at_once.length), (18_000, singly.length));
        assert!(at_once.length > 1 && at_once.slots.len() <= SLOTS_MAX);
        assert_eq!(seen(&at_once, -50_000, 50_000), seen(&singly, -50_000, 50_000));
    }

    /// Goal: a step that is a multiple of five seconds stays valid when rows after it come.
    #[test]
    fn rows_after_the_end_of_a_slot_change_no_version_up_to_it() {
        let mut arrivals = Arrivals::default();
        counted(&mut arrivals, &[3, 10]);
        let before = seen(&arrivals, 0, 10);
        arrivals.count({
            let mut counting = Counting::default();
            counting.add_ns(10 * S + 1, 1);
            counting
        });
        assert_eq!(seen(&arrivals, 0, 10), before);
        counted(&mut arrivals, &[10]);
        assert_ne!(seen(&arrivals, 0, 10), before);
    }

    #[test]
    fn milliseconds_and_nanoseconds_have_the_same_slots() {
        for ms in [i64::MIN, -5_001, -5_000, -1, 0, 1, 4_999, 5_000, 5_001, 1_795_168_800_123] {
            let (mut of_ms, mut of_ns) = (Counting::default(), Counting::default());
            of_ms.add_ms(ms, 1);
            of_ns.add_ns(ms.saturating_mul(MILLISECOND_NS), 1);
            assert!(of_ms.0[0].0 == of_ns.0[0].0 || ms == i64::MIN, "{ms}");
        }
    }

    #[test]
    fn bounds_of_holdings_are_those_of_the_rows() {
        let mut arrivals = Arrivals::default();
        counted(&mut arrivals, &[1, 20]);
        let holdings = arrivals.holdings((Id(1), 7), (S, 20 * S), TimeRange::ALL);
        let bounds: Vec<(i64, i64)> = holdings.iter().map(|h| (h.first, h.last)).collect();
        assert_eq!(bounds, [(S, 5 * S), (15 * S + 1, 20 * S)]);
    }

    #[test]
    fn times_far_apart_take_bounded_memory() {
        let mut arrivals = Arrivals::default();
        let mut counting = Counting::default();
        (0..100_000).map(|n| n * 3_600_000).chain([i64::MIN, i64::MAX]).for_each(|ms| counting.add_ms(ms, 1));
        arrivals.count(counting);
        assert!(arrivals.slots.len() <= SLOTS_MAX, "{}", arrivals.slots.len());
        assert_eq!(arrivals.rows(), 100_002);
        let all = arrivals.holdings((Id(1), 7), (i64::MIN, i64::MAX), TimeRange::ALL);
        let holds = |time: i64| all.iter().any(|h| (h.first..=h.last).contains(&time));
        assert!(holds(i64::MIN) && holds(0) && holds(99_999 * 3_600 * S));
    }
}
