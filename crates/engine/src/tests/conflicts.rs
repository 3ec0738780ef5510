//! Goal: a push returns the samples that were not stored because their series has another value for the
//! same instant in memory: within the push, in the head, in a head that is being flushed, from a
//! concurrent push, or in a push that is stored in parts. A copy is no conflict, so a push may be repeated.

use sandur_model::{
    FloatHistogram, HistogramSample, Labels, SampleBatch, SampleConflicts, graphite_path_labels,
};
use tempfile::TempDir;

use super::samples::{START_MS, Samples, all, open};
use super::*;
use crate::head::Head;
use crate::view::earlier_heads;

fn labels(app: &str) -> Arc<Labels> {
    Arc::new(Labels::from_pairs([("__name__", "up"), ("app", app)]))
}

/// A batch with a series for each of these samples.
fn batch(samples: &[(&str, i64, f64)]) -> SampleBatch {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    for (app, second, value) in samples {
        batch.push(labels(app), [(START_MS + second * 1_000, *value)]);
    }
    batch
}

/// Counts of floats and histograms, and positions of series.
fn shown(conflicts: &SampleConflicts) -> (u64, u64, Vec<u32>) {
    (conflicts.floats, conflicts.histograms, conflicts.series().unwrap().to_vec())
}

fn values(found: &Samples, app: &str) -> Vec<f64> {
    found[&labels(app).to_string()].values().copied().map(f64::from_bits).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_within_a_push_and_with_the_head_are_not_acknowledged_as_stored() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let push = batch(&[("a", 0, 1.0), ("b", 0, 5.0), ("a", 0, 2.0), ("a", 0, 1.0), ("a", 0, 3.0)]);
    let conflicts = engine.push(push.clone()).await.unwrap();
    assert_eq!(shown(&conflicts), (2, 0, vec![2, 4]));
    let text = format!(
        "duplicate sample for timestamp {START_MS}; overrides not allowed: existing 1, new value 2 for \
         series {{__name__=\"up\", app=\"a\"}}"
    );
    assert_eq!(conflicts.examples[0].to_string(), text);
    assert_eq!(
        shown(&engine.push(push).await.unwrap()),
        (2, 0, vec![2, 4]),
        "a repeated push has the same conflicts"
    );
    // Late samples are also compared with those of the same instant.
    assert!(engine.push(batch(&[("a", 9, 9.0), ("a", 5, 5.0), ("a", 7, 7.0)])).await.unwrap().is_empty());
    assert!(engine.push(batch(&[("a", 5, 5.0), ("a", 9, 9.0)])).await.unwrap().is_empty(), "copies");
    let late =
        engine.push(batch(&[("a", 5, 0.5), ("a", 6, 6.0), ("a", 9, 0.5), ("a", 0, 0.5)])).await.unwrap();
    assert_eq!(shown(&late), (3, 0, vec![0, 2, 3]));
    let found = all(&engine).await;
    assert_eq!((values(&found, "a"), values(&found, "b")), (vec![1.0, 5.0, 6.0, 7.0, 9.0], vec![5.0]));
    engine.flush().await.unwrap();
    assert_eq!(all(&engine).await, found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floats_and_histograms_of_one_instant_conflict_and_equal_histograms_do_not() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let histogram = |second: i64, count: f64, sum: f64| {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.push(labels("h"), []);
        let histogram = Arc::new(FloatHistogram { count, sum, ..FloatHistogram::default() });
        let timestamp = START_MS + second * 1_000;
        batch.push_histogram(HistogramSample { timestamp, start: 0, integer: false, histogram });
        batch
    };
    assert!(engine.push(histogram(1, 1.0, f64::NAN)).await.unwrap().is_empty());
    assert!(engine.push(histogram(1, 1.0, f64::NAN)).await.unwrap().is_empty(), "a copy");
    assert_eq!(shown(&engine.push(histogram(1, 2.0, f64::NAN)).await.unwrap()), (0, 1, vec![0]));
    assert_eq!(shown(&engine.push(batch(&[("h", 1, 1.0)])).await.unwrap()), (1, 0, vec![0]));
    assert!(engine.push(batch(&[("h", 2, 1.0)])).await.unwrap().is_empty());
    assert_eq!(shown(&engine.push(histogram(2, 2.0, 0.0)).await.unwrap()), (0, 1, vec![0]));
    assert!(engine.push(histogram(0, 2.0, 0.0)).await.unwrap().is_empty(), "another instant");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrected_point_of_graphite_is_no_conflict() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    for value in [1.0, 2.0, 3.0] {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        let labels = Arc::new(graphite_path_labels("site.load").unwrap());
        batch.push(labels, [(START_MS, value), (START_MS + 1_000, value)]);
        assert!(engine.push(batch).await.unwrap().is_empty());
    }
    let found = all(&engine).await;
    let bits: Vec<f64> = found.values().flat_map(|of| of.values().copied().map(f64::from_bits)).collect();
    assert_eq!(bits, [3.0, 3.0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_but_one_of_concurrent_pushes_get_the_conflict() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    for round in 0..20 {
        let push = |n: u32| {
            let (engine, env) = (Arc::clone(&engine), engine.env().clone());
            let push = batch(&[("a", round, f64::from(n))]);
            env.spawn("push", async move { engine.push(push).await.unwrap() })
        };
        let pushes: Vec<_> = (0..8).map(push).collect();
        let mut stored = Vec::new();
        for (n, push) in (0u32..).zip(pushes) {
            let conflicts = push.join().await.unwrap();
            assert!(conflicts.floats <= 1);
            if conflicts.is_empty() {
                stored.push(f64::from(n));
            }
        }
        let found = values(&all(&engine).await, "a");
        assert_eq!(found.len() as i64, round + 1);
        assert_eq!(stored, found[round as usize..], "the push without a conflict is stored");
    }
}

/// The sealed head is in memory until its flush is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_with_a_head_that_is_being_flushed_are_not_acknowledged_as_stored() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let flushes = engine.writer().hold_flushes().await;
    engine.push(batch(&[("a", 1, 1.0), ("b", 1, 1.0)])).await.unwrap();
    engine.node().views.seal(engine.incarnation()).unwrap();
    assert!(engine.push(batch(&[("c", 1, 1.0)])).await.unwrap().is_empty());
    let conflicts = engine.push(batch(&[("a", 1, 2.0), ("b", 1, 1.0), ("c", 1, 2.0), ("a", 2, 2.0)])).await;
    assert_eq!(shown(&conflicts.unwrap()), (2, 0, vec![0, 2]));
    assert_eq!(engine.view().heads.len(), 2);
    assert_eq!(engine.view().head_totals().rows, 4, "neither the conflict nor the copy is stored again");
    let found = all(&engine).await;
    assert_eq!(values(&found, "a"), [1.0, 2.0]);
    let open = engine.view().heads[1].clone();
    let listed = |range| open.samples().select(&TenantId::default_tenant(), &[], range).len();
    assert_eq!(listed(TimeRange::ALL), 2, "series whose samples are all in the earlier head are not listed");
    drop(flushes);
    engine.flush().await.unwrap();
    assert_eq!(all(&engine).await, found);
}

#[tokio::test(start_paused = true)]
async fn samples_of_ended_writers_stay_and_those_of_live_ones_are_not_compared() {
    let seed = 7;
    let env = Env::simulated(seed, START_NS);
    let bucket = near_bucket(&env, seed);
    let alive = open_on(&bucket, &env, "alive", unhurried_options()).await;
    let engine = open_on(&bucket, &env, "engine", unhurried_options()).await;
    let (own, other) = (engine.incarnation(), alive.incarnation());
    let ended = sandur_base::Id(other.0 - 1);
    let head = |incarnation, start| Arc::new(Head::new(incarnation, start, Duration::ZERO));
    let later = sandur_base::Id(own.0 + 1);
    let heads =
        vec![head(ended, 0), head(other, 0), head(own, 0), head(own, 5), head(own, 9), head(later, 0)];
    let view = crate::View { snapshot: engine.view().snapshot.clone(), heads };
    let open = Arc::clone(&view.heads[3]);
    let found: Vec<_> =
        earlier_heads(&view, &open, 1).iter().map(|of| (of.incarnation(), of.start())).collect();
    assert_eq!(found, [(ended, 0), (own, 0)], "seed {seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_of_a_push_in_parts_name_the_series_of_the_push() {
    let directory = TempDir::new().unwrap();
    let env = Env::system(2);
    let store =
        sandur_store::Store::open(directory.path().to_str().unwrap(), env.clone(), Default::default()).await;
    let options = EngineOptions { write_budget: MemoryBudget::root("write", 6 << 20), ..small_options() };
    let engine = Engine::open(store.unwrap(), env, options).await.unwrap();
    let batch_of = |series: std::ops::Range<usize>, samples: std::ops::Range<i64>, add: f64| {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in series {
            let sample = |at: i64| (START_MS + at * 1_000, at as f64 + add);
            batch.push(labels(&format!("app{n:03}")), samples.clone().map(sample));
        }
        batch
    };
    for (series, samples) in [(0..1, 0..1), (30..60, 0..400), (99..100, 399..400)] {
        assert!(engine.push(batch_of(series, samples, 0.5)).await.unwrap().is_empty());
    }
    let conflicts = engine.push(batch_of(0..100, 0..400, 0.0)).await.unwrap();
    assert_eq!(engine.metrics().pushes_in_parts.get(), 1);
    assert_eq!(engine.view().heads.len(), 1, "all of it is in one head");
    let series: Vec<u32> = [0].into_iter().chain(30..60).chain([99]).collect();
    assert_eq!(shown(&conflicts), (1 + 30 * 400 + 1, 0, series));
    assert_eq!(conflicts.examples[1].labels.get("app"), Some("app030"));
    assert!(engine.push(batch_of(60..99, 0..400, 0.0)).await.unwrap().is_empty(), "copies");
}
