//! Flushes of many blocks: in several commits, with tenants whose blocks cannot be written, with
//! timestamps spread over a century.

use std::collections::BTreeMap;

use sandur_model::{DAY_NS, Dataset, Labels, SampleBatch, graphite_path_labels};
use sandur_store::Intent;
use sandur_store::fault::{Fault, Op};

use super::samples::{Samples, all, metrics};
use super::*;
use crate::windows::is_long;

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

/// A bucket, and engines that commit few blocks at once.
struct World {
    env: Env,
    bucket: FaultStore,
    commit_blocks: usize,
}

impl World {
    fn new(seed: u64, commit_blocks: usize) -> Self {
        let env = Env::simulated(seed, START_NS);
        let bucket = near_bucket(&env, seed);
        Self { env, bucket, commit_blocks }
    }

    async fn open(&self, name: &str) -> Arc<Engine> {
        let options = EngineOptions { flush_commit_blocks: self.commit_blocks, ..unhurried_options() };
        open_on(&self.bucket, &self.env, name, options).await
    }

    async fn sleep(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    /// The number of objects of blocks, and how many of them the catalog lists.
    async fn objects(&self, engine: &Engine) -> (usize, usize) {
        let listed = engine.store().list("blocks/", Intent::wal()).await.unwrap();
        let snapshot = &engine.view().snapshot;
        let known: BTreeSet<String> = snapshot.all_blocks().map(|block| block.path()).collect();
        (listed.len(), listed.iter().filter(|object| known.contains(&object.path)).count())
    }
}

async fn push_line(engine: &Engine, of: &str, number: i64) {
    let batch = BatchBuilder::of(tenant(of)).stream("a").row(START_NS + number, "a line").build();
    engine.push(batch).await.unwrap();
}

/// The number of rows that a query of a tenant returns, with repetitions.
async fn lines(engine: &Arc<Engine>, of: &str) -> usize {
    let budget = MemoryBudget::root("query", 256 << 20);
    let env = engine.env().clone();
    let context = QueryContext::new(env, tenant(of), budget, Duration::from_secs(3_600));
    read_all_with(engine, &context).await.len()
}

fn transactions(engine: &Engine) -> u64 {
    engine.view().snapshot.number()
}

#[tokio::test(start_paused = true)]
async fn a_flush_of_many_tenants_is_committed_in_several_transactions() {
    let world = World::new(1, 8);
    let engine = world.open("one").await;
    for n in 0..40 {
        push_line(&engine, &format!("tenant-{n}"), 0).await;
    }
    let before = transactions(&engine);
    engine.flush().await.unwrap();
    assert_eq!(transactions(&engine) - before, 5);
    assert_eq!((engine.view().head_totals().rows, world.objects(&engine).await), (0, (40, 40)));
    for n in 0..40 {
        assert_eq!(lines(&engine, &format!("tenant-{n}")).await, 1);
    }
}

/// A process that dies after any of the commits of a flush leaves blocks whose rows are also in its WAL.
/// A process that reads both returns them once, also after they were flushed again, and of carbon's
/// values the last one stays.
#[tokio::test(start_paused = true)]
async fn a_crash_between_two_commits_of_a_flush_neither_duplicates_nor_reorders() {
    for commits in 0..8 {
        let world = World::new(10 + commits, 1);
        let (one, two) = (world.open("one").await, world.open("two").await);
        let path = Arc::new(graphite_path_labels("site.load").unwrap());
        let write = async |engine: &Engine, value: f64| {
            let mut batch = SampleBatch::new(TenantId::default_tenant());
            batch.push(Arc::clone(&path), [(START_NS / 1_000_000, value)]);
            engine.push(batch).await.unwrap();
        };
        let rows = push_rows(&one, "a", 0..3).await;
        write(&one, 1.0).await;
        write(&one, 2.0).await;
        for n in 0..4 {
            push_line(&one, &format!("tenant-{n}"), 0).await;
        }
        world.sleep(70).await;
        let began = transactions(&one);
        let flush = one.flush();
        let watched = async {
            let mut snapshots = one.catalog().watch();
            let is_far = |snapshot: &Arc<sandur_catalog::Snapshot>| snapshot.number() >= began + commits;
            snapshots.wait_for(is_far).await.unwrap();
        };
        tokio::select! {
            flushed = flush => flushed.unwrap(),
            () = watched => {}
        }
        let last = 2.0f64.to_bits();
        let check = async |engine: &Arc<Engine>, when: &str| {
            assert_eq!(read_all(engine).await, rows, "{when}, {commits} commits");
            let values: Vec<u64> = all(engine).await.values().flat_map(|of| of.values().copied()).collect();
            assert_eq!(values, [last], "{when}, {commits} commits");
            for n in 0..4 {
                assert_eq!(lines(engine, &format!("tenant-{n}")).await, 1, "{when}, {commits} commits");
            }
        };
        drop(one);
        check(&two, "after the crash").await;
        world.sleep(70).await;
        check(&two, "with what was committed").await;
        world.sleep(400).await;
        assert_eq!(two.view().head_totals().rows, 0, "the writer is adopted");
        check(&two, "after the adoption").await;
        let three = world.open("three").await;
        check(&three, "after a start").await;
        if commits % 4 == 3 {
            world.sleep(3 * 3_600).await;
            check(&two, "after merges").await;
        }
    }
}

/// If the store refuses a tenant's blocks, this delays the tenant's own rows, also later ones, and those
/// of no other tenant.
#[tokio::test(start_paused = true)]
async fn a_tenant_whose_block_cannot_be_written_blocks_no_other_tenant() {
    let world = World::new(30, usize::MAX);
    let engine = world.open("one").await;
    let refuse = |times| {
        for op in [Op::Upload, Op::Put, Op::Create] {
            (0..times).for_each(|_| world.bucket.fail_next(op, "blocks/sick/", Fault::Refused));
        }
    };
    refuse(1_000);
    for round in 0..3 {
        for of in ["healthy", "sick", "well"] {
            push_line(&engine, of, round).await;
        }
        engine.flush().await.unwrap_err();
    }
    let left: Vec<Vec<Dataset>> = engine.view().heads.iter().map(|head| head.datasets()).collect();
    assert!(left.concat().iter().all(|dataset| dataset.tenant == tenant("sick")), "{left:?}");
    assert_eq!(engine.view().head_totals().rows, 3, "memory of the others is released");
    let heads = engine.view().heads.len();
    for round in 3..8 {
        push_line(&engine, "healthy", round).await;
        engine.flush().await.unwrap_err();
    }
    assert_eq!(engine.view().heads.len(), heads, "heads without rows do not accumulate");
    assert_eq!(world.objects(&engine).await, (11, 11), "no object of a failed flush is left");
    let check = async |engine: &Arc<Engine>| {
        for (of, count) in [("healthy", 8), ("sick", 3), ("well", 3)] {
            assert_eq!(lines(engine, of).await, count, "{of}");
        }
    };
    check(&engine).await;
    // A crash: rows of the other tenants are in blocks and in the WAL.
    drop(engine);
    let again = world.open("two").await;
    world.sleep(600).await;
    check(&again).await;
    // The store accepts the tenant's blocks again.
    world.bucket.clear_scripts();
    world.sleep(600).await;
    again.flush().await.unwrap();
    assert_eq!(again.view().head_totals().rows, 0);
    check(&again).await;
}

/// While the store refuses blocks, retries leave none behind.
#[tokio::test(start_paused = true)]
async fn a_failed_flush_deletes_its_blocks() {
    let world = World::new(40, usize::MAX);
    let engine = world.open("one").await;
    for n in 0..12 {
        push_line(&engine, &format!("tenant-{n:02}"), 0).await;
    }
    for n in 6..12 {
        for op in [Op::Upload, Op::Put, Op::Create] {
            (0..400)
                .for_each(|_| world.bucket.fail_next(op, &format!("blocks/tenant-{n:02}/"), Fault::Failed));
        }
    }
    for _ in 0..3 {
        engine.flush().await.unwrap_err();
        let (objects, known) = world.objects(&engine).await;
        assert_eq!(objects, known);
    }
    world.bucket.clear_scripts();
    engine.flush().await.unwrap();
    assert_eq!(world.objects(&engine).await, (12, 12));
    assert_eq!(lines(&engine, "tenant-07").await, 1);
}

/// One push of a sample a day for 130 years made a block for each, which is more than one transaction holds.
#[tokio::test(start_paused = true)]
async fn a_century_of_days_is_a_few_blocks() {
    let world = World::new(50, usize::MAX);
    let engine = world.open("one").await;
    let days = 48_500i64;
    let labels = Arc::new(Labels::from_pairs([("app", "a")]));
    let times: Vec<i64> = (0..days).map(|day| (START_NS - (days - day) * DAY_NS) / 1_000_000).collect();
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(Arc::clone(&labels), times.iter().map(|time| (*time, 1.0)));
    engine.push(batch).await.unwrap();
    let mut lines = BatchBuilder::new().stream("a");
    for time in &times {
        lines = lines.row(time * 1_000_000, "a line");
    }
    engine.push(lines.build()).await.unwrap();
    engine.flush().await.unwrap();
    let expected: Samples = [(
        labels.to_string(),
        times.iter().map(|time| (*time, 1.0f64.to_bits())).collect::<BTreeMap<_, _>>(),
    )]
    .into();
    let check = async |engine: &Arc<Engine>| {
        let snapshot = engine.view().snapshot.clone();
        assert!(snapshot.block_count() <= 4, "{} blocks", snapshot.block_count());
        assert!(snapshot.blocks(&metrics(), TimeRange::ALL).any(|block| is_long(block.window)));
        assert_eq!(all(engine).await, expected);
        assert_eq!(read_all(engine).await.len(), times.len());
    };
    check(&engine).await;
    world.sleep(2 * 3_600).await;
    check(&engine).await;
    engine.shutdown().await.unwrap();
    check(&world.open("two").await).await;
}
