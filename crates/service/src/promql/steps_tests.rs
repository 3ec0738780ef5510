//! Goal: cached steps give the same answers as new evaluations while samples arrive, some of them late.

use std::sync::Mutex;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, TenantId, TimeRange};
use sandur_promql::{Options, Request, Times};
use sandur_query::{
    Error, Exemplars, FairQueue, Holding, KnownSeries, MemorySeries, Metadata, MetadataSelection,
    QueryContext, ResultsCache, Sample, SampleScan, SampleSelection, SampleSource, SeriesIndex,
    SeriesRequest, Versions,
};
use sandur_runtime::Env;

use super::super::evaluated::Evaluated;
use super::super::rows::Rows;
use super::super::text::parse;
use super::{Steps, numbers_of, whole};

const SLOT_MS: i64 = 60_000;

/// Series with a holding for each minute; its version is the number of writes to it.
#[derive(Default)]
struct Changing(Mutex<(MemorySeries, std::collections::BTreeMap<i64, u64>)>);

impl Changing {
    fn push(&self, name: &str, instance: u64, time_ms: i64, value: f64) {
        let mut all = self.0.lock().unwrap();
        let labels = Labels::from_pairs([("__name__", name.to_owned()), ("instance", instance.to_string())]);
        let mut is_new = false;
        all.0.edit(&labels, |samples| {
            let mut times = samples.times.to_vec();
            let at = times.partition_point(|time| *time < time_ms);
            if times.get(at) != Some(&time_ms) {
                times.insert(at, time_ms);
                samples.values.insert(at, value);
                samples.times = times.into();
                is_new = true;
            }
        });
        *all.1.entry(time_ms.div_euclid(SLOT_MS)).or_default() += u64::from(is_new);
    }
}

impl SeriesIndex for Changing {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        _: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        let none = KnownSeries::new(context, Vec::new()).map(|scan| Box::new(scan) as Box<dyn SampleScan>);
        Box::pin(std::future::ready(none))
    }
}

impl Versions for Changing {
    fn holdings(&self, _: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        let all = self.0.lock().unwrap();
        let holding = |(slot, writes): (&i64, &u64)| {
            let first = slot * SLOT_MS * 1_000_000;
            let last = first + SLOT_MS * 1_000_000 - 1;
            let version = u128::from(*writes) << 64 | *slot as u128;
            Holding { first, last, version, bytes: 100 << 20, block: (first, last) }
        };
        let touching = |holding: &Holding| range.touches(holding.first, holding.last);
        Some(all.1.iter().map(holding).filter(touching).collect())
    }
}

impl SampleSource for Changing {
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        // The scan reads a copy, so that it sees the samples of this moment.
        let mut copy = MemorySeries::default();
        for (labels, samples) in self.0.lock().unwrap().0.iter() {
            copy.edit(labels, |copied| {
                copied.times = samples.times.clone();
                copied.values = samples.values.clone();
            });
        }
        Box::pin(async move { copy.select(context, selection).await })
    }

    fn exemplars<'a>(
        &'a self,
        _: &'a QueryContext,
        _: SeriesRequest,
    ) -> BoxFuture<'a, Result<Exemplars, Error>> {
        Box::pin(async { Ok(Exemplars::default()) })
    }

    fn metadata<'a>(
        &'a self,
        _: &'a QueryContext,
        _: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>> {
        Box::pin(async { Ok(Metadata::default()) })
    }
}

fn text(evaluated: Evaluated) -> String {
    let Evaluated { rows, warnings, infos, .. } = evaluated;
    let all = match rows {
        Rows::Joined(held) => held.series,
        Rows::Evaluated(answer) => numbers_of(answer),
    };
    let mut out = format!("{warnings:?} {infos:?}");
    for series in all {
        let bits = |sample: &Sample| (sample.timestamp_ms, sample.value.to_bits());
        out += &format!("\n{:?} {:?}", series.labels, series.samples.iter().map(bits).collect::<Vec<_>>());
    }
    out
}

const QUERIES: [&str; 14] = [
    "m_total",
    "sum(m_total)",
    "sum by (instance) (rate(m_total[2m]))",
    "rate(m_total[5m] offset 3m)",
    "m_total offset -2m",
    "max_over_time(sum(m_total)[10m:1m])",
    "avg_over_time(rate(m_total[1m])[5m:30s] offset 1m)",
    "topk(1, m_total)",
    "absent(m_total{instance=\"9\"})",
    "m_total - on (instance) m_total offset 1m",
    "count_over_time(m_total[1m]) or vector(0)",
    "increase(m_total[2m] anchored)",
    "m_total smoothed",
    "time() - timestamp(m_total)",
];

#[tokio::test]
async fn cached_steps_equal_new_evaluations_while_samples_arrive() {
    let (source, mut random) = (Changing::default(), 42u64);
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let results = ResultsCache::new(MemoryBudget::root("results", 64 << 20));
    let wide = FairQueue::new(1, 1);
    let context = || {
        let budget = MemoryBudget::root("query", 1 << 30);
        QueryContext::new(Env::system(2), TenantId::default_tenant(), budget, Duration::from_secs(600))
    };
    let mut now = 7_200_000i64;
    let mut hits = 0;
    for round in 0..12 {
        for _ in 0..60 {
            // Some samples are up to an hour late, and some are in the future.
            let late = if next(8) == 0 { next(3_600_000) as i64 } else { 0 };
            let early = if next(40) == 0 { 120_000 } else { 0 };
            source.push("m_total", next(3), now - late + early, next(1_000) as f64);
            now += 10_000 + next(3) as i64;
        }
        for query in QUERIES {
            let expr = {
                let parsing = context();
                parse(&parsing, query).await.unwrap()
            };
            let end = now / 15_000 * 15_000 + if round % 3 == 0 { 7_000 } else { 0 };
            let times = Times { start: end - 3_600_000, end, step: 15_000 };
            let request = Request { query: query.to_owned(), times, options: Options::default() };
            let (kept, fresh) = (context().with_results(results.clone()), context());
            for _ in 0..2 {
                let steps =
                    Steps::new(&source, &kept, &request, &expr, &wide).expect("all of these have windows");
                let of_kept = text(steps.run(3_600_000_000_000).await.unwrap());
                let of_fresh = text(whole(&source, &fresh, &request, &expr, &wide).await.unwrap());
                assert_eq!(of_kept, of_fresh, "{query} in round {round}");
            }
            hits += kept.stats().snapshot().result_cache_hits;
        }
    }
    assert!(hits > 1_000, "{hits}");
}
