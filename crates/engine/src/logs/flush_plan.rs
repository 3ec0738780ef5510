//! Which blocks a head becomes: one per tenant and hour, or per day for old rows in small amounts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sandur_format::Error as FormatError;
use sandur_format::block::BlockOrigin;
use sandur_format::log_block::compare_streams;
use sandur_model::{Dataset, MINUTE_NS, TenantId, TimeRange};

use super::assembly::LogAssembly;
use super::head::{LogHead, StreamRows};
use crate::assembly::{Assembly, Plan};
use crate::windows::windows;
use sandur_model::HOUR_NS;

/// Bytes of lines per time slice of a block: large enough that streams still fill pages, small enough
/// that a query for the latest rows reads few of them.
const SLICE_BYTES: u64 = 32 << 20;

/// One block to be written.
pub(crate) struct BlockPlan {
    pub(crate) tenant: TenantId,
    /// The hour or day that the block belongs to.
    pub(crate) window: TimeRange,
    /// Bytes of its lines, duplicates included.
    pub(crate) line_bytes: u64,
    /// The parts of the window that are written one after the other.
    pub(crate) slices: Vec<TimeRange>,
    /// All streams of the tenant in the order of blocks.
    streams: Arc<[StreamRows]>,
    /// Those that have rows here.
    present: Vec<u32>,
}

impl BlockPlan {
    /// The streams of the block in their order.
    pub(crate) fn streams(&self) -> impl ExactSizeIterator<Item = &StreamRows> {
        self.present.iter().map(|at| &self.streams[*at as usize])
    }

    /// The stream with this ordinal in the block.
    pub(crate) fn stream(&self, ordinal: usize) -> &StreamRows {
        &self.streams[self.present[ordinal] as usize]
    }
}

impl Plan for BlockPlan {
    fn dataset(&self) -> Dataset {
        Dataset::logs(self.tenant.clone())
    }

    fn window(&self) -> TimeRange {
        self.window
    }

    fn raw_bytes(&self) -> u64 {
        self.line_bytes
    }

    fn begin(self: Box<Self>, origin: BlockOrigin) -> Result<Box<dyn Assembly>, FormatError> {
        Ok(Box::new(LogAssembly::begin(*self, origin)?))
    }
}

/// The blocks that the entries of a head become, by tenant and window.
pub(crate) fn plan_blocks(head: &LogHead) -> Vec<BlockPlan> {
    head.tenants().into_iter().flat_map(|tenant| plan_tenant(head, tenant)).collect()
}

fn plan_tenant(head: &LogHead, tenant: TenantId) -> Vec<BlockPlan> {
    let mut streams = head.tenant_rows(&tenant);
    streams.sort_unstable_by(|a, b| compare_streams(&a.stream().labels, &b.stream().labels));
    let mut minutes: BTreeMap<i64, u64> = BTreeMap::new();
    let mut hours_of: Vec<BTreeSet<i64>> = Vec::with_capacity(streams.len());
    for stream in &streams {
        let mut hours = BTreeSet::new();
        let mut minute = (i64::MIN, 0);
        stream.visit(TimeRange::ALL, |row| {
            let at = row.entry.timestamp.div_euclid(MINUTE_NS);
            if at != minute.0 {
                count(&mut minutes, &mut hours, minute);
                minute = (at, 0);
            }
            minute.1 += u64::from(row.entry.line.len);
        });
        count(&mut minutes, &mut hours, minute);
        hours_of.push(hours);
    }
    let hours: BTreeSet<i64> = hours_of.iter().flatten().copied().collect();
    let streams: Arc<[StreamRows]> = streams.into();
    let windows = windows(&hours, HOUR_NS, |_| false);
    let plan = |(window, rows): (TimeRange, TimeRange)| {
        let has_rows = |hours: &BTreeSet<i64>| {
            hours.range(rows.start.div_euclid(HOUR_NS)..rows.end.div_euclid(HOUR_NS)).next().is_some()
        };
        let present = (0..streams.len()).filter(|at| has_rows(&hours_of[*at])).map(|at| at as u32).collect();
        let (slices, line_bytes) = slices(rows, &minutes);
        let (tenant, streams) = (tenant.clone(), Arc::clone(&streams));
        BlockPlan { tenant, window, line_bytes, slices, streams, present }
    };
    windows.into_iter().map(plan).collect()
}

