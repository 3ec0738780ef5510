//! Goal: days with many blocks that no merge joins are rolled slot by slot, each step with all of its
//! points, in bounded memory; work that was done survives the death of the process. Method: complete
//! engines over a simulated bucket in paused time; blocks have some kilobytes, and the maximum size of a
//! block is smaller.

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{DAY_NS, SampleBatch};

use super::rollups::{HOUR, World, all, joined, outcomes, path, rolled, rows};
use super::samples::{Samples, blocks, metrics};
use super::*;

/// Points become rollups of an hour after a day.
const TO_HOURS: [(i64, i64); 2] = [(1, 1), (3_600, 1_000)];
const PATHS: [&str; 3] = ["a.b.one", "a.b;t=two", "a.c"];
/// Points of a path in a block.
const POINTS: i64 = 24;
/// Raw bytes of a block.
const BLOCK_BYTES: u64 = POINTS as u64 * PATHS.len() as u64 * 16;

/// A day a week ago, with blocks of the maximum size.
struct LargeDay {
    world: World,
    options: EngineOptions,
    /// The pushed points, by path.
    points: Vec<Samples>,
}

impl LargeDay {
    fn new(seed: u64) -> Self {
        let world = World::new(seed, &TO_HOURS);
        let mut options = world.options();
        options.maintenance.compaction.block_raw_bytes_max = BLOCK_BYTES;
        Self { world, options, points: vec![Samples::new(); PATHS.len()] }
    }

    async fn open(&self, name: &str) -> Arc<Engine> {
        self.world.open_with(name, self.options.clone()).await
    }

    /// Seconds from the hour of the start a week ago to the begin of that day.
    fn begin() -> i64 {
        -(START_NS.rem_euclid(DAY_NS) / 1_000_000_000)
    }

    /// Pushes blocks that share the slots among them, in a store that rolls nothing meanwhile.
    async fn push(&mut self, engine: &Engine, blocks: i64) {
        self.world.configure(None);
        for slot in 0..12 {
            let of_slot = blocks / 12 + i64::from(slot < blocks % 12);
            for part in 0..of_slot {
                let first = Self::begin() + slot * 7_200 + part * 7_200 / of_slot;
                self.push_block(engine, first, (7_200 / of_slot / POINTS).max(1)).await;
            }
        }
        self.world.configure(Some(&TO_HOURS));
        assert!(blocks_of(engine) >= blocks as u64);
    }

    /// Pushes a block of points that are `apart` seconds apart.
    async fn push_block(&mut self, engine: &Engine, first: i64, apart: i64) {
        let batch = self.batch(first, apart);
        engine.push(batch).await.unwrap();
        engine.flush().await.unwrap();
    }

    fn batch(&mut self, first: i64, apart: i64) -> SampleBatch {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for (n, name) in PATHS.iter().enumerate() {
            let value = |k: i64| ((first + k * 37 + n as i64) % 101 - 50) as f64;
            let at = |k: i64| (START_NS - 7 * DAY_NS) / 1_000_000 + (first + k * apart) * 1_000;
            let points: Vec<_> = (0..POINTS).map(|k| (at(k), value(k))).collect();
            batch.push(Arc::new(path(name)), points.clone());
            let pushed = points.into_iter().map(|(time, value)| (time, value.to_bits()));
            self.points[n].entry(path(name).to_string()).or_default().extend(pushed);
        }
        batch
    }

    /// Pushes points of all slots at once. Returns points of later days, with which this day is over for
    /// long.
    async fn push_many_slots(&mut self, engine: &Engine) -> Samples {
        let mut batch = self.batch(Self::begin() + 7, 3_500);
        let first_ms = (START_NS - 7 * DAY_NS) / 1_000_000 + (Self::begin() + 86_400) * 1_000;
        let later = (0..64).map(|slot| (first_ms + slot * 7_200_000, 1.0));
        batch.push(Arc::new(path("b.c")), later.clone());
        engine.push(batch).await.unwrap();
        engine.flush().await.unwrap();
        let later = later.map(|(time, value)| (time, value.to_bits())).collect();
        Samples::from([(path("b.c").to_string(), later)])
    }

