//! Goal: several values of a series at one time that different processes store keep one order, wherever they
//! are: in memory, in blocks of flushes, in merged blocks, after an adoption and after restarts. The first
//! counts for samples and histograms, the last for points of Graphite, also if the clocks of the processes
//! are apart.
//!
//! Method: processes with clocks of their own over one simulated bucket. A value that was visible to the
//! writer of the next one was written before it. Of values that were written at the same time any one may
//! count, but always the same one, for all processes and at all times.

use std::collections::BTreeMap;

use sandur_base::Id;
use sandur_format::block::BlockIndex;
use sandur_format::sample_block::Footer;
use sandur_model::{FloatHistogram, HistogramSample, Labels, SampleBatch, graphite_path_labels};
use sandur_query::{QueryStats, SampleSelection};

use super::samples::{START_MS, until};
use super::*;
use crate::MaintenanceOptions;

/// The kinds of series.
const KINDS: [&str; 3] = ["sample", "histogram", "path"];
const SECONDS: i64 = 4;

/// The value of each series and second.
type Values = BTreeMap<(&'static str, i64), u32>;

/// Processes over one bucket.
struct World {
    seed: u64,
    bucket: FaultStore,
    /// The environment of the bucket, which decides what happens.
    env: Env,
    names: usize,
    options: EngineOptions,
}

/// A process, with its environment.
struct Process {
    engine: Arc<Engine>,
    env: Env,
}

/// The options of a process whose head is flushed only when a test does.
fn options() -> EngineOptions {
    let mut maintenance =
        MaintenanceOptions { interval: Duration::from_secs(1), ..MaintenanceOptions::default() };
    maintenance.compaction.hour_blocks_max = 3;
    EngineOptions { maintenance, ..small_options() }
}

impl World {
    fn new(seed: u64) -> Self {
        Self::at(seed, START_NS)
    }

    fn at(seed: u64, start_ns: i64) -> Self {
        let env = Env::simulated(seed, start_ns);
        Self { seed, bucket: near_bucket(&env, seed), env, names: 0, options: options() }
    }

    /// Starts a process whose clock differs from the right time.
    async fn start(&mut self, skew: Duration, ahead: bool) -> Process {
        self.names += 1;
        let env = Env::simulated(self.seed << 8 | self.names as u64, self.env.now_ns());
        env.set_clock_skew(skew, ahead);
        let engine = open_on(&self.bucket, &env, &format!("p{}", self.names), self.options.clone()).await;
        Process { engine, env }
    }

    fn below(&self, bound: u64) -> u64 {
        self.env.random_below(bound)
    }
}

fn labels(kind: &str) -> Arc<Labels> {
    Arc::new(match kind {
        "path" => graphite_path_labels("site.load").unwrap(),
        _ => Labels::from_pairs([("__name__", kind)]),
    })
}

fn batch(kind: &str, second: i64, value: u32) -> SampleBatch {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    let timestamp = START_MS + second * 1_000;
    if kind == "histogram" {
        batch.push(labels(kind), []);
        let histogram = FloatHistogram { count: f64::from(value), ..FloatHistogram::default() };
        let histogram = Arc::new(histogram);
        batch.push_histogram(HistogramSample { timestamp, start: 0, integer: false, histogram });
    } else {
        batch.push(labels(kind), [(timestamp, f64::from(value))]);
    }
    batch
}

impl Process {
    async fn push(&self, kind: &str, second: i64, value: u32) {
        self.engine.push(batch(kind, second, value)).await.unwrap();
    }

    /// Pushes a value of each kind.
    async fn push_all(&self, second: i64, value: u32) {
        for kind in KINDS {
            self.push(kind, second, value).await;
        }
    }

    /// All values that any process acknowledged before.
    async fn values(&self) -> Values {
        let context = context(&self.env);
        context.require_view(Duration::ZERO);
        let selection = SampleSelection::all(Vec::new(), i64::MIN, i64::MAX);
        let mut scan = self.engine.sources().samples.select(&context, selection).await.unwrap();
        let mut found = Values::new();
        while let Some(batch) = scan.next().await.unwrap() {
            for (series, samples) in batch.samples.iter().enumerate() {
                let labels_of = Labels::from_pairs(batch.pairs(series));
                let kind = KINDS.into_iter().find(|kind| *labels(kind) == labels_of).unwrap();
                let second = |time_ms: i64| (time_ms - START_MS) / 1_000;
                let floats = samples.times.iter().zip(&samples.values);
                found.extend(floats.map(|(time, value)| ((kind, second(*time)), *value as u32)));
                let histograms = samples.histogram_times.iter().zip(&samples.histograms);
                found.extend(histograms.map(|(time, of)| ((kind, second(*time)), of.count as u32)));
            }
        }
        assert_eq!(context.warnings(), Vec::<String>::new());
        found
    }
}

fn all_of(second: i64, sample: u32, path: u32) -> Values {
    KINDS.into_iter().map(|kind| ((kind, second), if kind == "path" { path } else { sample })).collect()
}

/// Versions of the blocks of samples, and the numbers of their merges.
async fn blocks(engine: &Engine) -> Vec<(u16, u8)> {
    let mut found = Vec::new();
    for meta in engine.catalog().refresh().await.unwrap().all_blocks() {
        let block = engine.queries().reader.open::<Footer>(meta, &QueryStats::default()).await.unwrap();
        found.push((block.footer.info().version, meta.level));
    }
    found.sort_unstable();
    found
}

/// The finding: value 1 on one process, 2 three seconds later on another one. All answered 2, and 1 after a
/// flush.
#[tokio::test(start_paused = true)]
async fn values_of_two_processes_keep_their_order_over_flushes_merges_and_adoption() {
    for (first, second) in [(0, 1), (1, 0)] {
        let mut world = World::new(41 + first as u64);
        let mut processes = vec![world.start(Duration::ZERO, true).await];
        processes.push(world.start(Duration::from_secs(50), false).await);
        processes[first].push_all(0, 1).await;
        world.env.sleep(Duration::from_secs(3)).await;
        processes[second].push_all(0, 2).await;
        let expected = all_of(0, 1, 2);
        for order in [[second, first], [first, second]] {
            for process in &processes {
                assert_eq!(process.values().await, expected, "{first} in memory");
            }
            for number in order {
                processes[number].engine.flush().await.unwrap();
                for process in &processes {
                    assert_eq!(process.values().await, expected, "{first}: after a flush of {number}");
                }
            }
        }
        // More blocks, so that all are merged; the other values are of other seconds.
        for value in 0..4 {
            processes[first].push_all(1 + i64::from(value), value).await;
            processes[first].engine.flush().await.unwrap();
        }
        let are_merged = |snapshot: &sandur_catalog::Snapshot| {
            snapshot.all_blocks().any(|block| block.level > 0) && snapshot.all_blocks().count() <= 3
        };
        until(&processes[0].engine, are_merged).await;
        let of_first = |values: Values| -> Values {
            values.into_iter().filter(|((_, second), _)| *second == 0).collect()
        };
        for process in &processes {
            assert_eq!(of_first(process.values().await), expected, "{first}: merged");
        }
        // A third value is in the WAL of a process that dies.
        processes[second].push_all(0, 3).await;
        let expected = all_of(0, 1, 3);
        let dead = processes.remove(second);
        let incarnation = dead.engine.incarnation();
        drop(dead);
        assert_eq!(of_first(processes[0].values().await), expected, "{first}: from a WAL");
        let is_adopted = |snapshot: &sandur_catalog::Snapshot| {
            snapshot.writer(incarnation).is_none_or(|writer| writer.is_sealed())
        };
        until(&processes[0].engine, is_adopted).await;
        assert_eq!(of_first(processes[0].values().await), expected, "{first}: adopted");
        let fresh = world.start(Duration::from_secs(3_600), false).await;
        assert_eq!(of_first(fresh.values().await), expected, "{first}: read by a new process");
        fresh.push_all(0, 4).await;
        assert_eq!(of_first(fresh.values().await), all_of(0, 1, 4), "{first}: its clock is late");
    }
}

/// A block of a flush has the stamps of its samples, and programs of an earlier version do not.
#[tokio::test(start_paused = true)]
async fn samples_have_stamps_once_all_processes_read_them() {
    let mut world = World::new(43);
    let mut old = options();
    old.catalog.reads = None;
    let env = Env::simulated(7, START_NS);
    let old = open_on(&world.bucket, &env, "old", old).await;
    let new = world.start(Duration::ZERO, true).await;
    new.push_all(0, 1).await;
    new.engine.flush().await.unwrap();
    assert_eq!(blocks(&new.engine).await, [(7, 0)]);
    new.push_all(0, 2).await;
    assert_eq!(new.engine.view().heads.iter().filter_map(|head| head.samples().stamps()).count(), 0);
    drop(old);
    until(&new.engine, |snapshot| snapshot.forms().samples >= 8).await;
    new.push_all(0, 3).await;
    assert_eq!(new.values().await, all_of(0, 1, 3));
    new.engine.flush().await.unwrap();
    assert_eq!(new.values().await, all_of(0, 1, 3));
    assert!(blocks(&new.engine).await.contains(&(8, 0)));
}

/// Merges keep stamps while a process may still flush samples that were written before, and omit them as soon
/// as that is not so.
#[tokio::test(start_paused = true)]
async fn merged_blocks_have_no_stamps_once_nothing_can_precede_them() {
    /// In another block of the day, so that the day is merged.
    const LATER: i64 = 5 * 3_600;
    // The day of the samples is over in two hours.
    let mut world = World::at(44, START_NS + 20 * 3_600 * 1_000_000_000);
    world.options = unhurried_options();
    world.options.maintenance.compaction.thin_bytes = 0;
    let (a, b) = (world.start(Duration::ZERO, true).await, world.start(Duration::from_secs(70), false).await);
    let idle = world.start(Duration::ZERO, true).await;
    a.push_all(0, 1).await;
    assert_eq!(b.values().await, all_of(0, 1, 1));
    b.push_all(0, 2).await;
    // Its own head is older than all that others flush.
    idle.push_all(0, 3).await;
    let expected = all_of(0, 1, 3);
    for round in 1..5 {
        for process in [&a, &b] {
            process.push_all(0, 10 * round).await;
            process.push_all(LATER, round).await;
            process.engine.flush().await.unwrap();
        }
    }
    let corrected = a.values().await;
    let last = corrected[&("path", 0)];
    let later = all_of(LATER, 1, 4);
    assert_eq!(corrected, all_of(0, 1, last).into_iter().chain(later).collect::<Values>());
    assert!(last >= expected[&("path", 0)]);
    let is_stamped =
        |blocks: &[(u16, u8)], level| blocks.iter().any(|(version, of)| *version == 8 && *of >= level);
    assert!(is_stamped(&blocks(&a.engine).await, 0));
    let mut merged = false;
    for _ in 0..12 {
        world.env.sleep(Duration::from_secs(3_600)).await;
        let found = blocks(&a.engine).await;
        merged |= found.iter().any(|(_, level)| *level > 0);
        if merged && !is_stamped(&found, 0) {
            break;
        }
        for process in [&a, &b, &idle] {
            assert_eq!(process.values().await, corrected, "{found:?}");
        }
    }
    let found = blocks(&a.engine).await;
    assert!(merged && !is_stamped(&found, 0), "{found:?}");
    for process in [&a, &b, &idle] {
        assert_eq!(process.values().await, corrected, "{found:?}");
    }
}

/// A directory has one process at a time, whose blocks have an order without stamps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_has_no_stamps() {
    let directory = tempfile::TempDir::new().unwrap();
    let engine = super::samples::open(directory.path()).await;
    engine.push(batch("sample", 0, 1)).await.unwrap();
    engine.flush().await.unwrap();
    assert_eq!(blocks(&engine).await, [(7, 0)]);
}

