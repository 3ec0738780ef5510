//! Goal: rows are removed when their period is over, no earlier, and nothing else is ever removed: with
//! periods of single series that are shorter or longer than the tenant's, across restarts, several
//! processes, changed configurations, clocks that jump, damaged blocks, deletes and merges. Method:
//! complete engines over a simulated bucket in paused time, and comparison with the stored rows.

use std::sync::Mutex;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use sandur_catalog::DeleteProgress;
use sandur_model::{
    DAY_NS, Dataset, Exemplar, HOUR_NS, Labels, MatchOp, Matcher, MetricMetadata, RetentionRule,
    RetentionRules, SampleBatch, graphite_path_labels,
};
use sandur_query::{MetadataSelection, SeriesRequest};

use super::samples::{Samples, all};
use super::*;
use crate::policy::retention::Expiry;
use crate::upkeep::compaction::compactor::Compactor;
use crate::{CompactionPolicy, DeleteOptions, LabelRetention, MaintenanceOptions, Retention};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The configuration, which tests change while engines run.
type Configured = Arc<Mutex<Retention>>;

pub(super) struct World {
    pub(super) env: Env,
    pub(super) bucket: FaultStore,
    configured: Configured,
}

impl World {
    pub(super) fn new(seed: u64, retention: Retention) -> Self {
        let env = Env::simulated(seed, START_NS);
        let bucket = near_bucket(&env, seed);
        Self { env, bucket, configured: Arc::new(Mutex::new(retention)) }
    }

    pub(super) fn configure(&self, retention: Retention) {
        *self.configured.lock().unwrap() = retention;
    }

    pub(super) fn options(&self) -> EngineOptions {
        let configured = Arc::clone(&self.configured);
        let maintenance = MaintenanceOptions {
            interval: Duration::from_secs(120),
            gc_interval: HOUR,
            // The tests use few, small days, and each must have its own block.
            compaction: CompactionPolicy { thin_bytes: 0, ..CompactionPolicy::default() },
            retention_of: Arc::new(move |_: &Dataset| configured.lock().unwrap().clone()),
            ..MaintenanceOptions::default()
        };
        let deletes = DeleteOptions {
            cancel_period: Duration::ZERO,
            compile: Arc::new(super::deletes::compile),
            ..DeleteOptions::default()
        };
        EngineOptions { maintenance, deletes, ..unhurried_options() }
    }

    pub(super) async fn open(&self, name: &str) -> Arc<Engine> {
        open_on(&self.bucket, &self.env, name, self.options()).await
    }

    /// Waits long enough for a retention to take effect and for its work to be done.
    async fn settle(&self) {
        self.env.sleep(HOUR / 2).await;
    }
}

pub(super) fn rule(label: &str, value: &str, priority: i64, days: i64) -> RetentionRule {
    let matcher = Matcher::new(label, MatchOp::Regex, value).unwrap();
    RetentionRule::new(format!("{{{label}=~{value:?}}}"), vec![matcher], priority, days * DAY_NS).unwrap()
}

/// Keeps rows of the tenant for this many days, and those of some apps for others.
fn retention(days: i64, apps: &[(&str, i64)]) -> Retention {
    let rules = apps.iter().map(|(app, days)| rule("app", app, 0, *days)).collect();
    let rules = RetentionRules::new(rules).unwrap();
    Retention { rules, ..Retention::uniform(days * DAY_NS) }
}

/// Pushes lines of an app, one per second, this many days old.
pub(super) async fn push_old(
    engine: &Engine,
    app: &str,
    days: i64,
    seconds: std::ops::Range<i64>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for n in seconds {
        rows.push(push_row(engine, app, n * 1_000 - days * 86_400_000, &format!("{n}")).await.unwrap());
    }
    rows
}