    fn points(&self) -> Samples {
        joined(self.points.iter().cloned())
    }

    fn rolled(&self) -> Samples {
        let of = |(name, points): (&&str, &Samples)| rolled(&path(name), points, 3_600);
        joined(PATHS.iter().zip(&self.points).map(of))
    }

    /// The number of rolled slots. Checks that each slot has either all of its points or all of its rollups.
    fn rolled_slots(&self, found: &Samples) -> usize {
        let (points, rollups) = (self.points(), self.rolled());
        let begin_ms = (START_NS - 7 * DAY_NS) / 1_000_000 + Self::begin() * 1_000;
        let of_slot = |all: &Samples, slot: i64| -> BTreeSet<(String, i64, u64)> {
            let times = begin_ms + slot * 7_200_000..begin_ms + (slot + 1) * 7_200_000;
            let rows = all.iter().flat_map(|(labels, rows)| rows.iter().map(move |row| (labels, row)));
            let within = rows.filter(|(_, (time, _))| times.contains(time));
            within.map(|(labels, (time, bits))| (labels.clone(), *time, *bits)).collect()
        };
        let is_rolled = |slot: &i64| {
            let has = of_slot(found, *slot);
            let is_rolled = has == of_slot(&rollups, *slot);
            assert!(is_rolled || has == of_slot(&points, *slot), "slot {slot} is neither");
            is_rolled
        };
        (0..12).filter(is_rolled).count()
    }
}

fn blocks_of(engine: &Engine) -> u64 {
    blocks(engine, &metrics()) as u64
}

/// The number of blocks with rows of more than half a day.
fn blocks_of_days(engine: &Engine) -> usize {
    let is_of_day = |block: &&Arc<BlockMeta>| block.max_ts - block.min_ts > DAY_NS / 2;
    engine.view().snapshot.all_blocks().filter(is_of_day).count()
}

fn cut(engine: &Engine) -> u64 {
    engine.metrics().rollup_blocks.get_or_create(&[("outcome", "cut")]).get()
}

/// The blocks of rolled slots are merged as those of any day.
#[tokio::test(start_paused = true)]
async fn a_day_of_many_blocks_is_rolled() {
    for count in [40, 138, 400] {
        let mut day = LargeDay::new(300 + count as u64);
        let engine = day.open("one").await;
        day.push(&engine, count).await;
        assert_eq!(day.rolled_slots(&all(&engine).await), 0);
        day.world.env.sleep(HOUR * 3).await;
        assert!(all(&engine).await == day.rolled(), "{count} blocks");
        let rolled_rows = count as u64 * BLOCK_BYTES / 16;
        assert_eq!((outcomes(&engine)[2], rows(&engine)[0]), (0, rolled_rows));
        assert!(engine.metrics().rollup_failures.get() == 0 && blocks_of(&engine) <= 12);
    }
}

/// A slot is rolled without waiting until recently rolled slots are quiet.
#[tokio::test(start_paused = true)]
async fn slots_are_rolled_one_after_the_other_without_a_pause() {
    let mut day = LargeDay::new(305);
    let engine = day.open("one").await;
    day.push(&engine, 480).await;
    // The rules take effect after one look; the last slots are those of a small day.
    day.world.env.sleep(Duration::from_secs(360)).await;
    assert!(day.rolled_slots(&all(&engine).await) > 8);
}

/// Rolled slots stay rolled when the process dies, and the next process continues; also if blocks that
/// span all slots are cut first.
#[tokio::test(start_paused = true)]
async fn each_slot_is_a_step_of_its_own() {
    for (seed, tying) in [(310, 0), (311, 3)] {
        slots_are_rolled_by_processes_that_die(seed, tying).await;
    }
}