fn count(minutes: &mut BTreeMap<i64, u64>, hours: &mut BTreeSet<i64>, (minute, bytes): (i64, u64)) {
    if minute > i64::MIN {
        *minutes.entry(minute).or_default() += bytes;
        hours.insert(minute.div_euclid(60));
    }
}

/// Cuts the rows of a window at minutes, and says how many bytes they have.
fn slices(rows: TimeRange, minutes: &BTreeMap<i64, u64>) -> (Vec<TimeRange>, u64) {
    let (mut slices, mut start, mut bytes, mut total) = (Vec::new(), rows.start, 0, 0);
    for (minute, size) in minutes.range(rows.start / MINUTE_NS..rows.end / MINUTE_NS) {
        total += size;
        bytes += size;
        let end = (minute + 1) * MINUTE_NS;
        if bytes >= SLICE_BYTES && end < rows.end {
            slices.push(TimeRange::new(start, end));
            (start, bytes) = (end, 0);
        }
    }
    slices.push(TimeRange::new(start, rows.end));
    (slices, total)
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;

    use super::*;
    use crate::fixtures::{BatchBuilder, reserved};
    use sandur_model::DAY_NS;

    fn plans(rows: &[(&str, i64, usize)]) -> Vec<BlockPlan> {
        let head = LogHead::new(Id(1), 0);
        for (sequence, (app, timestamp, size)) in rows.iter().enumerate() {
            let batch = BatchBuilder::new().stream(app).row(*timestamp, &"x".repeat(*size)).build();
            let memory = reserved(&batch);
            head.insert(sequence as u64, batch, memory);
        }
        plan_blocks(&head)
    }

    #[test]
    fn rows_go_to_their_hours_and_streams_to_the_blocks_that_they_have_rows_in() {
        let rows = [("b", 0, 1), ("b", HOUR_NS - 1, 1), ("a", HOUR_NS, 1), ("b", -1, 1), ("a", 0, 1)];
        let plans = plans(&rows);
        let described: Vec<_> = plans
            .iter()
            .map(|plan| {
                let apps = plan.streams().map(|s| s.stream().labels.get("app").unwrap()).collect::<String>();
                (plan.window.start / HOUR_NS, plan.line_bytes, apps)
            })
            .collect();
        assert_eq!(described, [(-1, 1, "b".into()), (0, 3, "ab".into()), (1, 1, "a".into())]);
        assert!(plans.iter().all(|plan| plan.slices == [plan.window]));
    }

    #[test]
    fn only_the_latest_hours_have_blocks_of_their_own() {
        let rows: Vec<_> = (0..100).map(|n| ("a", n * HOUR_NS, 1)).collect();
        let plans = plans(&rows);
        let days: Vec<_> = plans.iter().filter(|p| p.window.length_ns() == DAY_NS).collect();
        assert_eq!((days.len(), plans.len()), (3, 51));
        // The third day begins at hour 48; its hours from 52 on are hourly.
        assert_eq!((days[2].line_bytes, days[2].slices[0].end), (4, 52 * HOUR_NS));
        assert_eq!(plans.iter().map(|p| p.line_bytes).sum::<u64>(), 100);
    }

    #[test]
    fn large_windows_are_cut_into_slices_of_whole_minutes() {
        let rows: Vec<_> = (0..10).map(|n| ("a", n * 6 * MINUTE_NS, 10 << 20)).collect();
        let plan = plans(&rows).remove(0);
        let ends: Vec<_> = plan.slices.iter().map(|slice| slice.end / MINUTE_NS).collect();
        assert_eq!(ends, [19, 43, 60]);
        assert!(plan.slices.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
