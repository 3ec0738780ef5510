//! Plans the blocks for the entries of a head: one per tenant and hour, or per day or several days for
//! old rows in small amounts.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_format::log_block::compare_streams;
use sandur_model::{MINUTE_NS, Signal, TenantId, TimeRange};

use super::head::{LogHead, StreamRows};
use crate::windows::{Spread, Window, is_long, slot_ns};

/// Bytes of lines per time slice of a block: enough that streams fill pages, and little enough that a
/// query for the latest rows reads few of them.
const SLICE_BYTES: u64 = 32 << 20;
/// The same for a block of several days, unless it would have more than [`LONG_SLICES_MAX`] slices.
const LONG_SLICE_BYTES: u64 = 64 << 10;
const LONG_SLICES_MAX: u64 = 64;
/// A window is cut only at multiples of a unit, of which it has about this many at most.
const SLICE_UNITS_MAX: i64 = 4_096;

/// One block to be written.
pub(crate) struct BlockPlan {
    pub(crate) tenant: TenantId,
    pub(super) of: Window,
    /// All streams of the tenant in the order of blocks.
    streams: Arc<[StreamRows]>,
}

/// Plans the blocks of a tenant's entries. Slots and days with less than `thin_bytes` share blocks.
///
/// The reservations of the rows pay for the memory of a plan ([`super::head`]).
pub(crate) fn plan_blocks(head: &LogHead, tenant: &TenantId, thin_bytes: u64) -> Vec<BlockPlan> {
    let mut streams = head.tenant_rows(tenant);
    streams.sort_unstable_by(|a, b| compare_streams(&a.stream().labels, &b.stream().labels));
    let mut spread = Spread::new(Signal::Logs);
    let unit = slot_ns(Signal::Logs);
    streams.iter().for_each(|stream| sums(stream, TimeRange::ALL, unit, |slot, sum| spread.add(slot, sum)));
    let streams: Arc<[StreamRows]> = streams.into();
    let plan = |of| BlockPlan { tenant: tenant.clone(), of, streams: Arc::clone(&streams) };
    spread.windows(thin_bytes).into_iter().map(plan).collect()
}

/// Adds up the bytes of consecutive rows within the same unit of time.
fn sums(stream: &StreamRows, times: TimeRange, unit_ns: i64, mut add: impl FnMut(i64, u64)) {
    let mut open = None;
    stream.visit(times, |row| {
        let (number, bytes) = (row.entry.timestamp.div_euclid(unit_ns), u64::from(row.entry.line.len));
        match &mut open {
            Some((same, sum)) if *same == number => *sum += bytes,
            _ => _ = open.replace((number, bytes)).map(|(number, sum)| add(number, sum)),
        }
    });
    if let Some((number, sum)) = open {
        add(number, sum);
    }
}

impl BlockPlan {
    /// The streams with rows in the block, in order.
    pub(super) fn present(&self) -> Vec<u32> {
        let all = (0u32..).zip(self.streams.iter());
        all.filter(|(_, stream)| stream.has_rows(self.of.rows)).map(|(at, _)| at).collect()
    }

    /// The rows of a stream.
    pub(super) fn stream(&self, at: u32) -> &StreamRows {
        &self.streams[at as usize]
    }

    /// The time slices of the window, cut at full minutes. A long window is cut into many, so that a
    /// query of a day reads few of its pages.
    pub(super) fn slices(&self, present: &[u32]) -> Vec<TimeRange> {
        let Window { window, rows, bytes } = self.of;
        let most = match is_long(window) {
            true => LONG_SLICE_BYTES.max(bytes / LONG_SLICES_MAX),
            false => SLICE_BYTES,
        };
        if bytes < most {
            return vec![rows];
        }
        // A multiple of a minute, of which the window has at most some thousands.
        let unit = MINUTE_NS * (rows.length_ns() / MINUTE_NS / SLICE_UNITS_MAX + 1);
        let mut units: BTreeMap<i64, u64> = BTreeMap::new();
        for at in present {
            sums(self.stream(*at), rows, unit, |number, sum| *units.entry(number).or_default() += sum);
        }
        let (mut slices, mut start, mut gathered) = (Vec::new(), rows.start, 0);
        for (number, size) in units {
            gathered += size;
            let end = (number + 1).saturating_mul(unit);
            if gathered >= most && end < rows.end {
                slices.push(TimeRange::new(start, end));
                (start, gathered) = (end, 0);
            }
        }
        slices.push(TimeRange::new(start, rows.end));
        slices
    }
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;