async fn slots_are_rolled_by_processes_that_die(seed: u64, tying: usize) {
    let mut day = LargeDay::new(seed);
    let first = day.open("first").await;
    let mut later = Samples::new();
    for _ in 0..tying {
        later = day.push_many_slots(&first).await;
    }
    assert_eq!(blocks_of_days(&first), tying);
    day.push(&first, 138).await;
    drop(first);
    let mut slots = vec![0];
    for round in 0..40 {
        let engine = day.open(&format!("{round}")).await;
        day.world.env.sleep(Duration::from_millis(245_000 + 137 * round)).await;
        day.world.bucket.settle().await;
        let found = all(&engine).await;
        drop(engine);
        assert!(later.iter().all(|(labels, rows)| found.get(labels) == Some(rows)));
        slots.push(day.rolled_slots(&found));
        if slots.ends_with(&[12]) {
            break;
        }
    }
    assert!(slots.is_sorted() && slots.ends_with(&[12]), "{slots:?}");
}

/// Several processes share the slots. A store that sometimes fails and a process that dies do not change
/// any step.
#[tokio::test(start_paused = true)]
async fn several_processes_roll_each_slot_once() {
    for seed in 0..4u32 {
        let mut day = LargeDay::new(320 + u64::from(seed));
        let one = day.open("one").await;
        let later = if seed % 2 == 1 { day.push_many_slots(&one).await } else { Samples::new() };
        day.push(&one, 48).await;
        let two = day.open("two").await;
        day.world.env.sleep(Duration::from_secs(200)).await;
        day.world.bucket.set_plan(FaultPlan::many_faults());
        day.world.env.sleep(Duration::from_secs(40) + seed * Duration::from_millis(9_700)).await;
        drop(one);
        day.world.env.sleep(Duration::from_secs(200)).await;
        let calm = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
        day.world.bucket.set_plan(calm);
        day.world.bucket.settle().await;
        let three = day.open("three").await;
        day.rolled_slots(&all(&three).await);
        day.world.env.sleep(HOUR * 3).await;
        let expected = joined([day.rolled(), later]);
        assert!(all(&three).await == expected && all(&two).await == expected, "{seed}");
    }
}

/// The slot of a damaged block is not rolled; the others are.
#[tokio::test(start_paused = true)]
async fn a_damaged_block_blocks_only_its_slot() {
    let mut day = LargeDay::new(330);
    let engine = day.open("one").await;
    day.push(&engine, 48).await;
    let block = engine.view().snapshot.all_blocks().max_by_key(|block| block.max_ts).unwrap().clone();
    let (objects, object) = (day.world.bucket.objects(), Path::from(block.path()));
    let sound = objects.get(&object).await.unwrap().bytes().await.unwrap().to_vec();
    let mut damaged = sound.clone();
    damaged[40] ^= 0x11;
    objects.put(&object, PutPayload::from(damaged)).await.unwrap();
    engine.queries().reader.bytes().cache().flush_all(None);
    day.world.settle().await;
    assert!(engine.metrics().rollup_failures.get() > 0);
    assert!(engine.view().snapshot.all_blocks().any(|other| other.id == block.id));
    objects.put(&object, PutPayload::from(sound)).await.unwrap();
    engine.queries().reader.bytes().cache().flush_all(None);
    assert_eq!(day.rolled_slots(&all(&engine).await), 11);
    day.world.env.sleep(HOUR * 3).await;
    assert!(all(&engine).await == day.rolled(), "after the block was restored");
}

/// Points of a large day that are sent in one push, as after a week without a network, are in a block of
/// the day, as are points that arrived while the day was small. That block is cut into slots.
#[tokio::test(start_paused = true)]
async fn a_block_of_many_slots_is_cut_and_rolled_with_each() {
    for (seed, is_late) in [(340, true), (341, false)] {
        let mut day = LargeDay::new(seed);
        let engine = day.open("one").await;
        let mut of_many = Samples::new();
        if !is_late {
            of_many = day.push_many_slots(&engine).await;
        }
        day.push(&engine, 48).await;
        if is_late {
            day.world.configure(None);
            of_many = day.push_many_slots(&engine).await;
        }
        assert_eq!(blocks_of_days(&engine), 1);
        day.world.configure(Some(&TO_HOURS));
        day.world.env.sleep(HOUR * 3).await;
        assert!(all(&engine).await == joined([day.rolled(), of_many]));
        assert_eq!(rows(&engine)[0], 49 * BLOCK_BYTES / 16);
        assert_eq!((cut(&engine), outcomes(&engine)[2]), (1, 0));
    }
}

