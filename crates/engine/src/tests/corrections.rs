//! Of several values of one instant in a Graphite series the last that was written counts, wherever they
//! are stored: in memory, in the WAL of a dead process, in merged and unmerged blocks.

use sandur_model::{Dataset, SampleBatch, graphite_path_labels};
use sandur_query::SampleSelection;
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Store, StoreOptions};

use super::samples::{START_MS, until};
use super::*;
use crate::MaintenanceOptions;

fn options() -> EngineOptions {
    let mut maintenance =
        MaintenanceOptions { interval: Duration::from_secs(1), ..MaintenanceOptions::default() };
    maintenance.compaction.hour_blocks_max = 3;
    EngineOptions { maintenance, ..small_options() }
}

fn world(seed: u64) -> (Env, FaultStore) {
    let env = Env::simulated(seed, START_NS);
    let plan = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
    (env.clone(), FaultStore::new(env, seed, plan))
}

async fn open(env: &Env, client: &FaultStore, options: EngineOptions) -> Arc<Engine> {
    let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
    Engine::open(store, env.clone(), options).await.unwrap()
}

/// Writes a value at each of these seconds.
async fn write(engine: &Engine, seconds: std::ops::Range<i64>, value: f64) {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    let labels = Arc::new(graphite_path_labels("site.load").unwrap());
    batch.push(labels, seconds.map(|second| (START_MS + second * 1_000, value)));
    engine.push(batch).await.unwrap();
}

/// The value of the first second.
async fn first_value(engine: &Arc<Engine>) -> f64 {
    let context = context(engine.env());
    let selection = SampleSelection::all(Vec::new(), i64::MIN, i64::MAX);
    let mut scan = engine.sources().samples.select(&context, selection).await.unwrap();
    let batch = scan.next().await.unwrap().expect("there is a series");
    assert_eq!((batch.samples.len(), batch.samples[0].times[0]), (1, START_MS));
    batch.samples[0].values[0]
}

fn blocks(snapshot: &sandur_catalog::Snapshot) -> Vec<(u8, u64)> {
    let dataset = Dataset::metrics(TenantId::default_tenant());
    snapshot.blocks(&dataset, TimeRange::ALL).map(|block| (block.level, block.rows)).collect()
}

/// The block with the corrected value is too large for a merge, those with the corrections are not. The
/// merged block must not precede it in the order of writing.
#[tokio::test(start_paused = true)]
async fn a_merge_without_the_first_value_does_not_restore_it() {
    let (env, bucket) = world(31);
    let mut options = options();
    options.maintenance.compaction.block_raw_bytes_max = 16 * 100;
    let engine = open(&env, &bucket, options.clone()).await;
    write(&engine, 0..200, 1.0).await;
    engine.flush().await.unwrap();
    for (seconds, value) in [(0..1, 2.0), (0..1, 3.0), (5..9, 4.0)] {
        write(&engine, seconds, value).await;
        assert_eq!(first_value(&engine).await, f64::min(value, 3.0), "in memory");
        engine.flush().await.unwrap();
        assert_eq!(first_value(&engine).await, f64::min(value, 3.0), "in blocks");
    }
    until(&engine, |snapshot| blocks(snapshot).contains(&(1, 5))).await;
    assert_eq!(first_value(&engine).await, 3.0, "{:?}", blocks(&engine.view().snapshot));
    let fresh = open(&env, &bucket.client("fresh"), options).await;
    assert_eq!(first_value(&fresh).await, 3.0, "with a catalog read from the store");
}

/// A new process flushed its corrections before the previous process was adopted.
#[tokio::test(start_paused = true)]
async fn values_of_a_dead_process_do_not_follow_corrections() {
    let (env, bucket) = world(32);
    let mut options = options();
    options.flush_age = Duration::from_secs(2);
    let first = open(
        &env,
        &bucket.client("first"),
        EngineOptions { flush_age: Duration::from_secs(3_600), ..options.clone() },
    )
    .await;
    let dead = first.incarnation();
    write(&first, 0..5, 1.0).await;
    drop(first);
    let second = open(&env, &bucket.client("second"), options).await;
    assert!(second.incarnation() > dead);
    assert_eq!(first_value(&second).await, 1.0, "from the WAL");
    write(&second, 0..1, 2.0).await;
    assert_eq!(first_value(&second).await, 2.0, "in memory");
    let own = second.incarnation();
    let are_flushed = |snapshot: &sandur_catalog::Snapshot| {
        let is_flushed = |id| snapshot.writer(id).is_none_or(|writer| writer.floor > 0);
        is_flushed(dead) && is_flushed(own)
    };
    until(&second, are_flushed).await;
    assert_eq!((first_value(&second).await, second.view().head_totals().rows), (2.0, 0), "in blocks");
}

