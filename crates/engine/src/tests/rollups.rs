//! Goal: points become rollups when their archive is over, no earlier, either all of them or none, and
//! nothing else ever changes: across restarts, several processes, changed rules, clocks that jump,
//! damaged blocks, deletes, late points and merges. Method: complete engines over a simulated bucket in
//! paused time, and comparison with the stored points.

use std::collections::BTreeMap;
use std::sync::Mutex;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use sandur_model::{
    Aggregate, DAY_NS, GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP, Labels, MatchOp, Matcher, Rollup, SampleBatch,
    graphite_path_labels, graphite_tagged_labels,
};
use sandur_query::SampleSelection;

use super::samples::{Samples, blocks, metrics};
use super::*;
use crate::{CompactionPolicy, DeleteOptions, MaintenanceOptions, RollupStep, RollupSteps};

pub(super) const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Steps in seconds, and how many days each of them is kept. The first is the step of points.
pub(super) type Archives = Vec<(i64, i64)>;

/// The same archives for all paths below `a`, and for the series `a` and `a.*` with tags.
struct BelowA {
    archives: Archives,
    ages_ns: Vec<i64>,
}

impl RollupSteps for BelowA {
    fn version(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(format!("{:?}", self.archives).as_bytes())
    }

    fn ages_ns(&self) -> &[i64] {
        &self.ages_ns
    }

    fn any_of(&self) -> Vec<Vec<Matcher>> {
        ["__g0__", "__graphite__"].map(|of| vec![Matcher::new(of, MatchOp::NotEqual, "").unwrap()]).into()
    }

    fn steps(&self, labels: &Labels, age_ns: i64) -> Option<RollupStep> {
        let is_meant = labels.get("__name__").is_some_and(|name| name.split('.').next() == Some("a"));
        let step = self.archives.iter().find(|(_, days)| days * DAY_NS >= age_ns).map(|(step, _)| *step);
        let step = step.or(self.archives.last().map(|(step, _)| *step))?;
        is_meant.then_some(RollupStep { finest: self.archives[0].0, step })
    }
}

pub(super) struct World {
    pub(super) env: Env,
    pub(super) bucket: FaultStore,
    configured: Arc<Mutex<Option<Archives>>>,
}

impl World {
    pub(super) fn new(seed: u64, archives: &[(i64, i64)]) -> Self {
        let env = Env::simulated(seed, START_NS);
        let bucket = near_bucket(&env, seed);
        Self { env, bucket, configured: Arc::new(Mutex::new(Some(archives.to_vec()))) }
    }

    pub(super) fn configure(&self, archives: Option<&[(i64, i64)]>) {
        *self.configured.lock().unwrap() = archives.map(<[_]>::to_vec);
    }

    pub(super) fn options(&self) -> EngineOptions {
        let configured = Arc::clone(&self.configured);
        let rollups = move || {
            let archives = configured.lock().unwrap().clone()?;
            let mut ages_ns: Vec<i64> = archives.iter().map(|(_, days)| days * DAY_NS).collect();
            ages_ns.pop();
            Some(Arc::new(BelowA { archives, ages_ns }) as Arc<dyn RollupSteps>)
        };
        let maintenance = MaintenanceOptions {
            interval: Duration::from_secs(120),
            gc_interval: HOUR,
            // The tests use few, small days, and each must have its own block.
            compaction: CompactionPolicy { thin_bytes: 0, ..CompactionPolicy::default() },
            rollups: Some(Arc::new(rollups)),
            ..MaintenanceOptions::default()
        };
        let deletes = DeleteOptions {
            cancel_period: HOUR,
            compile: Arc::new(super::deletes::compile),
            ..DeleteOptions::default()
        };
        EngineOptions { maintenance, deletes, ..unhurried_options() }
    }

    pub(super) async fn open(&self, name: &str) -> Arc<Engine> {
        self.open_with(name, self.options()).await
    }

    pub(super) async fn open_with(&self, name: &str, options: EngineOptions) -> Arc<Engine> {
        open_on(&self.bucket, &self.env, name, options).await
    }

    /// Waits long enough for rules to take effect and for their work to be done.
    pub(super) async fn settle(&self) {
        self.env.sleep(HOUR / 2).await;
    }
}

