//! Plans the blocks for the samples of a head: one per tenant and two hours, or per day or several days
//! for old samples in small amounts. Exemplars are in the block of their time, and make a block where
//! there are no samples. Metadata of metric families has no time: it is in the latest block of the tenant.

use std::collections::HashMap;
use std::sync::Arc;

use sandur_model::{Signal, TenantId, TimeRange};

use super::head::{FlushedExemplars, SampleColumns, SampleHead, SelectedSeries, SeriesParts, Wanted};
use super::{MILLISECOND_NS, SAMPLE_BYTES};
use crate::windows::{Spread, Window, slot_ns};

/// One block to be written.
pub(crate) struct SamplePlan {
    pub(super) tenant: TenantId,
    pub(super) window: TimeRange,
    /// The first and last time of its samples, in milliseconds, both inclusive.
    pub(super) times_ms: (i64, i64),
    pub(super) raw_bytes: u64,
    /// All series of the tenant, sorted.
    pub(super) series: Arc<SelectedSeries>,
    /// Parts of the series with samples in many windows.
    parts: Arc<Parts>,
    /// All exemplars of the tenant.
    pub(super) exemplars: Arc<FlushedExemplars>,
    /// The head whose metadata is written to this block, if this is the latest one.
    pub(super) metadata_of: Option<Arc<SampleHead>>,
}

/// Parts of series, by the series' position.
type Parts = HashMap<u32, SeriesParts>;

impl SamplePlan {
    /// Returns the samples of a series in this block, and the number of repeated ones that were left
    /// out; `None` if the series has none.
    pub(super) fn samples(&self, at: usize, stamps: Wanted) -> Option<(SampleColumns, u64)> {
        let (first, last) = self.series.bounds_ms(at)?;
        if last < self.times_ms.0 || self.times_ms.1 < first {
            return None;
        }
        let found = match self.parts.get(&(at as u32)) {
            Some(parts) => self.series.samples_of(at, parts, self.times_ms, stamps),
            None => self.series.samples(at, self.times_ms, stamps),
        };
        Some(found).filter(|(samples, _)| samples.rows() > 0)
    }
}

/// Plans the blocks of a tenant's samples. Slots and days with less than `thin_bytes` share blocks.
/// Metadata alone is written to the slot of `now_ns`.
///
/// The reservations of the samples pay for the memory of a plan ([`super::head`]).
pub(crate) fn plan_blocks(
    head: &Arc<SampleHead>,
    tenant: &TenantId,
    now_ns: i64,
    thin_bytes: u64,
) -> Vec<SamplePlan> {
    let series = Arc::new(head.select(tenant, &[], TimeRange::ALL));
    let mut spread = Spread::new(Signal::Metrics);
    let slot_ms = slot_ns(Signal::Metrics) / MILLISECOND_NS;
    let exemplars = Arc::new(head.flushed_exemplars(tenant, slot_ms));
    exemplars.slots().iter().for_each(|slot| spread.add(*slot, 0));
    for at in 0..series.len() {
        count_slots(&series, at, &mut spread);
    }
    let has_metadata = head.has_metadata(tenant);
    if has_metadata && spread.is_empty() {
        spread.add(spread.slot_of(now_ns), 0);
    }
    let windows = spread.windows(thin_bytes);
    let parts = Arc::new(parts(&series, &windows));
    let plan = |Window { window, rows, bytes }: Window| SamplePlan {
        tenant: tenant.clone(),
        window,
        times_ms: rows.milliseconds(),
        raw_bytes: bytes,
        series: Arc::clone(&series),
        parts: Arc::clone(&parts),
        exemplars: Arc::clone(&exemplars),
        metadata_of: None,
    };
    let mut plans: Vec<SamplePlan> = windows.into_iter().map(plan).collect();
    if let Some(last) = plans.last_mut().filter(|_| has_metadata) {
        last.metadata_of = Some(Arc::clone(head));
    }
    plans
}

