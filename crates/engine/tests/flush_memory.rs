//! Goal: whatever times, tenants and labels rows have, pushes, flushes and reading a WAL take at most
//! the memory of the write budget plus a slack, a flush makes few blocks, and every acknowledged row is
//! kept.
//!
//! Method: random pushes that are designed to make the most blocks and the largest plans go to an engine
//! on a directory, which crashes and starts again, under an allocator that counts allocated bytes. Rows
//! are counted in blocks and heads. A failure prints its seed.

#![allow(clippy::unwrap_used)] // a test: a panic is how it fails

use std::alloc::System;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::MIB;
use sandur_engine::{Engine, EngineOptions, MaintenanceOptions};
use sandur_memory::MemoryBudget;
use sandur_memory::account::{Account, Counting};
use sandur_model::{
    Batch, DAY_NS, Exemplar, Labels, Level, LogBatchBuilder, SampleBatch, TenantId, TimeRange,
};
use sandur_runtime::Env;
use sandur_store::{Store, StoreOptions};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

/// 2026-11-20 10:00 UTC.
const START_NS: i64 = 1_795_168_800_000_000_000;
/// A century.
const DAYS: i64 = 36_500;
/// Memory of pushes and heads.
const WRITE_BYTES: u64 = 8 * MIB;
/// Memory outside of the budget: the batch that the test pushes, decoded footers, buffers of the block
/// that is being written.
const SLACK: u64 = 10 * MIB;
/// Raw bytes below which rows of different times share blocks.
const THIN_BYTES: u64 = 4 * MIB;

struct World {
    env: Env,
    directory: tempfile::TempDir,
    /// The number of acknowledged rows, by tenant. All rows differ.
    rows: BTreeMap<TenantId, u64>,
    number: i64,
    /// The number of flushes that ended, of all processes.
    flushes: u64,
    /// The number of processes that ended, each perhaps in the middle of a flush.
    processes: u64,
}

impl World {
    fn new() -> Self {
        let (env, directory) = (Env::simulated(0, START_NS), tempfile::TempDir::new().unwrap());
        Self { env, directory, rows: BTreeMap::new(), number: 0, flushes: 0, processes: 0 }
    }

    async fn open(&self) -> Arc<Engine> {
        let url = self.directory.path().to_str().unwrap();
        let store = Store::open(url, self.env.clone(), StoreOptions::default()).await.unwrap();
        let pause = Duration::from_secs(1 << 30);
        let maintenance = MaintenanceOptions { interval: pause, ..MaintenanceOptions::default() };
        let write_budget = MemoryBudget::root("write", WRITE_BYTES);
        let options =
            EngineOptions { write_budget, maintenance, cache_bytes: MIB, ..EngineOptions::default() };
        Engine::open(store, self.env.clone(), options).await.unwrap()
    }

    fn below(&self, bound: i64) -> i64 {
        self.env.random_below(bound as u64) as i64
    }

    /// A random time, in milliseconds within a century, that no other row has.
    fn some_time_ms(&mut self) -> i64 {
        self.number += 1;
        (START_NS - self.below(DAYS) * DAY_NS) / 1_000_000 - self.number
    }

    async fn push(&mut self, engine: &Engine, batch: impl Into<Batch>) {
        let batch = batch.into();
        let (tenant, rows) = match &batch {
            Batch::Logs(batch) => (batch.tenant.clone(), batch.rows() as u64),
            Batch::Metrics(batch) => (batch.tenant.clone(), batch.rows() as u64),
        };
        engine.push(batch).await.unwrap();
        *self.rows.entry(tenant).or_default() += rows;
    }

    /// Pushes samples of some series, each at times far apart.
    async fn push_samples(&mut self, engine: &Engine, series: i64, samples: i64, has_exemplars: bool) {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for _ in 0..series {
            let name = format!("m{}", self.below(3));
            let labels = Labels::from_pairs([("__name__", name), ("n", format!("{}", self.below(1 << 40)))]);
            let times: Vec<i64> = (0..samples).map(|_| self.some_time_ms()).collect();
            batch.push(Arc::new(labels), times.iter().map(|time| (*time, *time as f64)));
            if has_exemplars {
                let (timestamp, labels) = (self.some_time_ms(), Labels::from_pairs([("trace", "x")]));
                batch.push_exemplar(Exemplar { labels, value: 1.0, timestamp });
            }
        }
        self.push(engine, batch).await;
    }

