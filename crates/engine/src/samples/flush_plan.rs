//! Which blocks the samples of a head become: one per tenant and two hours, or per day for old samples in
//! small amounts, unless the day is so large that its slots are kept apart. Exemplars go with the samples of
//! their time, and make a block where there are none. What is told of metric families belongs to no time: it
//! goes into the latest block of the tenant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sandur_format::Error as FormatError;
use sandur_format::block::BlockOrigin;
use sandur_model::{Dataset, Signal, TenantId, TimeRange};

use super::assembly::SampleAssembly;
use super::head::{FlushedExemplars, SampleColumns, SelectedSeries, SeriesParts};
use super::{MILLISECOND_NS, SAMPLE_BYTES};
use crate::assembly::{Assembly, Plan};
use crate::head::Head;
use crate::windows::{slot_ns, windows};

/// A series with samples of more slots is not read as a whole for each of its windows.
const FEW_SLOTS: usize = 2;

/// One block to be written.
pub(super) struct SamplePlan {
    pub(super) tenant: TenantId,
    pub(super) window: TimeRange,
    /// The samples that belong to it, by time in milliseconds, both included.
    pub(super) times_ms: (i64, i64),
    raw_bytes: u64,
    /// All series of the tenant, sorted.
    pub(super) series: Arc<SelectedSeries>,
    /// Those that have samples here.
    pub(super) present: Vec<u32>,
    /// Parts of those with samples in many windows.
    parts: Arc<Parts>,
    /// All exemplars of the tenant.
    pub(super) exemplars: Arc<FlushedExemplars>,
    /// The head whose metadata go into this block.
    pub(super) metadata_of: Option<Arc<Head>>,
}

/// Parts of series by their positions.
type Parts = HashMap<u32, SeriesParts>;

impl SamplePlan {
    /// The samples that a series has here, and how many repeated ones were left out.
    pub(super) fn samples(&self, at: u32) -> (SampleColumns, u64) {
        match self.parts.get(&at) {
            Some(parts) => self.series.samples_of(at as usize, parts, self.times_ms),
            None => self.series.samples(at as usize, self.times_ms),
        }
    }
}

impl Plan for SamplePlan {
    fn dataset(&self) -> Dataset {
        Dataset::metrics(self.tenant.clone())
    }

    fn window(&self) -> TimeRange {
        self.window
    }

    fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    fn begin(self: Box<Self>, origin: BlockOrigin) -> Result<Box<dyn Assembly>, FormatError> {
        Ok(Box::new(SampleAssembly::begin(*self, origin)?))
    }
}

/// The blocks that the samples of a head become, by tenant and window. What belongs to no time belongs to
/// `now_ns`.
pub(crate) fn plan_blocks(
    head: &Arc<Head>,
    now_ns: i64,
    is_large: &impl Fn(&Dataset, TimeRange) -> bool,
) -> Vec<Box<dyn Plan>> {
    let tenants = head.samples().tenants();
    tenants.into_iter().flat_map(|tenant| plan_tenant(head, tenant, now_ns, is_large)).collect()
}