/// All stored samples.
pub(super) async fn all(engine: &Arc<Engine>) -> Samples {
    let context = context(engine.env());
    let selection = SampleSelection::all(Vec::new(), i64::MIN / 2_000_000, i64::MAX / 2_000_000);
    let mut scan = engine.sources().samples.select(&context, selection).await.unwrap();
    let mut found = Samples::new();
    while let Some(batch) = scan.next().await.unwrap() {
        for (series, samples) in batch.samples.iter().enumerate() {
            let bits = samples.values.iter().map(|value| value.to_bits());
            let points = samples.times.iter().copied().zip(bits).collect();
            let labels = Labels::from_pairs(batch.pairs(series)).to_string();
            assert!(found.insert(labels, points).is_none(), "each series is returned once");
        }
    }
    assert_eq!(context.warnings(), Vec::<String>::new());
    found
}

/// Pushes points, one per second, this many days old.
pub(super) async fn push(
    engine: &Engine,
    labels: &Labels,
    days: i64,
    seconds: std::ops::Range<i64>,
) -> Samples {
    push_valued(engine, labels, days, seconds, |n| ((n * 37) % 101 - 50) as f64).await
}

pub(super) async fn push_valued(
    engine: &Engine,
    labels: &Labels,
    days: i64,
    seconds: std::ops::Range<i64>,
    value: impl Fn(i64) -> f64,
) -> Samples {
    let first_ms = (START_NS - days * DAY_NS) / 1_000_000;
    let points: Vec<_> = seconds.map(|n| (first_ms + n * 1_000, value(n))).collect();
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(Arc::new(labels.clone()), points.clone());
    engine.push(batch).await.unwrap();
    let bits = points.into_iter().map(|(time, value)| (time, value.to_bits())).collect();
    Samples::from([(labels.to_string(), bits)])
}

/// The labels of a path, or of a name with tags.
pub(super) fn path(path: &str) -> Labels {
    let Some((name, tags)) = path.split_once(';') else { return graphite_path_labels(path).unwrap() };
    graphite_tagged_labels(name, tags.split(';').filter_map(|tag| tag.split_once('='))).unwrap()
}

/// The only path of a day; on every second day a series with tags.
fn of_day(day: i64) -> Labels {
    path(&format!("a.n{}{day}", if day % 2 == 0 { "" } else { ";day=" }))
}

/// Of several values of an instant the last one stays, as in Graphite's series.
pub(super) fn joined(parts: impl IntoIterator<Item = Samples>) -> Samples {
    let mut all = Samples::new();
    for (series, samples) in parts.into_iter().flatten() {
        all.entry(series).or_default().extend(samples);
    }
    all
}

/// The rollups of a path's points.
pub(super) fn rolled(labels: &Labels, points: &Samples, step: i64) -> Samples {
    let mut steps: BTreeMap<i64, Rollup> = BTreeMap::new();
    for (time, bits) in &points[&labels.to_string()] {
        let one = Rollup::of(f64::from_bits(*bits));
        let begin = time - time.rem_euclid(step * 1_000);
        steps.entry(begin).and_modify(|rollup| rollup.join(&one)).or_insert(one);
    }
    let mut found = Samples::new();
    for aggregate in Aggregate::ALL {
        let (archive, rollup) = (step.to_string(), aggregate.label(1));
        let own = [(GRAPHITE_ARCHIVE, archive.as_str()), (GRAPHITE_ROLLUP, rollup.as_str())];
        let labels = Labels::from_pairs(labels.iter().chain(own)).to_string();
        let known = steps.iter().filter_map(|(time, of)| Some((*time, of.get(aggregate)?.to_bits())));
        let known: BTreeMap<i64, u64> = known.collect();
        if !known.is_empty() {
            found.insert(labels, known);
        }
    }
    found
}

/// The number of blocks of days that were rewritten, kept, or too large.
pub(super) fn outcomes(engine: &Engine) -> [u64; 3] {
    let of = |outcome| engine.metrics().rollup_blocks.get_or_create(&[("outcome", outcome)]).get();
    ["rewritten", "kept", "too_large"].map(of)
}

pub(super) fn rows(engine: &Engine) -> [u64; 2] {
    ["before", "after"].map(|side| engine.metrics().rollup_rows.get_or_create(&[("side", side)]).get())
}

const ARCHIVES: [(i64, i64); 3] = [(1, 1), (60, 4), (3_600, 1_000)];