    use super::*;
    use crate::fixtures::{BatchBuilder, reserved};
    use sandur_model::{DAY_NS, HOUR_NS};

    fn plans(rows: &[(&str, i64, usize)]) -> Vec<BlockPlan> {
        plans_with(rows, 0)
    }

    fn plans_with(rows: &[(&str, i64, usize)], thin_bytes: u64) -> Vec<BlockPlan> {
        let head = LogHead::new(Id(1), 0);
        for (sequence, (app, timestamp, size)) in rows.iter().enumerate() {
            let batch = BatchBuilder::new().stream(app).row(*timestamp, &"x".repeat(*size)).build();
            let memory = reserved(&batch);
            head.insert(sequence as u64, batch, memory);
        }
        plan_blocks(&head, &TenantId::default_tenant(), thin_bytes)
    }

    /// The streams of a block by their labels.
    fn apps(plan: &BlockPlan) -> String {
        let app = |at: &u32| plan.stream(*at).stream().labels.get("app").unwrap().to_owned();
        plan.present().iter().map(app).collect()
    }

    fn slices(plan: &BlockPlan) -> Vec<TimeRange> {
        plan.slices(&plan.present())
    }

    #[test]
    fn rows_are_in_the_blocks_of_their_hours() {
        let rows = [("b", 0, 1), ("b", HOUR_NS - 1, 1), ("a", HOUR_NS, 1), ("b", -1, 1), ("a", 0, 1)];
        let plans = plans(&rows);
        let described: Vec<_> =
            plans.iter().map(|plan| (plan.of.window.start / HOUR_NS, plan.of.bytes, apps(plan))).collect();
        assert_eq!(described, [(-1, 1, "b".into()), (0, 3, "ab".into()), (1, 1, "a".into())]);
        assert!(plans.iter().all(|plan| slices(plan) == [plan.of.window]));
    }

    #[test]
    fn only_the_latest_hours_have_separate_blocks() {
        let rows: Vec<_> = (0..100).map(|n| ("a", n * HOUR_NS, 1)).collect();
        let plans = plans(&rows);
        let days: Vec<_> = plans.iter().filter(|p| p.of.window.length_ns() == DAY_NS).collect();
        // The hours of the third day are among the latest 64.
        assert_eq!((days.len(), plans.len()), (2, 54));
        assert_eq!((days[1].of.bytes, slices(days[1])[0].end), (24, 48 * HOUR_NS));
        assert_eq!(plans.iter().map(|p| p.of.bytes).sum::<u64>(), 100);
    }

    #[test]
    fn lines_of_a_century_share_a_block_in_slices() {
        let rows: Vec<_> = (0..36_500).map(|day| (["a", "b"][day as usize % 2], day * DAY_NS, 100)).collect();
        let plans = plans_with(&rows, 4 << 20);
        let [long, newest] = &plans[..] else { panic!("{} plans", plans.len()) };
        assert_eq!((newest.of.bytes, newest.of.window.length_ns()), (100, HOUR_NS));
        assert_eq!((apps(long), long.of.window), ("ab".to_owned(), TimeRange::new(0, 36_499 * DAY_NS)));
        let slices = slices(long);
        assert!((50..=64).contains(&slices.len()), "{} slices", slices.len());
        assert!(slices.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn a_stream_is_only_in_blocks_with_its_rows() {
        let of = |app, hours: &[i64]| hours.iter().map(|hour| (app, hour * HOUR_NS, 1)).collect::<Vec<_>>();
        let rows = [of("a", &[0, 3]), of("b", &[1]), of("c", &[0, 1, 2, 3]), of("d", &[3, 2])].concat();
        assert_eq!(plans(&rows).iter().map(apps).collect::<Vec<_>>(), ["ac", "bc", "cd", "acd"]);
    }

    #[test]
    fn large_windows_are_cut_into_slices_of_whole_minutes() {
        let rows: Vec<_> = (0..10).map(|n| ("a", n * 6 * MINUTE_NS, 10 << 20)).collect();
        let plan = plans(&rows).remove(0);
        let slices = slices(&plan);
        let ends: Vec<_> = slices.iter().map(|slice| slice.end / MINUTE_NS).collect();
        assert_eq!(ends, [19, 43, 60]);
        assert!(slices.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