fn plan_tenant(
    head: &Arc<Head>,
    tenant: TenantId,
    now_ns: i64,
    is_large: &impl Fn(&Dataset, TimeRange) -> bool,
) -> Vec<Box<dyn Plan>> {
    let slot_ns = slot_ns(Signal::Metrics);
    let series = Arc::new(head.samples().select(&tenant, &[], TimeRange::ALL));
    let exemplars = Arc::new(head.samples().flushed_exemplars(&tenant, slot_ns / MILLISECOND_NS));
    let mut slots: BTreeMap<i64, u64> = exemplars.slots().iter().map(|slot| (*slot, 0)).collect();
    let slots_of: Vec<Box<[i64]>> =
        (0..series.len()).map(|at| count_slots(&series, at, &mut slots)).collect();
    let has_many = |at: &usize| slots_of[*at].len() > FEW_SLOTS;
    let parts_of = |at: usize| Some((at as u32, series.parts(at)?));
    let parts: Arc<Parts> = Arc::new((0..series.len()).filter(has_many).filter_map(parts_of).collect());
    let has_metadata = head.samples().has_metadata(&tenant);
    if has_metadata && slots.is_empty() {
        slots.insert(now_ns.div_euclid(slot_ns), 0);
    }
    let plan = |(window, rows): (TimeRange, TimeRange)| {
        let slots_here = rows.start.div_euclid(slot_ns)..rows.end.div_euclid(slot_ns);
        let has_rows = |at: &usize| slots_of[*at].iter().any(|slot| slots_here.contains(slot));
        let present = (0..series.len()).filter(has_rows).map(|at| at as u32).collect();
        let raw_bytes = slots.range(slots_here.clone()).map(|(_, rows)| rows * SAMPLE_BYTES).sum();
        let (tenant, series, exemplars) = (tenant.clone(), Arc::clone(&series), Arc::clone(&exemplars));
        let (times_ms, parts, metadata_of) = (rows.milliseconds(), Arc::clone(&parts), None);
        SamplePlan { tenant, window, times_ms, raw_bytes, series, present, parts, exemplars, metadata_of }
    };
    let all: BTreeSet<i64> = slots.keys().copied().collect();
    let dataset = Dataset::metrics(tenant.clone());
    let windows = windows(&all, slot_ns, |day| is_large(&dataset, day));
    let mut plans: Vec<SamplePlan> = windows.into_iter().map(plan).collect();
    if let Some(last) = plans.last_mut().filter(|_| has_metadata) {
        last.metadata_of = Some(Arc::clone(head));
    }
    plans.into_iter().map(|plan| Box::new(plan) as Box<dyn Plan>).collect()
}