#[tokio::test(start_paused = true)]
async fn points_of_an_old_day_become_rollups_and_nothing_else_changes() {
    let world = World::new(61, &ARCHIVES);
    let engine = world.open("one").await;
    let (old, other) = (path("a.old"), path("b.other"));
    let tagged = graphite_tagged_labels("b", [("t", "v")]).unwrap();
    let plain = Labels::from_pairs([("__name__", "a.old"), ("le", "1")]);
    let points = push(&engine, &old, 2, 0..7_200).await;
    let sparse = push_valued(&engine, &path("a.sparse"), 2, 0..1, |_| 1.5).await;
    let mut kept = vec![sparse, push(&engine, &path("a.young"), 1, 0..600).await];
    for labels in [&other, &tagged, &plain] {
        kept.push(push(&engine, labels, 2, 0..600).await);
    }
    engine.flush().await.unwrap();
    let before = joined(kept.clone().into_iter().chain([points.clone()]));
    assert_eq!(all(&engine).await, before);
    world.settle().await;
    let minutes = joined(kept.iter().cloned().chain([rolled(&old, &points, 60)]));
    assert_eq!(all(&engine).await, minutes);
    assert_eq!((outcomes(&engine), rows(&engine)), ([1, 0, 0], [7_200, 120 * 7]));
    assert_eq!(engine.metrics().deleted_rows.get(), 0);
    // After the grace period of garbage collection, and in a new process; the young path is old by then.
    world.env.sleep(HOUR * 30).await;
    let fresh = world.open("fresh").await;
    world.settle().await;
    let young = kept.remove(1);
    let minutes =
        joined(kept.iter().cloned().chain([rolled(&old, &points, 60), rolled(&path("a.young"), &young, 60)]));
    assert_eq!((all(&fresh).await, all(&engine).await), (minutes.clone(), minutes));
    assert_eq!(engine.metrics().rollup_failures.get(), 0);
    // No engine runs during the following days, because an engine polls every second.
    engine.shutdown().await.unwrap();
    fresh.shutdown().await.unwrap();
    world.env.sleep(DAY * 4).await;
    let later = world.open("later").await;
    world.settle().await;
    let hours = joined(
        kept.into_iter().chain([rolled(&old, &points, 3_600), rolled(&path("a.young"), &young, 3_600)]),
    );
    assert_eq!(all(&later).await, hours);
    assert_eq!(later.metrics().rollup_failures.get(), 0);
}

/// Rules that are broken for a while or wrong for less than a minute, and a clock that jumps ahead, roll
/// nothing.
#[tokio::test(start_paused = true)]
async fn neither_a_mistake_nor_a_clock_rolls_young_points() {
    let keep = [(1, 5), (60, 1_000)];
    let world = World::new(62, &keep);
    let engine = world.open("one").await;
    let points = push(&engine, &path("a.b"), 3, 0..3_600).await;
    engine.flush().await.unwrap();
    world.settle().await;
    let env = &world.env;
    for slip in [Some(&[(1, 1), (60, 1_000)][..]), Some(&[(1, 0), (3_600, 1)])].repeat(5) {
        world.configure(slip);
        env.sleep(Duration::from_secs(50)).await;
        world.configure(Some(&keep));
        env.sleep(Duration::from_secs(40)).await;
    }
    env.set_clock_skew(DAY * 365, true);
    env.sleep(HOUR * 30).await;
    env.set_clock_skew(Duration::ZERO, true);
    world.configure(None);
    env.sleep(DAY * 3).await;
    assert_eq!(
        (all(&engine).await, outcomes(&engine)),
        (points.clone(), [0, 0, 0]),
        "broken rules roll nothing"
    );
    world.configure(Some(&keep));
    env.sleep(Duration::from_secs(170)).await;
    assert_eq!(all(&engine).await, points, "the rules have not been unchanged for long enough");
    world.settle().await;
    assert_eq!(
        all(&engine).await,
        rolled(&path("a.b"), &points, 60),
        "the rules are unchanged for long enough"
    );
    // Finer rules change nothing; coarser rules roll again.
    world.configure(Some(&[(1, 5_000)]));
    world.settle().await;
    assert_eq!(all(&engine).await, rolled(&path("a.b"), &points, 60));
    world.configure(Some(&[(1, 1), (3_600, 5_000)]));
    world.settle().await;
    assert_eq!(all(&engine).await, rolled(&path("a.b"), &points, 3_600));
}

