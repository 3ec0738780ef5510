//! Samples on the same path as logs: pushed, flushed, merged, deleted, recovered and followed. Queries
//! of one signal never see the other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use sandur_catalog::DeleteProgress;
use sandur_model::{Dataset, Labels, MatchOp, Matcher, MetricMetadata, SampleBatch, Signal};
use sandur_query::{SampleSelection, SeriesRequest, all_series, all_texts};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

use super::local::process;
use super::*;
use crate::{DeleteOptions, MaintenanceOptions};

pub(super) const START_MS: i64 = START_NS / 1_000_000;

/// Bits of values by series and time.
pub(super) type Samples = BTreeMap<String, BTreeMap<i64, u64>>;

fn options() -> EngineOptions {
    let deletes = DeleteOptions {
        cancel_period: Duration::ZERO,
        compile: Arc::new(super::deletes::compile),
        ..DeleteOptions::default()
    };
    let mut maintenance =
        MaintenanceOptions { interval: Duration::from_millis(20), ..MaintenanceOptions::default() };
    maintenance.compaction.hour_blocks_max = 3;
    EngineOptions { deletes, maintenance, ..small_options() }
}

pub(super) async fn open(directory: &Path) -> Arc<Engine> {
    let env = Env::system(2);
    let store = Store::open(directory.to_str().unwrap(), env.clone(), StoreOptions::default()).await.unwrap();
    Engine::open(store, env, options()).await.unwrap()
}

/// Pushes a sample for each of these seconds, and adds to `expected` the first one of each time.
pub(super) async fn push(
    engine: &Engine,
    app: &str,
    seconds: Range<i64>,
    value: f64,
    expected: &mut Samples,
) {
    let labels = Arc::new(Labels::from_pairs([("__name__", "up"), ("app", app)]));
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(Arc::clone(&labels), seconds.clone().map(|n| (START_MS + n * 1_000, value)));
    engine.push(batch).await.unwrap();
    let samples = expected.entry(labels.to_string()).or_default();
    for n in seconds {
        samples.entry(START_MS + n * 1_000).or_insert(value.to_bits());
    }
}

async fn read(engine: &Arc<Engine>, matchers: Vec<Matcher>, range: TimeRange) -> Samples {
    let context = context(engine.env());
    let (first_ms, last_ms) = range.milliseconds();
    let selection = SampleSelection::all(matchers, first_ms, last_ms);
    let mut scan = engine.sources().samples.select(&context, selection).await.unwrap();
    let mut found = Samples::new();
    let mut before: Option<Labels> = None;
    while let Some(batch) = scan.next().await.unwrap() {
        for (series, samples) in batch.samples.iter().enumerate() {
            let labels = Labels::from_pairs(batch.pairs(series));
            assert!(before.is_none_or(|before| before < labels), "sorted and distinct");
            assert!(samples.times.is_sorted_by(|a, b| a < b), "sorted by time and distinct");
            let bits = samples.values.iter().map(|value| value.to_bits());
            found.insert(labels.to_string(), samples.times.iter().copied().zip(bits).collect());
            before = Some(labels);
        }
    }
    drop(scan);
    assert_eq!(context.warnings(), Vec::<String>::new());
    assert_eq!(context.budget().used(), 0, "memory is released");
    found
}

pub(super) async fn all(engine: &Arc<Engine>) -> Samples {
    read(engine, Vec::new(), TimeRange::ALL).await
}

pub(super) fn metrics() -> Dataset {
    Dataset::metrics(TenantId::default_tenant())
}

pub(super) fn blocks(engine: &Engine, dataset: &Dataset) -> usize {
    engine.view().snapshot.blocks(dataset, TimeRange::ALL).count()
}

/// Waits until the catalog satisfies a condition.
pub(super) async fn until(engine: &Engine, is_so: impl Fn(&sandur_catalog::Snapshot) -> bool) {
    let mut snapshots = engine.catalog().watch();
    let wait = snapshots.wait_for(|snapshot| is_so(snapshot));
    let snapshot = engine
        .env()
        .timeout(Duration::from_secs(600), wait)
        .await
        .expect("the condition holds in the end")
        .unwrap()
        .clone();
    engine.publish(snapshot);
}