/// Does the same with samples.
pub(super) async fn push_samples(
    engine: &Engine,
    app: &str,
    days: i64,
    seconds: std::ops::Range<i64>,
) -> Samples {
    let labels = Arc::new(Labels::from_pairs([("__name__", "up"), ("app", app)]));
    let first_ms = (START_NS - days * DAY_NS) / 1_000_000;
    let value = |n: i64| if n % 7 == 3 { f64::from_bits(0x7ff0_0000_0000_0002) } else { n as f64 / 3.0 };
    let points: Vec<_> = seconds.map(|n| (first_ms + n * 1_000, value(n))).collect();
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(Arc::clone(&labels), points.clone());
    engine.push(batch).await.unwrap();
    let bits = points.into_iter().map(|(time, value)| (time, value.to_bits())).collect();
    Samples::from([(labels.to_string(), bits)])
}

pub(super) fn joined(parts: impl IntoIterator<Item = Samples>) -> Samples {
    let mut all = Samples::new();
    for (series, samples) in parts.into_iter().flatten() {
        all.entry(series).or_default().extend(samples);
    }
    all
}

pub(super) fn logs() -> Dataset {
    Dataset::logs(TenantId::default_tenant())
}

pub(super) fn metrics() -> Dataset {
    Dataset::metrics(TenantId::default_tenant())
}

/// The paths of the blocks of a dataset.
fn blocks(engine: &Engine, dataset: &Dataset) -> Vec<String> {
    engine.view().snapshot.blocks(dataset, TimeRange::ALL).map(|block| block.path()).collect()
}

fn outcomes(engine: &Engine) -> [u64; 3] {
    let blocks = &engine.metrics().retention_blocks;
    ["removed", "rewritten", "kept"].map(|outcome| blocks.get_or_create(&[("outcome", outcome)]).get())
}

fn rows_by(engine: &Engine, reason: &'static str) -> u64 {
    engine.metrics().retention_rows.get_or_create(&[("reason", reason)]).get()
}