    async fn push_lines(&mut self, engine: &Engine, tenant: TenantId, streams: i64, lines: i64) {
        let mut batch = LogBatchBuilder::new(tenant);
        for _ in 0..streams {
            let labels = Arc::new(Labels::from_pairs([("app", format!("{}", self.below(1 << 40)))]));
            for _ in 0..lines {
                let at = self.some_time_ms() * 1_000_000;
                batch.row_with(&labels, at, "a line", [("k", "v")], Level::Info);
            }
        }
        self.push(engine, batch.build()).await;
    }

    /// Pushes a batch that is designed to make many blocks or large plans.
    async fn some_push(&mut self, engine: &Engine) {
        match self.below(6) {
            0 => self.push_samples(engine, 1, 20_000, false).await,
            1 => self.push_samples(engine, 1_000, 3, false).await,
            2 => self.push_samples(engine, 200, 1, true).await,
            3 => self.push_lines(engine, TenantId::default_tenant(), 1, 8_000).await,
            4 => self.push_lines(engine, TenantId::default_tenant(), 1_000, 2).await,
            _ => {
                for _ in 0..40 {
                    let tenant = TenantId::new(&format!("tenant-{}", self.below(1 << 40))).unwrap();
                    self.push_lines(engine, tenant, 1, 2).await;
                }
            }
        }
    }

    /// Checks that every acknowledged row is in a block or in a head, once.
    fn check_rows(&self, engine: &Engine) {
        let view = engine.view();
        let in_blocks: u64 = view.snapshot.all_blocks().map(|block| block.rows).sum();
        assert_eq!(in_blocks + view.head_totals().rows, self.rows.values().sum::<u64>());
    }

    /// Checks that a flush makes at most two blocks of a dataset, plus two more per `THIN_BYTES` of rows.
    fn check_blocks(&self, engine: &Engine) {
        let snapshot = engine.view().snapshot.clone();
        for dataset in snapshot.datasets() {
            let (mut blocks, mut bytes) = (0, 0);
            for block in snapshot.blocks(dataset, TimeRange::ALL) {
                (blocks, bytes) = (blocks + 1, bytes + block.raw_bytes);
            }
            // The flush that runs when a process ends is not counted and may have committed.
            let most = 2 * (self.flushes + self.processes) + 2 * bytes / THIN_BYTES;
            assert!(blocks <= most, "{dataset}: {blocks} blocks of {bytes} bytes, {} flushes", self.flushes);
        }
    }
}

/// Runs one process, which reads the WAL of the previous one.
async fn live(world: &mut World, account: Account) {
    let engine = world.open().await;
    let check_memory = |when: &str| {
        let held = account.peak();
        assert!(held <= WRITE_BYTES + SLACK, "{} KiB {when}", held / 1_024);
    };
    check_memory("after a start");
    world.check_rows(&engine);
    for _ in 0..1 + world.below(12) {
        world.some_push(&engine).await;
    }
    check_memory("with pushes and flushes");
    if world.below(3) > 0 {
        engine.flush().await.unwrap();
        assert_eq!(engine.view().head_totals().rows, 0);
    }
    check_memory("after a flush");
    world.check_rows(&engine);
    world.flushes += engine.metrics().flushes.get();
    world.processes += 1;
    world.check_blocks(&engine);
}

fn run(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let mut world = World::new();
        for process in 0..4 {
            world.env = Env::simulated(seed * 4 + process, START_NS);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
            let account = Account::default();
            // The engine's tasks end with it.
            runtime.unwrap().block_on(account.charge(live(&mut world, account.clone())));
        }
    }
}

#[test]
fn pushes_and_flushes_stay_within_memory_and_block_limits() {
    run(0..2);
}

#[test]
#[ignore = "takes minutes; `cargo xtask nightly` runs it"]
fn pushes_and_flushes_of_many_seeds_stay_within_memory_and_block_limits() {
    run(0..2_000);
}
