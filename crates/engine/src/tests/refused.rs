//! Goal: a scan whose budget refuses memory at any time returns everything or an error that names the
//! budget, and no memory stays reserved; the same holds when the query is abandoned.
//!
//! Method: series in three blocks and the head are read with budgets from far too small to ample, and
//! next to a competitor that takes the rest of the budget between two batches. Time is simulated and one
//! thread runs everything, so that reading ahead fails at the same places in each run.

use std::collections::BTreeMap;

use sandur_base::ErrorKind;
use sandur_memory::Reservation;
use sandur_model::{Labels, SampleBatch};
use sandur_query::{SampleScan, SampleSelection, SeriesBatch};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

use super::*;

/// Enough for six batches.
const SERIES: usize = 2_600;
/// Samples of a series in each holder.
const SAMPLES: i64 = 20;
const FIRST_MS: i64 = START_NS / 1_000_000;
/// Bits of values by series and time.
type Found = BTreeMap<String, Vec<(i64, u64)>>;

/// Writes the holders one after the other in time: three blocks and the head.
async fn write(env: &Env) -> (Arc<Engine>, Found) {
    let plan = FaultPlan { latency_median: Duration::from_millis(5), ..FaultPlan::none() };
    let bucket = Arc::new(FaultStore::new(env.clone(), 1, plan).client("engine"));
    let store = Store::from_object_store(bucket, env.clone(), StoreOptions::default());
    let engine = Engine::open(store, env.clone(), small_options()).await.unwrap();
    let mut expected = Found::new();
    for holder in 0..4 {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for series in 0..SERIES {
            let pod = format!("pod-{series:05}");
            let labels = Labels::from_pairs([("__name__", "requests_total"), ("pod", pod.as_str())]);
            let sample = |n: i64| {
                let noise = (n * 31 + series as i64).wrapping_mul(2_654_435_761) % 1_000_003;
                (FIRST_MS + (holder * SAMPLES + n) * 15_000, noise as f64 * 0.37)
            };
            let bits = (0..SAMPLES).map(sample).map(|(time, value)| (time, value.to_bits()));
            expected.entry(labels.to_string()).or_default().extend(bits);
            batch.push(Arc::new(labels), (0..SAMPLES).map(sample));
        }
        engine.push(batch).await.unwrap();
        if holder < 3 {
            engine.flush().await.unwrap();
        }
    }
    (engine, expected)
}

fn context_of(env: &Env, bytes: u64) -> QueryContext {
    let budget = MemoryBudget::root("query", bytes);
    QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(3_600))
}

async fn scan(
    engine: &Arc<Engine>,
    context: &QueryContext,
) -> Result<Box<dyn SampleScan>, sandur_query::Error> {
    let selection = SampleSelection::all(Vec::new(), FIRST_MS, FIRST_MS + 4 * SAMPLES * 15_000);
    engine.sources().samples.select(context, selection).await
}

fn note(found: &mut Found, batch: &SeriesBatch) {
    for (n, samples) in batch.samples.iter().enumerate() {
        let bits = samples.values.iter().map(|value| value.to_bits());
        let of_series = samples.times.iter().copied().zip(bits).collect();
        let before = found.insert(Labels::from_pairs(batch.pairs(n)).to_string(), of_series);
        assert!(before.is_none(), "a series twice");
    }
}

/// Reads everything. Calls `between` before each batch, while the previous one is in use, with the
/// number of batches so far.
async fn read(
    engine: &Arc<Engine>,
    context: &QueryContext,
    mut between: impl AsyncFnMut(usize),
) -> Result<Found, sandur_query::Error> {
    let mut scan = scan(engine, context).await?;
    let (mut found, mut batches, mut used) = (Found::new(), 0, None);
    loop {
        between(batches).await;
        drop(used.take());
        let Some(batch) = scan.next().await? else { return Ok(found) };
        note(&mut found, &batch);
        batches += 1;
        used = Some(batch);
    }
}