/// The slots that a series has samples in, which are counted.
fn count_slots(series: &SelectedSeries, at: usize, counts: &mut BTreeMap<i64, u64>) -> Box<[i64]> {
    let Some((first, last)) = series.bounds_ms(at) else { return Box::default() };
    let slot_ms = slot_ns(Signal::Metrics) / MILLISECOND_NS;
    let (first_slot, last_slot) = (first.div_euclid(slot_ms), last.div_euclid(slot_ms));
    if first_slot == last_slot {
        *counts.entry(first_slot).or_default() += series.rows(at) as u64;
        return Box::new([first_slot]);
    }
    let (samples, _) = series.samples(at, (first, last));
    let histograms = samples.histograms.iter().map(|one| one.timestamp);
    let mut runs: Vec<(i64, u64)> = Vec::new();
    for time in samples.timestamps.iter().copied().chain(histograms) {
        match runs.last_mut() {
            Some((slot, count)) if (0..slot_ms).contains(&(time - *slot * slot_ms)) => *count += 1,
            _ => runs.push((time.div_euclid(slot_ms), 1)),
        }
    }
    runs.iter().for_each(|(slot, count)| *counts.entry(*slot).or_default() += count);
    let mut slots: Vec<i64> = runs.iter().map(|(slot, _)| *slot).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_base::{Id, MemoryBudget};
    use sandur_model::{Batch, Exemplar, HistogramSample, Labels, MetricMetadata, SampleBatch};

    use super::*;
    use crate::head::push_bytes;
    use sandur_model::DAY_NS;

    const HOUR_MS: i64 = 3_600_000;

    fn plans(samples: &[(&str, i64)]) -> Vec<(i64, i64, u64, usize)> {
        plans_with(samples, |_, _| false)
    }

    fn plans_with(
        samples: &[(&str, i64)],
        is_large: impl Fn(&Dataset, TimeRange) -> bool,
    ) -> Vec<(i64, i64, u64, usize)> {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for (pod, time) in samples {
            batch.push(Arc::new(Labels::from_pairs([("pod", *pod)])), [(*time, 1.0)]);
        }
        let head = head_of(batch);
        let described = |plan: Box<dyn Plan>| {
            let (window, raw) = (plan.window(), plan.raw_bytes());
            let mut assembly = plan.begin(BlockOrigin::default()).unwrap();
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
        plan_blocks(&head, 0, &is_large).into_iter().map(described).collect()
    }

    fn head_of(batch: SampleBatch) -> Arc<Head> {
        let head = Arc::new(Head::new(Id(1), 0, Duration::ZERO));
        let batch = Batch::Metrics(batch);
        let memory = MemoryBudget::root("test", u64::MAX).reserve(push_bytes(&batch)).unwrap();
        head.insert(0, batch, memory);
        head
    }

    /// A series of floats and histograms in several windows lost the windows that had histograms alone.
    #[test]
    fn histograms_go_to_their_windows_too() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.push(Arc::new(Labels::from_pairs([("pod", "a")])), [(HOUR_MS, 1.0)]);
        for timestamp in [0, 3 * HOUR_MS] {
            let histogram = Arc::default();
            batch.push_histogram(HistogramSample { timestamp, start: 0, integer: false, histogram });
        }
        let plans = plan_blocks(&head_of(batch), 0, &|_, _| false);
        let raw: Vec<u64> = plans.iter().map(|plan| plan.raw_bytes()).collect();
        assert_eq!(raw, [2 * SAMPLE_BYTES, SAMPLE_BYTES]);
    }

    #[test]
    fn exemplars_without_samples_and_metadata_without_times_have_blocks_too() {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.push(Arc::new(Labels::from_pairs([("pod", "a")])), []);
        for timestamp in [HOUR_MS, 9 * HOUR_MS] {
            batch.push_exemplar(Exemplar { labels: Labels::default(), value: 1.0, timestamp });
        }
        let told = MetricMetadata { family: "up".into(), ..MetricMetadata::default() };
        batch.metadata.push(told.clone());
        let windows = |batch, now_ns| -> Vec<i64> {
            let plans = plan_blocks(&head_of(batch), now_ns, &|_, _| false);
            plans.iter().map(|plan| plan.window().start / 1_000_000 / HOUR_MS).collect()
        };
        assert_eq!(windows(batch, 0), [0, 8]);
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.metadata.push(told);
        assert_eq!(windows(batch, 7 * HOUR_MS * 1_000_000), [6]);
    }

    #[test]
    fn samples_go_to_windows_of_two_hours() {
        let found = plans(&[("a", 0), ("a", 2 * HOUR_MS - 1), ("a", 2 * HOUR_MS), ("b", HOUR_MS), ("b", -1)]);
        assert_eq!(found, [(-2, 2, 1, 1), (0, 2, 3, 2), (2, 2, 1, 1)]);
    }

    #[test]
    fn old_samples_share_blocks_of_a_day() {
        let samples: Vec<_> = (0..100).map(|n| ("a", n * 2 * HOUR_MS)).collect();
        let found = plans(&samples);
        let days = found.iter().filter(|(_, hours, ..)| *hours == DAY_NS / 1_000_000 / HOUR_MS).count();
        assert_eq!((days, found.len()), (5, 53));
        assert_eq!(found.iter().map(|plan| plan.2).sum::<u64>(), 100);
        // Of large days the slots are apart, the latest ones of as many as there are at most.
        let of_days = |large: std::ops::Range<i64>| {
            let found = plans_with(&samples, |_, day| large.contains(&(day.start / DAY_NS)));
            let rows: u64 = found.iter().map(|plan| plan.2).sum();
            assert!(rows == 100 && found.is_sorted_by(|a, b| a.0 < b.0), "{found:?}");
            found.iter().filter(|(_, hours, ..)| *hours == 2).count()
        };
        assert_eq!([of_days(1..3), of_days(4..5), of_days(0..9)], [48 + 24, 48 + 4, 48 + 40]);
        assert_eq!(of_days(5..9), 48);
    }
}