/// Counts the samples of a series by slot.
fn count_slots(series: &SelectedSeries, at: usize, spread: &mut Spread) {
    let Some((first, last)) = series.bounds_ms(at) else { return };
    let slot_ms = slot_ns(Signal::Metrics) / MILLISECOND_NS;
    let (first_slot, last_slot) = (first.div_euclid(slot_ms), last.div_euclid(slot_ms));
    if first_slot == last_slot {
        return spread.add(first_slot, series.rows(at) as u64 * SAMPLE_BYTES);
    }
    let mut open: Option<(i64, u64)> = None;
    each_time(series, at, |time| match &mut open {
        Some((slot, count)) if (0..slot_ms).contains(&(time - *slot * slot_ms)) => *count += 1,
        _ => {
            let before = open.replace((time.div_euclid(slot_ms), 1));
            before.into_iter().for_each(|(slot, count)| spread.add(slot, count * SAMPLE_BYTES));
        }
    });
    open.into_iter().for_each(|(slot, count)| spread.add(slot, count * SAMPLE_BYTES));
}

/// Makes parts of the series whose samples are in several windows, if they are worth it.
fn parts(series: &SelectedSeries, windows: &[Window]) -> Parts {
    let ends_ms: Vec<i64> = windows.iter().map(|one| one.rows.milliseconds().1).collect();
    let holder = |time_ms: i64| ends_ms.partition_point(|end| *end < time_ms);
    let reaches_over_many =
        |at: &usize| series.bounds_ms(*at).is_some_and(|(first, last)| holder(last) > holder(first) + 1);
    let parts_of = |at: usize| Some((at as u32, series.parts(at)?));
    (0..series.len()).filter(reaches_over_many).filter_map(parts_of).collect()
}