/// Two processes followed each other and died; the WAL of the first is adopted more slowly.
#[tokio::test(start_paused = true)]
async fn dead_processes_are_flushed_in_the_order_of_their_start() {
    for trouble in [Fault::Slow(Duration::from_secs(8)), Fault::Failed, Fault::LostAck] {
        let (env, bucket) = world(34);
        let first = open(&env, &bucket.client("first"), options()).await;
        let dead = first.incarnation();
        write(&first, 0..5, 1.0).await;
        drop(first);
        let second = open(&env, &bucket.client("second"), options()).await;
        let behind = second.incarnation();
        write(&second, 0..1, 2.0).await;
        drop(second);
        let client = bucket.client("third");
        (0..3).for_each(|_| client.fail_next(Op::Create, &format!("wal/{dead}"), trouble));
        let third = open(&env, &client, options()).await;
        assert_eq!(first_value(&third).await, 2.0, "from both WALs");
        let is_sealed = |snapshot: &sandur_catalog::Snapshot, id| {
            snapshot.writer(id).is_none_or(|writer| writer.is_sealed())
        };
        until(&third, |snapshot| is_sealed(snapshot, dead) || is_sealed(snapshot, behind)).await;
        assert_eq!(first_value(&third).await, 2.0, "{trouble:?}: one of them is in a block");
        until(&third, |snapshot| is_sealed(snapshot, dead) && is_sealed(snapshot, behind)).await;
        assert_eq!((first_value(&third).await, third.view().head_totals().rows), (2.0, 0), "in blocks");
    }
}

/// Adopting a sequence of dead processes takes longer than the maximum wait for one of them.
#[tokio::test(start_paused = true)]
async fn many_dead_processes_are_flushed_in_order() {
    const DEAD: i64 = 9;
    let (env, bucket) = world(35);
    let mut dead = Vec::new();
    for number in 0..DEAD {
        let engine = open(&env, &bucket.client(&format!("dead-{number}")), options()).await;
        write(&engine, 0..1, number as f64).await;
        dead.push(engine.incarnation());
    }
    let client = bucket.client("last");
    // A request that hangs is given up and retried.
    for incarnation in &dead[..DEAD as usize - 1] {
        (0..3).for_each(|_| client.fail_next(Op::Create, &format!("wal/{incarnation}"), Fault::Hang));
    }
    let last = open(&env, &client, options()).await;
    let sealed = |snapshot: &sandur_catalog::Snapshot, id: &sandur_base::Id| {
        snapshot.writer(*id).is_none_or(|writer| writer.is_sealed())
    };
    for count in 1..=dead.len() {
        until(&last, |snapshot| dead.iter().filter(|id| sealed(snapshot, id)).count() >= count).await;
        let view = last.view();
        let open = dead.iter().position(|id| !sealed(&view.snapshot, id)).unwrap_or(dead.len());
        assert!(
            dead[open..].iter().all(|id| !sealed(&view.snapshot, id)),
            "{count} are sealed, out of order"
        );
    }
    assert_eq!((first_value(&last).await, last.view().head_totals().rows), ((DEAD - 1) as f64, 0));
}

/// A clock that was set back gave a process a smaller id than the previous process.
#[tokio::test(start_paused = true)]
async fn a_process_follows_earlier_ones_whatever_its_clock_says() {
    let (env, bucket) = world(33);
    let first = open(&env, &bucket.client("first"), options()).await;
    write(&first, 0..5, 1.0).await;
    let dead = first.incarnation();
    drop(first);
    env.set_clock_skew(Duration::from_secs(3_600), false);
    let second = open(&env, &bucket.client("second"), options()).await;
    assert!(second.incarnation() > dead);
    write(&second, 0..1, 2.0).await;
    assert_eq!(first_value(&second).await, 2.0);
}