/// A rolled step stays: late points of it stay next to the rollup, and late points of other steps are
/// rolled.
#[tokio::test(start_paused = true)]
async fn late_points_stay_next_to_a_rolled_step() {
    let world = World::new(63, &[(1, 1), (60, 1_000)]);
    let (engine, labels) = (world.open("one").await, path("a.b"));
    let points = push(&engine, &labels, 2, 0..1_800).await;
    engine.flush().await.unwrap();
    world.settle().await;
    let first = rolled(&labels, &points, 60);
    assert_eq!(all(&engine).await, first);
    let late = push_valued(&engine, &labels, 2, 600..1_200, |_| 7.0).await;
    assert_eq!(all(&engine).await, joined([first.clone(), late.clone()]));
    engine.flush().await.unwrap();
    world.settle().await;
    world.env.sleep(HOUR * 3).await;
    assert_eq!(all(&engine).await, joined([first.clone(), late.clone()]));
    assert_eq!((blocks(&engine, &metrics()), rows(&engine)[0]), (1, 1_800));
    let more = push_valued(&engine, &labels, 2, 1_800..3_600, |n| n as f64).await;
    engine.flush().await.unwrap();
    world.env.sleep(HOUR * 3).await;
    let both = rolled(&labels, &joined([points, more]), 60);
    assert_eq!(all(&engine).await, joined([both, late]));
    assert_eq!((blocks(&engine, &metrics()), outcomes(&engine)[0]), (1, 2));
    // A new process finds nothing to do.
    let fresh = world.open("fresh").await;
    drop(engine);
    world.env.sleep(HOUR * 3).await;
    assert_eq!(outcomes(&fresh)[0], 0);
}

/// A step whose points are in several blocks that no merge joins is rolled once, with all of them.
#[tokio::test(start_paused = true)]
async fn the_blocks_of_a_day_are_rolled_together_or_not_at_all() {
    let world = World::new(64, &[(1, 1), (3_600, 1_000)]);
    let labels = path("a.b");
    let mut options = world.options();
    options.maintenance.compaction.block_raw_bytes_max = 1_000 * 16;
    let engine = world.open_with("one", options.clone()).await;
    let mut parts = Vec::new();
    for part in 0..4 {
        // Each overlaps with the previous one, whose values it corrects.
        let seconds = part * 1_500..part * 1_500 + 2_000;
        parts.push(push_valued(&engine, &labels, 2, seconds, |n| (n * (part + 1)) as f64).await);
        engine.flush().await.unwrap();
    }
    let points = joined(parts);
    assert_eq!(blocks(&engine, &metrics()), 4);
    world.settle().await;
    assert_eq!(all(&engine).await, rolled(&labels, &points, 3_600));
    assert_eq!((blocks(&engine, &metrics()), outcomes(&engine)), (1, [4, 0, 0]));
    // The rollups of this day do not fit into one block, although it may be sixteen times as large as
    // others.
    let mut kept = vec![all(&engine).await];
    for part in 0..2 {
        let seconds = part * 3_600..part * 3_600 + 3_600;
        kept.push(push(&engine, &labels, 3, seconds.clone()).await);
        for path in ["b.c", "b.d", "b.e", "b.f"].map(path) {
            kept.push(push(&engine, &path, 3, seconds.clone()).await);
        }
        engine.flush().await.unwrap();
    }
    world.settle().await;
    assert_eq!((all(&engine).await, outcomes(&engine)), (joined(kept), [4, 0, 2]));
}

#[tokio::test(start_paused = true)]
async fn several_processes_and_crashes_roll_once() {
    for seed in 0..2u32 {
        let world = World::new(100 + u64::from(seed), &[(1, 1), (60, 1_000)]);
        let (one, two) = (world.open("one").await, world.open("two").await);
        let mut expected = Vec::new();
        for day in 2..6 {
            let engine = if day % 2 == 0 { &one } else { &two };
            let labels = of_day(day);
            let points = push(engine, &labels, day, 0..900).await;
            expected.push(rolled(&labels, &points, 60));
            expected.push(push(engine, &path("b.c"), day, 0..100).await);
        }
        one.flush().await.unwrap();
        two.flush().await.unwrap();
        // One of the processes ends at some moment, perhaps while it writes.
        world.env.sleep(Duration::from_millis(120_000) + seed * Duration::from_millis(11)).await;
        drop(two);
        let three = world.open("three").await;
        world.settle().await;
        let expected = joined(expected);
        assert_eq!((all(&one).await, all(&three).await), (expected.clone(), expected), "{seed}");
        assert_eq!(one.metrics().rollup_failures.get() + three.metrics().rollup_failures.get(), 0);
    }
}