/// Aborted tasks release their memory once they have ended.
async fn assert_given_back(context: &QueryContext, what: &str) {
    let is_given_back = async {
        while context.budget().used() > 0 {
            context.env().sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = context.env().timeout(Duration::from_secs(1), is_given_back).await;
    assert!(waited.is_some(), "{what}: {} bytes stay reserved", context.budget().used());
}

fn assert_names_budget(error: &sandur_query::Error) {
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("'query'"), "the error names the budget: {error}");
}

#[tokio::test(start_paused = true)]
async fn a_scan_returns_everything_or_names_its_budget() {
    let env = Env::simulated(1, START_NS);
    let (engine, expected) = write(&env).await;
    let ample = context_of(&env, 256 << 20);
    assert_eq!(read(&engine, &ample, async |_| {}).await.unwrap(), expected);
    assert_given_back(&ample, "ample").await;
    let (mut refused, mut answered) = (0, 0);
    let mut bytes = 64 << 10;
    while bytes < ample.budget().peak() * 2 {
        let context = context_of(&env, bytes);
        // Decoding ahead is refused while the previous batch is in use.
        match read(&engine, &context, async |_| env.sleep(Duration::from_secs(1)).await).await {
            Ok(found) => {
                assert_eq!(found, expected, "with {bytes} bytes");
                if answered == 0 {
                    let peak = ample.budget().peak();
                    assert!(bytes < peak * 2 / 3, "a short query decodes fewer series: {bytes} of {peak}");
                }
                answered += 1;
            }
            Err(error) => {
                assert_eq!(answered, 0, "{bytes} bytes do not suffice although less did: {error}");
                assert_names_budget(&error);
                refused += 1;
            }
        }
        assert_given_back(&context, &format!("with {bytes} bytes")).await;
        bytes += bytes / 8;
    }
    assert!(refused > 5 && answered > 5, "{refused} refused, {answered} answered");
    engine.shutdown().await.unwrap();
}

/// A competitor takes all remaining memory before a batch, and releases it before the batch is requested
/// or only afterwards.
#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_middle_of_a_scan_loses_nothing() {
    let env = Env::simulated(1, START_NS);
    let (engine, expected) = write(&env).await;
    let ample = context_of(&env, 256 << 20);
    let mut batches = 0;
    read(&engine, &ample, async |batch| batches = batch).await.unwrap();
    assert!(batches > 5, "{batches}");
    let (mut answered, mut refused) = (0, 0);
    for (at, stays) in (0..batches).flat_map(|at| [(at, false), (at, true)]) {
        let context = context_of(&env, 48 << 20);
        let mut neighbour: Option<Reservation> = None;
        let read = read(&engine, &context, async |batch| {
            neighbour = None;
            if batch == at {
                neighbour = Some(context.budget().reserve(context.budget().available()).unwrap());
                // Decoding and reading ahead continue until they are refused.
                env.sleep(Duration::from_secs(1)).await;
                let given_back = context.budget().available();
                assert!(given_back < 2 << 20, "{given_back}: only stored bytes, nothing was decoded");
                neighbour = neighbour.take().filter(|_| stays);
            }
        });
        match read.await {
            Ok(found) => assert_eq!(found, expected, "at {at}, stays {stays}"),
            Err(error) => {
                assert!(stays, "at {at} memory was available again: {error}");
                assert_names_budget(&error);
                refused += 1;
                answered -= 1;
            }
        }
        answered += 1;
        drop(neighbour);
        assert_given_back(&context, &format!("at {at}, stays {stays}")).await;
    }
    assert!(refused > 0 && answered >= batches as i32, "{answered} answered, {refused} refused");
    engine.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_scan_releases_its_memory() {
    let env = Env::simulated(1, START_NS);
    let (engine, _) = write(&env).await;
    for (taken, waits_ms) in (0..6).flat_map(|taken| [0, 1, 7, 1_000].map(|waits| (taken, waits))) {
        let context = context_of(&env, 48 << 20);
        let mut scan = scan(&engine, &context).await.unwrap();
        for _ in 0..taken {
            scan.next().await.unwrap();
        }
        // The next batch is abandoned while it, or a later one, is read or decoded.
        let _ = env.timeout(Duration::from_millis(waits_ms), scan.next()).await;
        drop(scan);
        assert_given_back(&context, &format!("after {taken} batches and {waits_ms} ms")).await;
    }
    engine.shutdown().await.unwrap();
}