#[tokio::test(start_paused = true)]
async fn lines_are_removed_when_the_period_of_their_stream_is_over() {
    let world = World::new(41, retention(4, &[("debug", 3), ("audit", 5)]));
    let engine = world.open("one").await;
    let debug = push_old(&engine, "debug", 2, 0..30).await;
    let plain = push_old(&engine, "plain", 2, 0..30).await;
    let audit = push_old(&engine, "audit", 2, 0..30).await;
    let recent = push_old(&engine, "debug", 0, 0..5).await;
    engine.flush().await.unwrap();
    let (env, mut age) = (&world.env, DAY * 2);
    let day_after = DAY - Duration::from_secs(60);
    env.sleep(day_after).await;
    age += day_after;
    assert!(age < DAY * 3);
    let everything = sorted([debug, plain.clone(), audit.clone(), recent.clone()]);
    assert_eq!((read_all(&engine).await, outcomes(&engine)), (everything, [0, 0, 0]));
    world.settle().await;
    let left = sorted([plain.clone(), audit.clone(), recent.clone()]);
    assert_eq!((read_all(&engine).await, outcomes(&engine)), (left.clone(), [0, 1, 0]));
    assert_eq!((rows_by(&engine, "selector"), engine.metrics().deleted_rows.get()), (30, 0));
    env.sleep(DAY - HOUR).await;
    assert_eq!(read_all(&engine).await, left, "half an hour before the end of the tenant's period");
    env.sleep(HOUR).await;
    let left = sorted([audit.clone(), recent.clone()]);
    assert_eq!(read_all(&engine).await, left, "after the end of the tenant's period");
    assert_eq!(rows_by(&engine, "tenant"), 30);
    env.sleep(DAY - HOUR).await;
    assert_eq!(read_all(&engine).await, left, "the longest period");
    env.sleep(HOUR * 3).await;
    assert_eq!((read_all(&engine).await, blocks(&engine, &logs())), (Vec::new(), Vec::new()));
    assert_eq!((rows_by(&engine, "block"), rows_by(&engine, "selector")), (30, 35));
    assert_eq!(engine.metrics().retention_failures.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn remaining_samples_are_unchanged_bit_for_bit() {
    let world = World::new(42, retention(0, &[("dev", 2)]));
    let engine = world.open("one").await;
    let (mut kept, mut dev) = (Vec::new(), Vec::new());
    for part in 0..3 {
        let seconds = part * 100..part * 100 + 150;
        kept.push(push_samples(&engine, "prod", 3, seconds.clone()).await);
        dev.push(push_samples(&engine, "dev", 3, seconds).await);
        engine.flush().await.unwrap();
    }
    kept.push(push_samples(&engine, "dev", 0, 0..10).await);
    // Of two values of an instant the first one stays.
    let kept = joined(kept.into_iter().rev());
    assert_eq!(all(&engine).await, joined([kept.clone(), joined(dev.into_iter().rev())]));
    world.settle().await;
    assert_eq!((all(&engine).await, outcomes(&engine)), (kept.clone(), [0, 1, 0]));
    // After the grace period of garbage collection, and in a new process.
    world.env.sleep(HOUR * 30).await;
    assert_eq!(all(&world.open("fresh").await).await, kept);
}

/// A block with only expired series is removed, and a block without expired series is not rewritten.
#[tokio::test(start_paused = true)]
async fn blocks_with_only_expired_series_or_none_are_not_rewritten() {
    let world = World::new(43, retention(0, &[("dev|test", 2)]));
    let engine = world.open("one").await;
    push_samples(&engine, "dev", 5, 0..20).await;
    push_samples(&engine, "test", 5, 0..20).await;
    push_old(&engine, "dev", 5, 0..20).await;
    let prod = joined([push_samples(&engine, "prod", 4, 0..20).await]);
    let lines = push_old(&engine, "prod", 4, 0..20).await;
    engine.flush().await.unwrap();
    let before = [blocks(&engine, &logs()), blocks(&engine, &metrics())];
    assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    world.settle().await;
    assert_eq!((all(&engine).await, read_all(&engine).await), (prod, lines));
    let after = [blocks(&engine, &logs()), blocks(&engine, &metrics())];
    assert_eq!(after.each_ref().map(Vec::len), [1, 1]);
    assert!(before[0].contains(&after[0][0]) && before[1].contains(&after[1][0]), "not rewritten");
    assert_eq!((outcomes(&engine), rows_by(&engine, "selector")), ([2, 0, 2], 60));
    world.env.sleep(HOUR).await;
    assert_eq!(outcomes(&engine), [2, 0, 2], "each was examined once");
}

/// A few expired series cause no rewrite until there are more.
#[tokio::test(start_paused = true)]
async fn expired_rows_stay_until_they_are_a_tenth() {
    let world = World::new(44, retention(0, &[("rare", 2), ("some", 4)]));
    let engine = world.open("one").await;
    push_old(&engine, "rare", 3, 0..5).await;
    push_old(&engine, "some", 3, 0..6).await;
    let rest = push_old(&engine, "rest", 3, 0..89).await;
    engine.flush().await.unwrap();
    world.settle().await;
    assert_eq!((read_all(&engine).await.len(), outcomes(&engine)), (100, [0, 0, 1]));
    world.env.sleep(HOUR * 20).await;
    assert_eq!((read_all(&engine).await.len(), outcomes(&engine)), (100, [0, 0, 1]), "examined once");
    world.env.sleep(HOUR * 5).await;
    assert_eq!((read_all(&engine).await, outcomes(&engine)), (rest, [0, 1, 1]), "eleven of a hundred");
}

/// A mistake in a limits file that is corrected within a minute, and a clock that jumps ahead, remove
/// nothing.
#[tokio::test(start_paused = true)]
async fn neither_a_mistake_nor_a_clock_removes_young_rows() {
    let keep = || retention(30, &[("dev", 20)]);
    let world = World::new(45, keep());
    let engine = world.open("one").await;
    let lines = sorted([push_old(&engine, "dev", 3, 0..20).await, push_old(&engine, "prod", 3, 0..20).await]);
    let samples = joined([push_samples(&engine, "dev", 3, 0..20).await]);
    engine.flush().await.unwrap();
    world.settle().await;
    let env = &world.env;
    for _ in 0..10 {
        for slip in [retention(1, &[]), retention(0, &[(".+", 1)]), retention(1, &[("dev", 1)])] {
            world.configure(slip);
            env.sleep(Duration::from_secs(50)).await;
            world.configure(keep());
            env.sleep(Duration::from_secs(40)).await;
        }
    }
    assert_eq!((read_all(&engine).await, all(&engine).await), (lines.clone(), samples.clone()));
    env.set_clock_skew(DAY * 365, true);
    env.sleep(HOUR * 30).await;
    env.set_clock_skew(Duration::ZERO, true);
    env.set_clock_skew(DAY * 365, false);
    env.sleep(HOUR * 30).await;
    env.set_clock_skew(Duration::ZERO, true);
    assert_eq!((read_all(&engine).await, all(&engine).await), (lines, samples));
    assert_eq!(outcomes(&engine), [0, 0, 0]);
    world.configure(retention(1, &[("dev", 1)]));
    world.settle().await;
    assert_eq!((read_all(&engine).await, all(&engine).await), (Vec::new(), Samples::new()), "meant so");
}

#[tokio::test(start_paused = true)]
async fn several_processes_and_restarts_remove_rows_once() {
    let world = World::new(46, retention(0, &[("dev", 2)]));
    let (one, two) = (world.open("one").await, world.open("two").await);
    let (mut kept_lines, mut kept) = (Vec::new(), Vec::new());
    for day in 3..15 {
        let engine = if day % 2 == 0 { &one } else { &two };
        kept_lines.push(push_old(engine, "prod", day, 0..10).await);
        kept.push(push_samples(engine, "prod", day, 0..10).await);
        push_old(engine, "dev", day, 0..10).await;
        push_samples(engine, "dev", day, 0..10).await;
    }
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    let (kept_lines, kept) = (sorted(kept_lines), joined(kept));
    // One of the processes ends in between.
    world.env.sleep(Duration::from_secs(100)).await;
    let of_two = outcomes(&two);
    drop(two);
    let three = world.open("three").await;
    world.settle().await;
    for engine in [&one, &three] {
        assert_eq!(read_all(engine).await, kept_lines);
        assert_eq!(all(engine).await, kept);
    }
    let rewritten = [of_two, outcomes(&one), outcomes(&three)].map(|of| of[1]);
    assert_eq!(rewritten.iter().sum::<u64>(), 24, "{rewritten:?}");
    assert!(rewritten[1] > 0 && (rewritten[0] > 0 || rewritten[2] > 0), "shared: {rewritten:?}");
}

/// A block that was replaced meanwhile is not replaced again, and the object of the attempt is deleted.
#[tokio::test(start_paused = true)]
async fn a_lost_race_changes_nothing() {
    let world = World::new(47, retention(0, &[]));
    let engine = world.open("one").await;
    push_old(&engine, "dev", 3, 0..10).await;
    let prod = push_old(&engine, "prod", 3, 0..10).await;
    engine.flush().await.unwrap();
    let expiry = Expiry::new(retention(0, &[("dev", 2)]), START_NS);
    let (expiry, compactor) = (Arc::new(expiry), Compactor::new(&engine.upkeep()));
    let before = engine.view().snapshot.clone();
    let block = Arc::clone(before.all_blocks().next().unwrap());
    compactor.expire(engine.incarnation(), &before, &block, &expiry).await.unwrap();
    assert_eq!(read_all(&engine).await, prod);
    let path = blocks(&engine, &logs());
    let lost = compactor.expire(engine.incarnation(), &before, &block, &expiry).await;
    assert!(lost.is_err());
    assert_eq!((read_all(&engine).await, blocks(&engine, &logs())), (prod, path.clone()));
    let objects = engine.store().list("blocks/", sandur_store::Intent::wal()).await.unwrap();
    let mut objects: Vec<String> = objects.into_iter().map(|object| object.path).collect();
    let mut known = vec![block.path(), path[0].clone()];
    objects.sort();
    known.sort();
    assert_eq!(objects, known, "the object of the second attempt is deleted");
}

/// A damaged block stays, its failure is counted, and it does not block others.
#[tokio::test(start_paused = true)]
async fn a_damaged_block_is_left_alone() {
    let world = World::new(48, retention(0, &[("dev", 2)]));
    let engine = world.open("one").await;
    push_old(&engine, "dev", 3, 0..10).await;
    push_old(&engine, "prod", 3, 0..10).await;
    push_old(&engine, "dev", 4, 0..10).await;
    let sound = push_old(&engine, "prod", 4, 0..10).await;
    engine.flush().await.unwrap();
    engine.queries().reader.bytes().cache().flush_all(None);
    let block = engine.view().snapshot.all_blocks().max_by_key(|block| block.max_ts).unwrap().clone();
    let (objects, path) = (world.bucket.objects(), Path::from(block.path()));
    let mut bytes = objects.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
    bytes[block.footer_offset as usize + 20] ^= 0x11;
    objects.put(&path, PutPayload::from(bytes.clone())).await.unwrap();
    world.settle().await;
    assert_eq!(outcomes(&engine), [0, 1, 0]);
    assert_eq!(engine.metrics().retention_failures.get(), 1, "it is not tried again at once");
    assert!(blocks(&engine, &logs()).contains(&block.path()));
    assert_eq!(read_all(&engine).await, sound);
    world.env.sleep(HOUR * 2).await;
    assert!(blocks(&engine, &logs()).contains(&block.path()));
    bytes[block.footer_offset as usize + 20] ^= 0x11;
    objects.put(&path, PutPayload::from(bytes)).await.unwrap();
    engine.queries().reader.bytes().cache().flush_all(None);
    world.env.sleep(HOUR * 2).await;
    assert_eq!(outcomes(&engine), [0, 2, 0], "after the block was restored");
}

/// Rows that a delete request hides stay hidden, the request is processed, and later rows of the same
/// day are merged with the remaining ones.
#[tokio::test(start_paused = true)]
async fn deletes_and_merges_work_during_retention() {
    let world = World::new(49, retention(0, &[]));
    let engine = world.open("one").await;
    push_old(&engine, "dev", 3, 0..40).await;
    let prod = push_old(&engine, "prod", 3, 0..40).await;
    engine.flush().await.unwrap();
    let first_ms = START_NS / 1_000_000 - 3 * 86_400_000;
    let id = engine.create_delete(&logs(), "prod 7", first_ms, first_ms + 39_000).await.unwrap();
    world.configure(retention(0, &[("dev", 2)]));
    world.settle().await;
    let mut left: Vec<Row> = prod.into_iter().filter(|row| row.2 != "7").collect();
    assert_eq!(read_all(&engine).await, left);
    let snapshot = engine.catalog().refresh().await.unwrap();
    assert!(matches!(snapshot.delete(&logs(), id).unwrap().progress, DeleteProgress::Processed { .. }));
    assert_eq!((engine.metrics().deleted_rows.get(), rows_by(&engine, "selector")), (1, 40));
    for part in 0..3 {
        left.extend(push_old(&engine, "prod", 3, 100 + part * 10..105 + part * 10).await);
        push_old(&engine, "dev", 3, 100 + part * 10..105 + part * 10).await;
        engine.flush().await.unwrap();
    }
    world.settle().await;
    world.settle().await;
    assert_eq!((read_all(&engine).await, blocks(&engine, &logs()).len()), (sorted([left]), 1));
}

/// A merge leaves out expired rows, however few they are.
#[tokio::test(start_paused = true)]
async fn merges_leave_out_expired_rows() {
    let world = World::new(54, retention(0, &[("dev", 2)]));
    let engine = world.open("one").await;
    push_old(&engine, "other", 0, 0..1).await;
    push_samples(&engine, "other", 0, 0..1).await;
    engine.flush().await.unwrap();
    world.settle().await;
    let mut prod = vec![read_all(&engine).await];
    let mut samples = vec![all(&engine).await];
    for part in 0..3 {
        prod.push(push_old(&engine, "prod", 3, part * 50..part * 50 + 50).await);
        samples.push(push_samples(&engine, "prod", 3, part * 50..part * 50 + 50).await);
        push_old(&engine, "dev", 3, part * 50..part * 50 + 2).await;
        push_samples(&engine, "dev", 3, part * 50..part * 50 + 2).await;
        engine.flush().await.unwrap();
    }
    world.settle().await;
    assert_eq!((read_all(&engine).await, all(&engine).await), (sorted(prod), joined(samples)));
    assert_eq!((outcomes(&engine)[1], rows_by(&engine, "selector")), (0, 12));
    assert_eq!(engine.metrics().deleted_rows.get(), 0);
}

/// Blocks for whose merge there is no memory are rewritten one by one, without waiting for the merge.
#[tokio::test(start_paused = true)]
async fn blocks_that_cannot_be_merged_are_rewritten_one_by_one() {
    let world = World::new(55, retention(0, &[("dev", 2)]));
    let mut options = world.options();
    // Enough for one block at a time.
    options.maintenance.compaction_budget = MemoryBudget::root("compaction", 240 << 10);
    let client = Arc::new(world.bucket.client("small"));
    let store = Store::from_object_store(client, world.env.clone(), StoreOptions::default());
    let engine = Engine::open(store, world.env.clone(), options).await.unwrap();
    let mut kept = Vec::new();
    for part in 0..3i64 {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in 0..2_000 {
            let app = if n % 2 == 0 { "dev" } else { "prod" };
            let pod = format!("{part}-{n}-{}", "x".repeat(60));
            let labels = Labels::from_pairs([("__name__", "up"), ("app", app), ("pod", &*pod)]);
            let time_ms = START_NS / 1_000_000 - 3 * 86_400_000 + part * 1_000;
            batch.push(Arc::new(labels.clone()), [(time_ms, n as f64)]);
            if app == "prod" {
                let samples = std::collections::BTreeMap::from([(time_ms, (n as f64).to_bits())]);
                kept.push(Samples::from([(labels.to_string(), samples)]));
            }
        }
        engine.push(batch).await.unwrap();
        engine.flush().await.unwrap();
    }
    world.settle().await;
    // The remaining rows of two blocks may fit then.
    assert_eq!(outcomes(&engine)[1], 3);
    assert!(all(&engine).await == joined(kept));
}

/// If another process owns a merge and does not do it, retention waits for it, but not forever.
#[tokio::test(start_paused = true)]
async fn a_merge_that_never_runs_does_not_block_retention() {
    let world = World::new(57, retention(0, &[("dev", 2)]));
    let mut idle = world.options();
    idle.maintenance.interval = HOUR * 1_000;
    let _idle = open_on(&world.bucket, &world.env, "idle", idle).await;
    let engine = world.open("one").await;
    let mut kept = Vec::new();
    // Days whose merges either writer owns, with blocks that either owns.
    for days in 3..9 {
        for slot in 0..3 {
            let seconds = slot * 7_200..slot * 7_200 + 50;
            kept.push(push_samples(&engine, "prod", days, seconds.clone()).await);
            push_samples(&engine, "dev", days, seconds).await;
        }
    }
    engine.flush().await.unwrap();
    world.settle().await;
    let of_flushes = || -> Vec<u64> {
        let (snapshot, dataset) = (&engine.view().snapshot, metrics());
        let all = snapshot.blocks(&dataset, TimeRange::ALL).filter(|block| block.level == 0);
        all.map(|block| block.rows).collect()
    };
    let left = of_flushes();
    assert!((1..18).contains(&left.len()), "some days are merged, others are not: {left:?}");
    assert!(left.iter().all(|rows| *rows == 100), "their merges are waited for: {left:?}");
    world.env.sleep(HOUR * 2).await;
    let left = of_flushes();
    assert!(left.contains(&50) && left.contains(&100), "each writer has some of them: {left:?}");
    assert_eq!(all(&engine).await.len(), 2, "rows of the other writer's blocks stay");
}

/// The value that was written last counts, also if the block with an earlier value was rewritten.
#[tokio::test(start_paused = true)]
async fn the_order_of_writing_is_kept() {
    let world = World::new(50, retention(0, &[("dev", 2)]));
    let engine = world.open("one").await;
    let first_ms = (START_NS - 3 * DAY_NS) / 1_000_000;
    let write = async |seconds: std::ops::Range<i64>, value: f64| {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        let points = seconds.map(|n| (first_ms + n * 1_000, value));
        batch.push(Arc::new(graphite_path_labels("site.load").unwrap()), points);
        engine.push(batch).await.unwrap();
    };
    write(0..20, 1.0).await;
    push_samples(&engine, "dev", 3, 0..20).await;
    engine.flush().await.unwrap();
    write(0..10, 2.0).await;
    push_samples(&engine, "dev", 3, 20..40).await;
    engine.flush().await.unwrap();
    world.settle().await;
    write(0..5, 3.0).await;
    engine.flush().await.unwrap();
    let values = |from: i64| -> u64 {
        if from < 5 {
            3.0f64
        } else if from < 10 {
            2.0
        } else {
            1.0
        }
        .to_bits()
    };
    let expected: std::collections::BTreeMap<i64, u64> =
        (0..20).map(|n| (first_ms + n * 1_000, values(n))).collect();
    for _ in 0..2 {
        let found = all(&engine).await;
        assert_eq!(found.values().collect::<Vec<_>>(), [&expected]);
        world.settle().await;
    }
    assert_eq!((blocks(&engine, &metrics()).len(), outcomes(&engine)[1] > 0), (1, true));
}

/// Exemplars are removed with their series. Those of other series stay, and so does metadata.
#[tokio::test(start_paused = true)]
async fn exemplars_are_removed_with_their_series_and_metadata_stays() {
    let world = World::new(51, retention(0, &[("dev", 2)]));
    let engine = world.open("one").await;
    let at_ms = (START_NS - 3 * DAY_NS) / 1_000_000;
    for app in ["dev", "prod"] {
        push_samples(&engine, app, 3, 0..20).await;
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.push(Arc::new(Labels::from_pairs([("__name__", "up"), ("app", app)])), []);
        let labels = Labels::from_pairs([("trace_id", app)]);
        batch.push_exemplar(Exemplar { labels, value: 1.0, timestamp: at_ms + 500 });
        let (family, help) = ("up".into(), "Whether it is up.".into());
        batch.metadata.push(MetricMetadata { family, help, ..MetricMetadata::default() });
        engine.push(batch).await.unwrap();
    }
    engine.flush().await.unwrap();
    let traces = async || {
        let context = context(engine.env());
        let found = engine.sources().samples.exemplars(&context, SeriesRequest::everything()).await.unwrap();
        let one = |one: &Exemplar| one.labels.get("trace_id").unwrap().to_owned();
        found.series.iter().flat_map(|of| of.exemplars.iter().map(one)).collect::<Vec<_>>()
    };
    assert_eq!(traces().await, ["dev", "prod"]);
    world.settle().await;
    assert_eq!((traces().await, outcomes(&engine)), (vec!["prod".to_owned()], [0, 1, 0]));
    let told = engine
        .sources()
        .samples
        .metadata(&context(engine.env()), MetadataSelection::default())
        .await
        .unwrap();
    assert_eq!(told.metrics.len(), 1);
    // All series of the block are expired, but an exemplar of another series is not.
    world.configure(retention(0, &[("dev|prod", 2)]));
    push_samples(&engine, "prod", 3, 30..40).await;
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(Arc::new(Labels::from_pairs([("__name__", "up"), ("app", "other")])), []);
    let labels = Labels::from_pairs([("trace_id", "other")]);
    batch.push_exemplar(Exemplar { labels, value: 1.0, timestamp: at_ms + 500 });
    engine.push(batch).await.unwrap();
    engine.flush().await.unwrap();
    world.settle().await;
    assert_eq!((traces().await, all(&engine).await), (vec!["other".to_owned()], Samples::new()));
}

/// Gives periods to paths by their prefix, and to no other series.
struct ByPath;

impl LabelRetention for ByPath {
    fn version(&self) -> u64 {
        1
    }

    fn periods_ns(&self) -> &[i64] {
        &[2 * DAY_NS, 4 * DAY_NS]
    }

    fn any_of(&self) -> Vec<Vec<Matcher>> {
        vec![vec![Matcher::new("__g0__", MatchOp::NotEqual, "").unwrap()]]
    }

    fn period_ns(&self, labels: &Labels) -> Option<i64> {
        let path = labels.get("__name__")?;
        let days = [("short", 2), ("long", 4)].into_iter().find(|(start, _)| path.starts_with(start))?.1;
        Some(days * DAY_NS)
    }
}

#[tokio::test(start_paused = true)]
async fn labels_decide_the_period_of_series_without_a_rule() {
    let rules = RetentionRules::new(vec![rule("__name__", "short\\.kept", 0, 50)]).unwrap();
    let retention = Retention { period_ns: 5 * DAY_NS, rules, of_labels: Some(Arc::new(ByPath)) };
    let world = World::new(52, retention);
    let engine = world.open("one").await;
    let first_ms = (START_NS - 3 * DAY_NS) / 1_000_000;
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    for path in ["long.a", "other.a", "short.a", "short.kept"] {
        batch.push(Arc::new(graphite_path_labels(path).unwrap()), (0..9).map(|n| (first_ms + n, 1.0)));
    }
    batch.push(Arc::new(Labels::from_pairs([("__name__", "short_up")])), [(first_ms, 1.0)]);
    engine.push(batch).await.unwrap();
    engine.flush().await.unwrap();
    let names = async || {
        let name = |series: &String| series.rsplit("__name__=").next().unwrap().to_owned();
        all(&engine).await.keys().map(name).collect::<Vec<_>>().join(" ")
    };
    world.settle().await;
    let left = r#""long.a"} "other.a"} "short.kept"} "short_up"}"#;
    assert_eq!((names().await, rows_by(&engine, "labels")), (left.to_owned(), 9));
    world.env.sleep(DAY).await;
    assert_eq!(names().await, r#""other.a"} "short.kept"} "short_up"}"#);
    world.env.sleep(DAY).await;
    assert_eq!((names().await, rows_by(&engine, "tenant")), (r#""short.kept"}"#.to_owned(), 10));
}

/// Blocks of a day that is not over wait for their merge.
#[tokio::test(start_paused = true)]
async fn the_blocks_of_a_day_wait_for_its_merge() {
    let world = World::new(53, retention(0, &[("dev", 1)]));
    let rules = vec![RetentionRule::new("dev", super::super::fixtures::app_is("dev"), 0, HOUR_NS).unwrap()];
    world.configure(Retention { rules: RetentionRules::new(rules).unwrap(), ..Retention::default() });
    let engine = world.open("one").await;
    let prod = push_old(&engine, "prod", 0, 0..10).await;
    push_old(&engine, "dev", 0, 0..10).await;
    engine.flush().await.unwrap();
    world.env.sleep(HOUR * 4).await;
    assert_eq!((read_all(&engine).await.len(), outcomes(&engine)), (20, [0, 0, 0]));
    world.env.sleep(DAY).await;
    assert_eq!((read_all(&engine).await, outcomes(&engine)), (prod, [0, 1, 0]));
}