/// Steps that exceed a slot wait until the day is small; the points of other steps do not wait.
#[tokio::test(start_paused = true)]
async fn steps_of_several_slots_are_made_only_of_small_days() {
    let mut day = LargeDay::new(350);
    let engine = day.open("one").await;
    day.push(&engine, 48).await;
    let to_days = [(1, 1), (86_400, 1_000)];
    day.world.configure(Some(&to_days));
    day.world.settle().await;
    assert!(all(&engine).await == day.points());
    assert_eq!(outcomes(&engine), [0, 48, 0]);
    day.world.configure(Some(&TO_HOURS));
    day.world.env.sleep(HOUR * 3).await;
    assert!(all(&engine).await == day.rolled());
    day.world.configure(Some(&to_days));
    day.world.settle().await;
    let of = |(name, points): (&&str, &Samples)| rolled(&path(name), points, 86_400);
    assert!(all(&engine).await == joined(PATHS.iter().zip(&day.points).map(of)));
}

/// If slots would not be rolled, nothing is cut: a step of a day includes all of its blocks.
#[tokio::test(start_paused = true)]
async fn a_block_of_many_slots_is_not_cut_for_longer_steps() {
    let mut day = LargeDay::new(355);
    let engine = day.open("one").await;
    let later = day.push_many_slots(&engine).await;
    day.push(&engine, 48).await;
    day.world.configure(Some(&[(1, 1), (86_400, 1_000)]));
    day.world.env.sleep(HOUR * 3).await;
    let of = |(name, points): (&&str, &Samples)| rolled(&path(name), points, 86_400);
    let days = PATHS.iter().zip(&day.points).map(of);
    assert!(all(&engine).await == joined(days.chain([later])));
    assert_eq!((cut(&engine), outcomes(&engine)[2]), (0, 0));
}

/// A merge for which there is no memory is refused and not tried again; its blocks stay.
#[tokio::test(start_paused = true)]
async fn points_that_do_not_fit_in_memory_stay() {
    let mut day = LargeDay::new(360);
    day.options.maintenance.compaction_budget = MemoryBudget::root("compaction", 48 << 10);
    let engine = day.open("one").await;
    day.push(&engine, 96).await;
    day.world.env.sleep(HOUR * 3).await;
    assert!(all(&engine).await == day.points());
    assert_eq!((outcomes(&engine), engine.metrics().rollup_failures.get()), ([0, 0, 96], 0));
    drop(engine);
    day.options.maintenance.compaction_budget = MemoryBudget::root("compaction", 1 << 20);
    let engine = day.open("two").await;
    day.world.env.sleep(HOUR * 3).await;
    assert!(all(&engine).await == day.rolled());
}

/// A day that does not fit in memory is rolled by its slots.
#[tokio::test(start_paused = true)]
async fn a_day_for_which_there_is_no_memory_is_rolled_by_slots() {
    let mut left = Vec::new();
    for kib in [320u64, 352, 400, 512, 640, 896, 4_096] {
        let mut day = LargeDay::new(370 + kib);
        day.options.maintenance.compaction_budget = MemoryBudget::root("compaction", kib << 10);
        day.options.maintenance.compaction.block_raw_bytes_max = 4 * BLOCK_BYTES;
        day.options.maintenance.compaction.inputs_max = 1;
        let engine = day.open("one").await;
        day.push(&engine, 60).await;
        day.world.env.sleep(HOUR * 3).await;
        day.rolled_slots(&all(&engine).await);
        left.push(blocks_of(&engine));
    }
    assert!(left.is_sorted_by(|less, more| less >= more), "{left:?}");
    assert!(left.contains(&12) && left.ends_with(&[1]), "{left:?}");
}