/// Requests fail, lose their answers or are applied late, while two processes roll and one is killed:
/// whenever it is quiet, a path has either all of its points or all of its rollups.
#[tokio::test(start_paused = true)]
async fn a_failing_store_loses_and_duplicates_nothing() {
    let calm = || FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
    for seed in 0..3u32 {
        let world = World::new(200 + u64::from(seed), &[(1, 1), (60, 1_000)]);
        let (one, two) = (world.open("one").await, world.open("two").await);
        let (mut points, mut rollups) = (Vec::new(), Vec::new());
        for day in 2..8 {
            let labels = of_day(day);
            points.push(push(&one, &labels, day, 0..600).await);
            rollups.push(rolled(&labels, &points[points.len() - 1], 60));
        }
        one.flush().await.unwrap();
        world.env.sleep(Duration::from_secs(100)).await;
        world.bucket.set_plan(FaultPlan::many_faults());
        world.env.sleep(Duration::from_secs(60) + seed * Duration::from_millis(1_700)).await;
        drop(two);
        world.env.sleep(Duration::from_secs(300)).await;
        world.bucket.set_plan(calm());
        world.bucket.settle().await;
        let three = world.open("three").await;
        let found = all(&three).await;
        for (points, rollup) in points.iter().zip(&rollups) {
            let is_all = |part: &Samples| part.iter().all(|(labels, of)| found.get(labels) == Some(of));
            let is_none = |part: &Samples| part.keys().all(|labels| !found.contains_key(labels));
            assert!(is_all(points) && is_none(rollup) || is_none(points) && is_all(rollup), "{seed}");
        }
        world.env.sleep(HOUR * 2).await;
        assert_eq!(all(&three).await, joined(rollups), "{seed}");
        drop(one);
    }
}

/// A damaged block stays, its failure is counted, and it does not block other days.
#[tokio::test(start_paused = true)]
async fn a_damaged_block_is_left_alone() {
    let world = World::new(66, &[(1, 1), (60, 1_000)]);
    let (engine, labels) = (world.open("one").await, path("a.b"));
    let [points, sound] = [push(&engine, &labels, 3, 0..900).await, push(&engine, &labels, 4, 0..900).await];
    engine.flush().await.unwrap();
    engine.queries().reader.bytes().cache().flush_all(None);
    let block = engine.view().snapshot.all_blocks().max_by_key(|block| block.max_ts).unwrap().clone();
    let (objects, object) = (world.bucket.objects(), Path::from(block.path()));
    let mut bytes = objects.get(&object).await.unwrap().bytes().await.unwrap().to_vec();
    bytes[40] ^= 0x11;
    objects.put(&object, PutPayload::from(bytes.clone())).await.unwrap();
    world.settle().await;
    assert_eq!((outcomes(&engine), engine.metrics().rollup_failures.get()), ([1, 0, 0], 1));
    assert!(engine.view().snapshot.all_blocks().any(|other| other.id == block.id));
    bytes[40] ^= 0x11;
    objects.put(&object, PutPayload::from(bytes)).await.unwrap();
    engine.queries().reader.bytes().cache().flush_all(None);
    world.env.sleep(HOUR * 2).await;
    let [points, sound] = [points, sound].map(|points| rolled(&labels, &points, 60));
    assert_eq!(all(&engine).await, joined([points, sound]), "after the block was restored");
}

/// Rows that an open request may still hide are not rolled. Later they are, and deletes remove rollups
/// as well.
#[tokio::test(start_paused = true)]
async fn deletes_are_processed_before_rollups() {
    let world = World::new(67, &[(1, 1), (60, 1_000)]);
    let engine = world.open("one").await;
    let labels = Labels::from_pairs(path("a.b").iter().chain([("app", "x")]));
    let (one, two) = (path("a.one"), path("a.two"));
    let points = push(&engine, &one, 2, 0..900).await;
    let mut left = push(&engine, &two, 2, 0..900).await;
    push(&engine, &labels, 2, 0..900).await;
    engine.flush().await.unwrap();
    let first_ms = START_NS / 1_000_000 - 2 * 86_400_000;
    engine.create_delete(&metrics(), "x", first_ms, first_ms + 899_000).await.unwrap();
    world.settle().await;
    assert_eq!(outcomes(&engine), [0, 0, 0], "the request is open");
    world.env.sleep(HOUR * 2).await;
    left = joined([rolled(&one, &points, 60), rolled(&two, &left, 60)]);
    assert_eq!((all(&engine).await, outcomes(&engine)), (left, [1, 0, 0]));
    assert_eq!(engine.metrics().deleted_rows.get(), 900);
}