#[test]
fn samples_survive_flushes_merges_and_restarts_bit_for_bit() {
    let directory = TempDir::new().unwrap();
    let mut expected = Samples::new();
    let stale = f64::from_bits(0x7ff0_0000_0000_0002);
    process(async {
        let engine = open(directory.path()).await;
        push(&engine, "a", 0..50, 1.5, &mut expected).await;
        push(&engine, "b", 20..21, stale, &mut expected).await;
        assert_eq!(all(&engine).await, expected);
        engine.flush().await.unwrap();
        assert_eq!((blocks(&engine, &metrics()), engine.view().head_totals().rows), (1, 0));
        assert_eq!(all(&engine).await, expected);
        // The first value of an instant stays, wherever it is stored.
        push(&engine, "a", 40..60, -0.0, &mut expected).await;
        assert_eq!(all(&engine).await, expected);
        // The process ends without a shutdown: the rows of the head are in the WAL.
    });
    process(async {
        let engine = open(directory.path()).await;
        assert_eq!(all(&engine).await, expected);
        engine.flush().await.unwrap();
        assert_eq!((blocks(&engine, &metrics()), all(&engine).await), (2, expected.clone()));
        let a = Matcher::new("app", MatchOp::Regex, "a|x").unwrap();
        let range = TimeRange::new(START_NS + 45_000_000_000, START_NS + 47_000_000_000);
        let found = read(&engine, vec![a], range).await;
        assert_eq!(found.len(), 1);
        let times: Vec<i64> = found.values().flat_map(|samples| samples.keys()).copied().collect();
        assert_eq!(times, [START_MS + 45_000, START_MS + 46_000]);
        engine.shutdown().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn label_calls_read_heads_and_blocks() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut expected = Samples::new();
    push_rows(&engine, "of-logs", 0..3).await;
    push(&engine, "a", 0..10, 1.0, &mut expected).await;
    push(&engine, "b", 3_600..3_610, 1.0, &mut expected).await;
    let matcher = |op, value: &str| vec![Matcher::new("app", op, value).unwrap()];
    let at =
        |seconds: i64| TimeRange::of_milliseconds(START_MS + seconds * 1_000, START_MS + seconds * 1_000);
    for flushed in [false, true] {
        if flushed {
            engine.flush().await.unwrap();
        }
        let (samples, context) = (engine.sources().samples, context(engine.env()));
        let (names, _) = all_texts(&*samples, &context, SeriesRequest::everything().names()).await.unwrap();
        assert_eq!(names, ["__name__", "app"]);
        let values = async |matchers, range| {
            let request = SeriesRequest::new(matchers, range).values("app");
            all_texts(&*samples, &context, request).await.unwrap().0
        };
        assert_eq!(values(Vec::new(), TimeRange::ALL).await, ["a", "b"]);
        assert_eq!(values(matcher(MatchOp::Regex, "b|c"), TimeRange::ALL).await, ["b"]);
        assert_eq!(values(Vec::new(), at(3_605)).await, ["b"], "flushed: {flushed}");
        let lists = vec![matcher(MatchOp::Equal, "b"), matcher(MatchOp::NotEqual, "c")];
        let (series, _) =
            all_series(&*samples, &context, SeriesRequest::any_of(lists, TimeRange::ALL)).await.unwrap();
        let shown: Vec<String> = series.iter().map(|labels| labels.to_string()).collect();
        assert_eq!(shown, [r#"{__name__="up", app="a"}"#, r#"{__name__="up", app="b"}"#]);
        let held: u64 =
            samples.holdings(&context, TimeRange::ALL).unwrap().iter().map(|held| held.bytes).sum();
        assert_eq!(held, 20 * 16, "only samples, no lines");
        assert_eq!(context.warnings(), Vec::<String>::new());
    }
}

/// Stores more values of `app` than a small query may hold, one for each series, in three blocks and the
/// head. Each holder has some values of the previous one.
async fn push_many_values(engine: &Engine) -> std::collections::BTreeSet<String> {
    let app = |n: u32| format!("app-{:05}-{}", n * 7_919 % 50_000, "x".repeat(200));
    for part in 0..4u32 {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in part * 5_000..part * 5_000 + 7_000 {
            let app = app(n);
            let labels = Labels::from_pairs([("__name__", "up"), ("app", app.as_str())]);
            batch.push(Arc::new(labels), [(START_MS + i64::from(part) * 1_000, 1.0)]);
        }
        engine.push(batch).await.unwrap();
        if part < 3 {
            engine.flush().await.unwrap();
        }
    }
    (0..22_000).map(app).collect()
}

/// More values and series than a query may hold are read in batches, over blocks and the head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn label_calls_take_less_memory_than_their_answers() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let expected = push_many_values(&engine).await;
    let budget = || {
        let budget = sandur_memory::MemoryBudget::root("a small query", 5 << 20);
        let tenant = TenantId::default_tenant();
        QueryContext::new(engine.env().clone(), tenant, budget, Duration::from_secs(3_600))
    };
    let (samples, small) = (engine.sources().samples, budget());
    let mut scan = samples.texts(&small, SeriesRequest::everything().values("app")).await.unwrap();
    let mut found = Vec::new();
    while let Some(batch) = scan.next().await.unwrap() {
        assert!(!batch.is_empty());
        found.extend(batch.iter().map(str::to_owned));
    }
    assert!(found.iter().eq(&expected), "{} of {}", found.len(), expected.len());
    let mut scan = samples.series(&small, SeriesRequest::everything()).await.unwrap();
    let mut series = 0;
    while let Some(batch) = scan.next().await.unwrap() {
        series += batch.labels.len();
    }
    assert_eq!(series, expected.len(), "each series is returned once");
    drop(scan);
    let whole = all_texts(&*samples, &small, SeriesRequest::everything().values("app")).await;
    assert!(whole.unwrap_err().to_string().contains("a small query"));
    // Many concurrent calls.
    let count = async |context: QueryContext| {
        let every = vec![vec![Matcher::new("app", MatchOp::Regex, "app-.*x").unwrap()]];
        let mut scan =
            samples.texts(&context, SeriesRequest::any_of(every, TimeRange::ALL).values("app")).await?;
        let mut count = 0;
        while let Some(batch) = scan.next().await? {
            count += batch.len();
        }
        Ok::<_, sandur_query::Error>(count)
    };
    for counted in futures_util::future::join_all((0..8).map(|_| count(budget()))).await {
        assert_eq!(counted.unwrap(), expected.len());
    }
}

/// A competitor takes the memory at every step of a scan and releases it in parts: no series is missing
/// or returned twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn label_scans_continue_after_a_refusal_of_memory() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let expected = push_many_values(&engine).await;
    let all = sandur_memory::MemoryBudget::root("all queries", 16 << 20);
    let (tenant, budget) = (TenantId::default_tenant(), all.child("query", 16 << 20));
    let context = QueryContext::new(engine.env().clone(), tenant, budget, Duration::from_secs(3_600));
    let samples = engine.sources().samples;
    let mut values = samples.texts(&context, SeriesRequest::everything().values("app")).await.unwrap();
    let mut series = samples.series(&context, SeriesRequest::everything()).await.unwrap();
    let (mut of_values, mut of_series, mut refusals) = (Vec::new(), Vec::new(), 0);
    let (mut values_are_over, mut series_are_over, mut kept_by_others) = (false, false, 64);
    while !(values_are_over && series_are_over) {
        let others = all.reserve(all.available() / 64 * kept_by_others).unwrap();
        let mut is_refused = false;
        let mut over = |outcome: Result<bool, sandur_query::Error>, was_over: bool| match outcome {
            Ok(is_over) => is_over,
            Err(sandur_query::Error::OverBudget(_)) => {
                is_refused = true;
                was_over
            }
            Err(other) => panic!("{other}"),
        };
        if !values_are_over {
            let next = values.next().await;
            let taken =
                next.map(|batch| batch.map(|batch| of_values.extend(batch.iter().map(str::to_owned))));
            values_are_over = over(taken.map(|batch| batch.is_none()), false);
        }
        if !series_are_over {
            let next = series.next().await;
            let taken = next.map(|batch| {
                batch.map(|batch| {
                    for at in 0..batch.labels.len() {
                        of_series.extend(
                            batch.pairs(at).filter(|pair| pair.0 == "app").map(|pair| pair.1.to_owned()),
                        );
                    }
                })
            });
            series_are_over = over(taken.map(|batch| batch.is_none()), false);
        }
        drop(others);
        refusals += usize::from(is_refused);
        kept_by_others = if is_refused { kept_by_others - 4 } else { 64 };
    }
    assert!(refusals > 20, "{refusals}");
    assert!(of_values.iter().eq(&expected), "{} of {}", of_values.len(), expected.len());
    assert!(of_series.iter().eq(&expected), "{} of {}", of_series.len(), expected.len());
}

/// A list whose memory does not suffice is refused before its first batch, also if later pages are a
/// third larger than the first ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_scan_fails_before_its_first_batch_or_not_at_all() {
    const SERIES: usize = 24_000;
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    for part in 0..3 {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in (part..SERIES).step_by(3) {
            let app = format!("app-{n:05}-{}", "x".repeat(150 + n * 50 / SERIES));
            let labels = Labels::from_pairs([("__name__", "up"), ("app", app.as_str())]);
            batch.push(Arc::new(labels), [(START_MS, 1.0)]);
        }
        engine.push(batch).await.unwrap();
        engine.flush().await.unwrap();
    }
    let samples = engine.sources().samples;
    let (mut refused, mut whole) = (0, 0);
    for bytes in (8..96).map(|part| part << 16) {
        let budget = sandur_memory::MemoryBudget::root("a small query", bytes);
        let tenant = TenantId::default_tenant();
        let context = QueryContext::new(engine.env().clone(), tenant, budget, Duration::from_secs(3_600));
        let Ok(mut scan) = samples.series(&context, SeriesRequest::everything()).await else {
            refused += 1;
            continue;
        };
        let Ok(first) = scan.next().await else {
            refused += 1;
            continue;
        };
        let mut series = first.unwrap().labels.len();
        while let Some(batch) = scan.next().await.unwrap_or_else(|error| panic!("{bytes}: {error}")) {
            series += batch.labels.len();
        }
        assert_eq!(series, SERIES, "{bytes}");
        whole += 1;
    }
    assert!(refused > 2 && whole > 2, "{refused} and {whole}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_returns_only_the_requested_labels_and_stays_within_its_budget() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut expected = Samples::new();
    for app in 0..40 {
        push(&engine, &format!("app-{app}"), 0..500, 1.0, &mut expected).await;
    }
    let selection = |labels: &[&str]| SampleSelection {
        labels: Some(labels.iter().map(|&label| label.to_owned()).collect()),
        ..SampleSelection::all(Vec::new(), START_MS, START_MS + 1_000)
    };
    let samples = engine.sources().samples;
    let rich = context(engine.env());
    let mut scan = samples.select(&rich, selection(&["__name__"])).await.unwrap();
    let batch = scan.next().await.unwrap().unwrap();
    assert_eq!(batch.labels.len(), 40);
    assert!((0..40).all(|at| batch.pairs(at).eq([("__name__", "up")])), "app was not requested");
    assert!(batch.samples.iter().all(|samples| samples.times[..] == [START_MS, START_MS + 1_000]));
    let budget = sandur_memory::MemoryBudget::root("a small query", 8 << 10);
    let tenant = TenantId::default_tenant();
    let poor = QueryContext::new(engine.env().clone(), tenant, budget, Duration::from_secs(3_600));
    let mut scan = samples.select(&poor, selection(&["app"])).await.unwrap();
    let refused = scan.next().await.err().unwrap();
    assert!(refused.to_string().contains("a small query"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_blocks_of_samples_have_each_instant_once() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut expected = Samples::new();
    for n in 0..4 {
        push(&engine, "a", n * 10..n * 10 + 20, n as f64, &mut expected).await;
        push(&engine, ["b", "c"][n as usize % 2], n..n + 1, 7.0, &mut expected).await;
        engine.flush().await.unwrap();
    }
    until(&engine, |snapshot| snapshot.blocks(&metrics(), TimeRange::ALL).count() < 3).await;
    assert_eq!(all(&engine).await, expected);
    let rows: u64 = engine.view().snapshot.blocks(&metrics(), TimeRange::ALL).map(|block| block.rows).sum();
    assert!(rows < 4 * 20 + 4, "merges leave repeated samples out");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_signal_sees_or_blocks_the_other() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut expected = Samples::new();
    let logs = push_rows(&engine, "a", 0..10).await;
    push(&engine, "a", 0..10, 1.0, &mut expected).await;
    assert_eq!((read_all(&engine).await, all(&engine).await), (logs.clone(), expected.clone()));
    engine.flush().await.unwrap();
    let of_logs = Dataset::logs(TenantId::default_tenant());
    assert_eq!((blocks(&engine, &of_logs), blocks(&engine, &metrics())), (1, 1));
    assert_eq!((read_all(&engine).await, all(&engine).await), (logs.clone(), expected.clone()));
    let (names, _) =
        all_texts(&*engine.sources().logs, &context(engine.env()), SeriesRequest::everything().names())
            .await
            .unwrap();
    assert_eq!(names, ["app"]);
    let processed = |dataset: Dataset, id| {
        move |snapshot: &sandur_catalog::Snapshot| {
            let record = snapshot.delete(&dataset, id).map(|record| record.progress);
            matches!(record, Some(DeleteProgress::Processed { .. }))
        }
    };
    // A log delete is processed while there are blocks of metrics, and removes none of their rows.
    let id = engine.create_delete(&of_logs, "a", START_MS, START_MS + 4).await.unwrap();
    assert_eq!(read_all(&engine).await, logs[5..]);
    until(&engine, processed(of_logs.clone(), id)).await;
    assert_eq!((read_all(&engine).await, all(&engine).await), (logs[5..].to_vec(), expected.clone()));
    // The same with the signals exchanged, and with samples that are still in the head.
    push(&engine, "a", 10..12, 2.0, &mut expected).await;
    push(&engine, "b", 0..3, 3.0, &mut expected).await;
    let generation = engine.sources().logs.delete_generation(&TenantId::default_tenant());
    let id = engine.create_delete(&metrics(), "a", START_MS + 2_000, START_MS + 10_000).await.unwrap();
    let a = expected.iter_mut().next().unwrap().1;
    a.retain(|time, _| !(START_MS + 2_000..=START_MS + 10_000).contains(time));
    assert_eq!(all(&engine).await, expected, "hidden at once");
    assert_eq!(engine.sources().logs.delete_generation(&TenantId::default_tenant()), generation);
    engine.flush().await.unwrap();
    until(&engine, processed(metrics(), id)).await;
    assert_eq!((read_all(&engine).await, all(&engine).await), (logs[5..].to_vec(), expected.clone()));
    let rows: u64 = engine.view().snapshot.blocks(&metrics(), TimeRange::ALL).map(|block| block.rows).sum();
    assert_eq!(
        rows,
        expected.values().map(|samples| samples.len() as u64).sum::<u64>(),
        "removed from blocks"
    );
    engine.shutdown().await.unwrap();
}

/// Pushes a sample for each second of a series with these labels, and adds them to `expected`.
async fn push_labels(
    engine: &Engine,
    pairs: &[(&str, &str)],
    seconds: Range<i64>,
    expected: Option<&mut Samples>,
) {
    let labels = Arc::new(Labels::from_pairs(pairs.iter().copied()));
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(Arc::clone(&labels), seconds.clone().map(|n| (START_MS + n * 1_000, 1.0)));
    engine.push(batch).await.unwrap();
    let Some(expected) = expected else { return };
    let of = seconds.map(|n| (START_MS + n * 1_000, 1.0f64.to_bits()));
    expected.entry(labels.to_string()).or_default().extend(of);
}

/// Goal: deleting a series by exactly its labels removes no series with more labels, neither an existing
/// one nor one that is added later with older samples.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_exactly_one_series_keeps_those_with_more_labels() {
    let directory = TempDir::new().unwrap();
    let exactly = |text: &str| -> Result<Arc<dyn sandur_query::RowSelector>, sandur_query::Error> {
        let matchers = vec![Matcher::equal("__name__", "m"), Matcher::equal("a", text)];
        Ok(Arc::new(sandur_query::SeriesSelector::exactly(matchers)))
    };
    let mut options = options();
    options.deletes.compile_samples = Some(Arc::new(exactly));
    let env = Env::system(2);
    let url = directory.path().to_str().unwrap();
    let store = Store::open(url, env.clone(), StoreOptions::default()).await.unwrap();
    let engine = Engine::open(store, env, options).await.unwrap();
    let alone = [("__name__", "m"), ("a", "1"), ("__g0__", "m")];
    let more = [&alone[..2], &[("b", "2")]].concat();
    let mut expected = Samples::new();
    // In a block and in the head.
    push_labels(&engine, &alone, 0..3, None).await;
    push_labels(&engine, &more, 0..3, Some(&mut expected)).await;
    engine.flush().await.unwrap();
    push_labels(&engine, &alone, 3..6, None).await;
    push_labels(&engine, &more, 3..6, Some(&mut expected)).await;
    let id = engine.create_delete(&metrics(), "1", START_MS, START_MS + 60_000).await.unwrap();
    assert_eq!(all(&engine).await, expected, "only this series is hidden, at once");
    // Tags that occurred nowhere before.
    push_labels(&engine, &[&alone[..2], &[("c", "3")]].concat(), 1..5, Some(&mut expected)).await;
    push_labels(&engine, &more, 6..8, Some(&mut expected)).await;
    assert_eq!(all(&engine).await, expected);
    engine.flush().await.unwrap();
    until(&engine, |snapshot| {
        let record = snapshot.delete(&metrics(), id).map(|record| record.progress);
        matches!(record, Some(DeleteProgress::Processed { .. }))
    })
    .await;
    assert_eq!(all(&engine).await, expected);
    let rows: u64 = engine.view().snapshot.blocks(&metrics(), TimeRange::ALL).map(|block| block.rows).sum();
    assert_eq!(
        rows,
        expected.values().map(|samples| samples.len() as u64).sum::<u64>(),
        "removed from blocks"
    );
    engine.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn engines_of_a_bucket_return_each_others_samples() {
    let env = Env::simulated(3, START_NS);
    let plan = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
    let bucket = FaultStore::new(env.clone(), 3, plan);
    let open = async |name: &str| {
        let client = Arc::new(bucket.client(name));
        let store = Store::from_object_store(client, env.clone(), StoreOptions::default());
        Engine::open(store, env.clone(), small_options()).await.unwrap()
    };
    let (one, two) = (open("one").await, open("two").await);
    let mut expected = Samples::new();
    for n in 0..5 {
        push(&one, "a", n * 5..n * 5 + 5, n as f64, &mut expected).await;
        push(&two, "b", n..n + 1, n as f64, &mut expected).await;
        env.sleep(Duration::from_secs(2)).await;
    }
    env.sleep(Duration::from_secs(3)).await;
    assert_eq!((all(&one).await, all(&two).await), (expected.clone(), expected.clone()));
    one.flush().await.unwrap();
    push(&one, "a", 25..30, 9.0, &mut expected).await;
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!((all(&one).await, all(&two).await), (expected.clone(), expected.clone()));
    assert_eq!(two.view().head_totals().rows, 5 + 5, "rows that the other engine flushed have left the head");
    // One engine dies; the other adopts the rows that it had in memory.
    bucket.client("one").cut(true);
    drop(one);
    env.sleep(Duration::from_secs(300)).await;
    assert_eq!(all(&two).await, expected);
    two.shutdown().await.unwrap();
    let three = open("three").await;
    assert_eq!((all(&three).await, three.view().heads.len()), (expected, 0));
    assert!(three.view().snapshot.datasets().all(|dataset| dataset.signal == Signal::Metrics));
}

/// Only metadata: a flush releases its memory and writes it to a block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_without_samples_is_flushed_and_releases_its_memory() {
    let directory = TempDir::new().unwrap();
    let options = EngineOptions { flush_age: Duration::from_millis(1), ..options() };
    let env = Env::system(2);
    let path = directory.path().to_str().unwrap();
    let store = Store::open(path, env.clone(), StoreOptions::default()).await.unwrap();
    let engine = Engine::open(store, env, options).await.unwrap();
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.metadata.push(MetricMetadata { family: "up".into(), ..MetricMetadata::default() });
    engine.push(batch).await.unwrap();
    let is_given_back = async {
        while engine.view().head_totals().memory_bytes > 0 {
            engine.env().sleep(Duration::from_millis(1)).await;
        }
    };
    engine.env().timeout(Duration::from_secs(600), is_given_back).await.expect("it is flushed");
    assert_eq!(blocks(&engine, &metrics()), 1);
    assert_eq!(all(&engine).await, Samples::new());
    engine.shutdown().await.unwrap();
}

/// More series than one part has, in pages that extend from one part into the next, and also in heads.
#[tokio::test]
async fn no_series_is_lost_between_the_parts_of_a_batch() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut expected = Samples::new();
    for series in 0..300 {
        push(&engine, &format!("app-{series:03}"), 0..3 + series % 5, series as f64, &mut expected).await;
    }
    engine.flush().await.unwrap();
    for series in (0..310).step_by(3) {
        push(&engine, &format!("app-{series:03}"), 5..9, -1.0, &mut expected).await;
    }
    let everything = TimeRange { start: START_NS, end: START_NS + 60_000_000_000 };
    assert_eq!(read(&engine, vec![], everything).await, expected);
    let context = context(engine.env());
    let (first_ms, last_ms) = everything.milliseconds();
    let selection = SampleSelection::all(vec![], first_ms, last_ms);
    let mut scan = engine.sources().samples.select(&context, selection).await.unwrap();
    let mut parts = Vec::new();
    while let Some(batch) = scan.next().await.unwrap() {
        assert!(context.budget().used() > 0, "returned batches are reserved");
        parts.push(batch.samples.len());
    }
    assert_eq!(parts.iter().sum::<usize>(), expected.len());
    assert!(parts.len() >= 4, "two threads decode: {parts:?}");
}

/// A day in which every fifth series is replaced each hour: flushed series leave the heads, including
/// their strings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_churn_does_not_grow_memory_over_a_day() {
    const SERIES: usize = 300;
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut generations = vec![0u32; SERIES];
    let mut peaks = Vec::new();
    for hour in 0..24i64 {
        for scrape in 0..4 {
            let mut batch = SampleBatch::new(TenantId::default_tenant());
            for (n, generation) in generations.iter().enumerate() {
                let (pod, path) = (format!("api-{n}-{generation}"), format!("/v1/{n}"));
                let pairs = [("__name__", "up"), ("path", path.as_str()), ("pod", pod.as_str())];
                let time = START_MS + hour * 3_600_000 + scrape * 900_000;
                batch.push(Arc::new(Labels::from_pairs(pairs)), [(time, n as f64)]);
            }
            engine.push(batch).await.unwrap();
        }
        peaks.push(engine.view().head_totals().memory_bytes);
        engine.flush().await.unwrap();
        assert_eq!(engine.view().head_totals().memory_bytes, 0);
        let part = hour as usize % 5;
        generations.iter_mut().skip(part).step_by(5).for_each(|generation| *generation += 1);
    }
    let (first, most) = (peaks[0], peaks.iter().max().unwrap());
    assert!(most * 10 <= first * 11, "{peaks:?}");
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_new_series_beyond_a_limit_are_returned() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut expected = Samples::new();
    for app in ["a", "b"] {
        push(&engine, app, 0..1, 1.0, &mut expected).await;
    }
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    for app in ["x", "a", "y", "b", "x"] {
        let labels = Labels::from_pairs([("__name__", "up"), ("app", app)]);
        batch.push(Arc::new(labels), [(START_MS + 5_000, 1.0)]);
    }
    let beyond = |most| engine.view().series_beyond(&batch, most);
    assert_eq!(beyond(7), Vec::<u32>::new());
    assert_eq!(beyond(4), Vec::<u32>::new(), "a repeated series counts once");
    assert_eq!(beyond(3), [2], "the first new one is within the limit, also when it is repeated");
    assert_eq!(beyond(1), [0, 2, 4]);
    batch.tenant = TenantId::new("other").unwrap();
    assert_eq!(engine.view().series_beyond(&batch, 3), [3], "series of other tenants do not count");
    engine.shutdown().await.unwrap();
}