/// A run of random pushes, flushes, merges, kills and restarts with random clocks.
struct Run {
    world: World,
    processes: Vec<Process>,
    known: Values,
    next_value: u32,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let mut run =
            Self { world: World::new(seed), processes: Vec::new(), known: Values::new(), next_value: 1 };
        for _ in 0..3 {
            run.start().await;
        }
        run
    }

    async fn start(&mut self) {
        let skew = Duration::from_millis(self.world.below(4) * self.world.below(1_800_000));
        let ahead = self.world.below(2) == 0;
        let process = self.world.start(skew, ahead).await;
        self.processes.push(process);
    }

    fn random_process(&self) -> &Process {
        &self.processes[self.world.below(self.processes.len() as u64) as usize]
    }

    /// Pushes values that nobody sees before all of them are stored. Returns them by series and second.
    async fn push(&mut self) -> BTreeMap<(&'static str, i64), Vec<u32>> {
        let mut pushed: BTreeMap<(&'static str, i64), Vec<u32>> = BTreeMap::new();
        let mut pushes = Vec::new();
        for _ in 0..1 + self.world.below(4) {
            let kind = KINDS[self.world.below(3) as usize];
            let second = self.world.below(SECONDS as u64) as i64;
            let value = self.next_value;
            self.next_value += 1;
            pushed.entry((kind, second)).or_default().push(value);
            let engine = Arc::clone(&self.random_process().engine);
            pushes.push(async move { engine.push(batch(kind, second, value)).await.map(drop) });
        }
        for result in futures_util::future::join_all(pushes).await {
            result.unwrap();
        }
        pushed
    }

    /// Checks that all processes have the known values.
    async fn check(&self, when: &str) {
        for (number, process) in self.processes.iter().enumerate() {
            assert_eq!(
                process.values().await,
                self.known,
                "seed {}: {when}, process {number}",
                self.world.seed
            );
        }
    }

    async fn round(&mut self) {
        let pushed = self.push().await;
        let found = self.random_process().values().await;
        let seed = self.world.seed;
        for (key, values) in pushed {
            let (found, known) = (found[&key], self.known.get(&key).copied());
            match known {
                Some(known) if key.0 != "path" => assert_eq!(found, known, "seed {seed}: {key:?}"),
                _ => assert!(values.contains(&found), "seed {seed}: {key:?} is {found}, not of {values:?}"),
            }
            self.known.insert(key, found);
        }
        self.check("after a push").await;
        match self.world.below(4) {
            0 => self.restart().await,
            1 => self.world.env.sleep(Duration::from_secs(self.world.below(90))).await,
            _ => {
                let engine = Arc::clone(&self.random_process().engine);
                engine.flush().await.unwrap();
            }
        }
        self.check("after work").await;
    }

    /// Kills a process, or stops it, and starts another one.
    async fn restart(&mut self) {
        let at = self.world.below(self.processes.len() as u64) as usize;
        let process = self.processes.swap_remove(at);
        if self.world.below(2) == 0 {
            process.engine.shutdown().await.unwrap();
        }
        drop(process);
        self.start().await;
    }
}

async fn run(seed: u64) {
    let mut run = Run::new(seed).await;
    for _ in 0..8 {
        run.round().await;
    }
    // Everything is adopted, flushed and merged.
    run.world.env.sleep(Duration::from_secs(120)).await;
    for process in &run.processes {
        process.engine.flush().await.unwrap();
    }
    run.check("in blocks").await;
    run.world.env.sleep(Duration::from_secs(120)).await;
    run.check("merged").await;
    let own: Vec<Id> = run.processes.iter().map(|process| process.engine.incarnation()).collect();
    let view = run.processes[0].engine.view();
    assert!(view.snapshot.writers().keys().all(|id| own.contains(id)), "seed {seed}: all others are adopted");
}

fn seeds(seeds: std::ops::RangeInclusive<u64>) {
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(run(seed));
    }
}

#[test]
fn values_keep_one_order_whatever_the_clocks_say() {
    seeds(1..=2);
}

#[test]
#[ignore = "takes minutes"]
fn values_keep_one_order_for_many_seeds() {
    seeds(1..=5_000);
}
