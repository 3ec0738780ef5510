//! Counts the consecutive requests to the store that a query waits for, with an empty cache.
//!
//! Every request takes the same simulated time and computation takes none, so concurrent requests begin
//! at the same instant: the number of distinct begin times is the number of round trips.

use std::collections::BTreeSet;

use sandur_cache::Cache;
use sandur_model::{DAY_NS, Labels, MatchOp, Matcher, SampleBatch, Signal};
use sandur_query::{Needle, SampleSelection};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

use super::*;
use crate::samples::SAMPLE_BYTES;

/// Number of series of the panel.
const SERIES: usize = 1_000;
/// Number of samples of each: one per minute of a day.
const SAMPLES: i64 = 1_440;
/// The day's first millisecond.
const DAY_MS: i64 = START_NS / DAY_NS * DAY_NS / 1_000_000;
/// The most round trips of a panel.
const TRIPS_MAX: usize = 4;

/// Writes a day of the panel's series, and for each of them `others` series with a sample every two hours.
async fn write_day(engine: &Engine, others: usize) {
    for part in 0..12 {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        let of_part = part * SAMPLES / 12..(part + 1) * SAMPLES / 12;
        let time = |n: i64| DAY_MS + n * (DAY_NS / 1_000_000 / SAMPLES);
        for series in 0..SERIES {
            let pod = format!("{series:04}");
            let labels = [("__name__", "panel"), ("job", "api"), ("pod", pod.as_str())];
            let value = |n: i64| (n * series as i64 * 7_919 % 10_007) as f64 * 0.37;
            batch.push(Arc::new(Labels::from_pairs(labels)), of_part.clone().map(|n| (time(n), value(n))));
            for other in 0..others {
                let id = (series * others + other) as u64;
                let text = format!("{:016x}", (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let labels = [("__name__", "other"), ("job", "api"), ("id", text.as_str())];
                batch.push(Arc::new(Labels::from_pairs(labels)), [(time(of_part.start), id as f64)]);
            }
        }
        engine.push(batch).await.unwrap();
        engine.flush().await.unwrap();
    }
}

fn blocks(engine: &Engine) -> usize {
    engine.view().snapshot.all_blocks().filter(|block| block.dataset.signal == Signal::Metrics).count()
}

/// The instants at which a client requested blocks.
fn trips(bucket: &FaultStore, client: &str) -> Vec<String> {
    let trace = bucket.trace();
    let asked = trace.iter().filter(|line| line.contains(&format!(" {client} get blocks/")));
    let at: BTreeSet<&str> = asked.filter_map(|line| line.split(' ').next()).collect();
    at.into_iter().map(str::to_owned).collect()
}

/// A store that answers every request after the same time.
fn distant(env: &Env) -> FaultStore {
    let plan = FaultPlan { latency_median: Duration::from_millis(30), ..FaultPlan::none() };
    FaultStore::new(env.clone(), 1, plan)
}

async fn open_at(bucket: &FaultStore, env: &Env, name: &str) -> Arc<Engine> {
    let store = Store::from_object_store(Arc::new(bucket.client(name)), env.clone(), StoreOptions::default());
    let cache = Some(Cache::in_memory(env, 64 << 20));
    let write_budget = MemoryBudget::root("write", 256 << 20);
    Engine::open(store, env.clone(), EngineOptions { cache, write_budget, ..small_options() }).await.unwrap()
}

async fn panels_take_few_trips(others: usize) {
    let env = Env::simulated(1, START_NS + 2 * DAY_NS);
    let bucket = distant(&env);
    let open = async |name: &str| open_at(&bucket, &env, name).await;
    let writer = open("writer").await;
    write_day(&writer, others).await;
    for (expected, of) in [(12, "two hours"), (1, "a day")] {
        while blocks(&writer) > expected {
            env.sleep(Duration::from_secs(60)).await;
        }
        for (name, value, found) in [("__name__", "panel", SERIES), ("pod", "0007", 1)] {
            let client = format!("{of}-{name}").replace(' ', "-");
            let reader = open(&client).await;
            assert_eq!(blocks(&reader), expected);
            let (context, matcher) = (context(&env), Matcher::new(name, MatchOp::Equal, value).unwrap());
            let selection = SampleSelection::all(vec![matcher], DAY_MS, DAY_MS + DAY_NS / 1_000_000);
            let mut scan = reader.sources().samples.select(&context, selection).await.unwrap();
            let (mut series, mut samples) = (0, 0);
            while let Some(batch) = scan.next().await.unwrap() {
                series += batch.samples.len();
                samples += batch.samples.iter().map(|samples| samples.times.len()).sum::<usize>();
            }
            drop(scan);
            assert_eq!((series, samples), (found, found * SAMPLES as usize));
            let trips = trips(&bucket, &client);
            assert!(trips.len() <= TRIPS_MAX, "blocks of {of}, {name}=\"{value}\": asked at {trips:?}");
            let bytes = context.stats().snapshot().store_bytes;
            assert!(bytes < found as u64 * SAMPLES as u64 * SAMPLE_BYTES + (8 << 20));
            reader.shutdown().await.unwrap();
        }
    }
    writer.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panel_of_a_day_takes_four_trips() {
    panels_take_few_trips(1).await;
}

/// The index of a block is too large for its footer.
#[tokio::test(start_paused = true)]
async fn a_panel_among_many_series_takes_four_trips() {
    panels_take_few_trips(8).await;
}

/// Number of hours with lines, each a block.
const HOURS: i64 = 8;

/// Writes lines in each hour.
async fn write_hours(writer: &Engine) {
    for hour in 0..HOURS {
        let at = START_NS - (HOURS - hour) * 3_600_000_000_000;
        let mut batch = BatchBuilder::new().stream("a");
        for line in 0..100 {
            batch = batch.row(at + line, &format!("the request {hour} number {line} was answered"));
        }
        writer.push(batch.build()).await.unwrap();
        writer.flush().await.unwrap();
    }
}

fn all_hours(order: Order, columns: Columns) -> Selection {
    let range = TimeRange::new(START_NS + 1 - (HOURS + 1) * 3_600_000_000_000, START_NS + 1);
    let (matchers, needles) = (Vec::new(), Needles::default());
    Selection { matchers, range, order, needles, columns, counts: false, counts_by: Vec::new() }
}

/// The lines that a scan returns.
async fn lines_of(
    reader: &Engine,
    context: &QueryContext,
    selection: Selection,
) -> Result<usize, sandur_query::Error> {
    let mut scan = reader.sources().logs.scan(context, selection).await?;
    let mut lines = 0;
    while let Some(item) = scan.next().await? {
        lines += match item {
            ScanItem::Page(mut task) => task.narrow()?.rows(),
            ScanItem::Counts(task) => {
                let counts = task.decode()?;
                counts.iter().flat_map(|one| one.minutes()).map(|minute| minute.lines as usize).sum()
            }
        };
    }
    Ok(lines)
}

/// Round trips of a scan over all hours by a reader with an empty cache, and the number of its lines.
async fn scan_trips(bucket: &FaultStore, env: &Env, client: &str, selection: Selection) -> (usize, usize) {
    let reader = open_at(bucket, env, client).await;
    let context = context(env);
    let lines = lines_of(&reader, &context, selection).await.unwrap();
    assert_eq!(context.warnings(), Vec::<String>::new());
    reader.shutdown().await.unwrap();
    (trips(bucket, client).len(), lines)
}

#[tokio::test(start_paused = true)]
async fn blocks_of_lines_are_read_concurrently() {
    let env = Env::simulated(1, START_NS);
    let bucket = distant(&env);
    let writer = open_at(&bucket, &env, "writer").await;
    write_hours(&writer).await;
    let needle = Needle { literal: b"request 0 number 17 was".to_vec(), ignore_ascii_case: false };
    let rare = Needles(vec![vec![needle]]);
    let all = HOURS as usize * 100;
    let lines = Columns { lines: true, metadata: false };
    let narrow = Columns { lines: false, metadata: false };
    for (name, order, needles, columns, counts, trips_max, least) in [
        ("counts", Order::Any, Needles::default(), narrow, true, 2, all),
        ("words", Order::Any, Needles::default(), lines, false, 3, all),
        ("needle", Order::NewestFirst, rare, lines, false, 6, 100),
        ("latest", Order::NewestFirst, Needles::default(), lines, false, 12, all),
    ] {
        let selection = Selection { needles, counts, ..all_hours(order, columns) };
        let (trips, found) = scan_trips(&bucket, &env, name, selection).await;
        assert!(found >= least, "{name}: {found} lines");
        assert!(trips <= trips_max, "{name}: {trips} trips");
    }
    writer.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_scan_of_lines_with_little_memory_returns_all_or_names_the_budget() {
    let env = Env::simulated(1, START_NS);
    let bucket = distant(&env);
    let writer = open_at(&bucket, &env, "writer").await;
    write_hours(&writer).await;
    let lines = Columns { lines: true, metadata: false };
    let mut answered = 0;
    for bytes in (0..24).map(|power| 64u64 << (power / 2) << (power % 2)) {
        let reader = open_at(&bucket, &env, &format!("reader-{bytes}")).await;
        let budget = MemoryBudget::root("query", bytes);
        let tenant = TenantId::default_tenant();
        let context = QueryContext::new(env.clone(), tenant, budget.clone(), Duration::from_secs(3_600));
        match lines_of(&reader, &context, all_hours(Order::Any, lines)).await {
            Ok(found) => {
                assert_eq!(found, HOURS as usize * 100, "{bytes} bytes");
                answered += 1;
            }
            Err(error) => assert!(error.to_string().contains("'query'"), "{bytes} bytes: {error}"),
        }
        assert_eq!(budget.used(), 0, "{bytes} bytes");
        reader.shutdown().await.unwrap();
    }
    assert!((1..24).contains(&answered), "{answered} of 24 were answered");
    writer.shutdown().await.unwrap();
}