/// Calls `each` with the times of a series in milliseconds.
fn each_time(series: &SelectedSeries, at: usize, mut each: impl FnMut(i64)) {
    let Some(bounds) = series.bounds_ms(at) else { return };
    let (samples, _) = series.samples(at, bounds, Wanted::No);
    samples.timestamps.iter().copied().for_each(&mut each);
    samples.histograms.iter().map(|one| one.timestamp).for_each(&mut each);
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;
    use sandur_memory::MemoryBudget;
    use sandur_model::{Exemplar, HistogramSample, Labels, MetricMetadata, SampleBatch};

    use sandur_format::block::BlockOrigin;
    use sandur_format::catalog_entry::BlockForms;

    use super::*;
    use crate::blocks::assembly::Plan;
    use crate::samples::head::push_bytes;
    use sandur_model::DAY_NS;

    const HOUR_MS: i64 = 3_600_000;

    fn plans_of(head: &Arc<SampleHead>, now_ns: i64, thin_bytes: u64) -> Vec<SamplePlan> {
        plan_blocks(head, &TenantId::default_tenant(), now_ns, thin_bytes)
    }

    /// Begin and length of windows in hours, number of samples and of series.
    fn plans(samples: &[(&str, i64)], thin_bytes: u64) -> Vec<(i64, i64, u64, usize)> {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for (pod, time) in samples {
            batch.push(Arc::new(Labels::from_pairs([("pod", *pod)])), [(*time, 1.0)]);
        }
        let head = head_of(batch);
        let described = |plan: SamplePlan| {
            let (window, raw) = (plan.window(), plan.raw_bytes());
            let mut assembly = Box::new(plan).begin(BlockOrigin::default(), BlockForms::UNSTATED).unwrap();
            let mut out = Vec::new();
            let done = loop {
                if let Some(done) = assembly.step(&mut out).unwrap() {
                    break done;
                }
            };
            assert_eq!(done.summary.raw_bytes, raw);
            let hours = |ns: i64| ns / 1_000_000 / HOUR_MS;
            (hours(window.start), hours(window.length_ns()), done.summary.rows, done.summary.streams as usize)
        };
        plans_of(&head, 0, thin_bytes).into_iter().map(described).collect()
    }

    fn head_of(batch: SampleBatch) -> Arc<SampleHead> {
        let head = SampleHead::new(Id(1), 0);
        let memory = MemoryBudget::root("test", u64::MAX).reserve(push_bytes(&batch)).unwrap();
        head.insert_after(0, &batch, memory, &[]);
        Arc::new(head)
    }

    /// The windows with histograms alone were missing if a series had floats and histograms in several
    /// windows.
    #[test]
    fn histograms_are_written_to_their_windows() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.push(Arc::new(Labels::from_pairs([("pod", "a")])), [(HOUR_MS, 1.0)]);
        for timestamp in [0, 3 * HOUR_MS] {
            let histogram = Arc::default();
            batch.push_histogram(HistogramSample { timestamp, start: 0, integer: false, histogram });
        }
        let plans = plans_of(&head_of(batch), 0, 0);
        let raw: Vec<u64> = plans.iter().map(|plan| plan.raw_bytes()).collect();
        assert_eq!(raw, [2 * SAMPLE_BYTES, SAMPLE_BYTES]);
    }

    #[test]
    fn exemplars_and_metadata_without_samples_have_blocks() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.push(Arc::new(Labels::from_pairs([("pod", "a")])), []);
        for timestamp in [HOUR_MS, 9 * HOUR_MS] {
            batch.push_exemplar(Exemplar { labels: Labels::default(), value: 1.0, timestamp });
        }
        let told = MetricMetadata { family: "up".into(), ..MetricMetadata::default() };
        batch.metadata.push(told.clone());
        let windows = |batch, now_ns| -> Vec<i64> {
            let plans = plans_of(&head_of(batch), now_ns, 0);
            plans.iter().map(|plan| plan.window().start / 1_000_000 / HOUR_MS).collect()
        };
        assert_eq!(windows(batch, 0), [0, 8]);
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.metadata.push(told);
        assert_eq!(windows(batch, 7 * HOUR_MS * 1_000_000), [6]);
    }

    #[test]
    fn samples_are_written_to_windows_of_two_hours() {
        let samples = [("a", 0), ("a", 2 * HOUR_MS - 1), ("a", 2 * HOUR_MS), ("b", HOUR_MS), ("b", -1)];
        assert_eq!(plans(&samples, 0), [(-2, 2, 1, 1), (0, 2, 3, 2), (2, 2, 1, 1)]);
    }

    #[test]
    fn samples_of_thin_days_share_a_block() {
        let day = 24 * HOUR_MS;
        let years: Vec<_> = (0..4_000).map(|n| (["a", "b", "c"][n as usize % 3], n * day)).collect();
        let long = (0, 3_999 * 24, 3_999, 3);
        assert_eq!(plans(&years, 1 << 20), [long, (3_999 * 24, 2, 1, 1)]);
        // One day has enough samples to be worth a block.
        let dense = (0..40_000).map(|n| ("a", 100 * day + n));
        let found = plans(&[&years[..], &dense.collect::<Vec<_>>()].concat(), 1 << 19);
        let starts: Vec<_> = found.iter().map(|plan| (plan.0 / 24, plan.1 / 24)).collect();
        assert_eq!(starts, [(0, 100), (100, 1), (101, 3_898), (3_999, 0)]);
        assert_eq!(found.iter().map(|plan| plan.2).sum::<u64>(), 4_000 + 40_000);
    }

    #[test]
    fn old_samples_share_blocks_of_a_day() {
        let samples: Vec<_> = (0..100).map(|n| ("a", n * 2 * HOUR_MS)).collect();
        let found = plans(&samples, 0);
        let days = found.iter().filter(|(_, hours, ..)| *hours == DAY_NS / 1_000_000 / HOUR_MS).count();
        assert_eq!((days, found.len()), (3, 67));
        assert_eq!(found.iter().map(|plan| plan.2).sum::<u64>(), 100);
    }
}
