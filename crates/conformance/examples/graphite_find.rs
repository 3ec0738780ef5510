//! Measures the cost of finding nodes among many Graphite paths, in blocks and in memory.
//!
//! `cargo run --release -p sandur-conformance --example graphite_find -- 1000000` stores a million names
//! in two blocks and the head, then queries each pattern 50 times over the last four hours.
//!
//! Options: `metrics=1000` stores 1000 metrics for each host instead of ten. `dead=30x1000000` stores a
//! million names, which have no later values, on each of the 30 days before. Other arguments are
//! patterns to query.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::{ByteSize, GIB, MIB};
use sandur_engine::{Engine, EngineOptions, MaintenanceOptions};
use sandur_graphite::{Pattern, Source, StorageRules, StoredOptions, StoredSeries};
use sandur_memory::MemoryBudget;
use sandur_model::{SampleBatch, TenantId, graphite_path_labels};
use sandur_query::QueryContext;
use sandur_runtime::Env;
use sandur_store::{Store, StoreOptions};

type Failed = Box<dyn std::error::Error>;

/// 2026-11-20 10:00 UTC, in seconds.
const NOW: i64 = 1_795_168_800;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// Number of names in a push.
const BATCH: u64 = 50_000;
/// The names of the first metrics of each host.
const METRICS: [&str; 10] = [
    "cpu.idle",
    "cpu.user",
    "cpu.system",
    "mem.free",
    "mem.used",
    "disk.read",
    "disk.write",
    "net.in",
    "net.out",
    "load.one",
];
/// The default patterns: anchored ones and others.
const PATTERNS: [&str; 7] = [
    "*",
    "*.*",
    "site3.rack7.*",
    "site3.rack3.host0000033.*",
    "site3.rack3.*.cpu.idle",
    "site3.*.*.cpu.idle",
    "*.*.*.cpu.idle",
];
/// Number of queries of each pattern.
const ROUNDS: usize = 50;

/// What to store and which patterns to query.
struct Plan {
    names: u64,
    /// Metrics of each host.
    metrics: u64,
    dead_days: i64,
    /// Names on each of these days.
    dead_names: u64,
    patterns: Vec<String>,
}

impl Plan {
    fn of(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let usage = "usage: graphite_find NAMES [metrics=N] [dead=DAYSxNAMES] [PATTERN...]";
        let names = arguments.next().ok_or(usage)?.parse()?;
        let mut plan = Self { names, metrics: 10, dead_days: 0, dead_names: 0, patterns: Vec::new() };
        for argument in arguments {
            match argument.split_once('=') {
                Some(("metrics", metrics)) => plan.metrics = metrics.parse()?,
                Some(("dead", dead)) => {
                    let (days, names) = dead.split_once('x').ok_or(usage)?;
                    (plan.dead_days, plan.dead_names) = (days.parse()?, names.parse()?);
                }
                _ => plan.patterns.push(argument),
            }
        }
        if plan.patterns.is_empty() {
            plan.patterns = PATTERNS.map(str::to_owned).to_vec();
        }
        Ok(plan)
    }

    /// Returns the name with a number. Hosts are distributed round-robin over the sites, and over the
    /// racks of each site.
    fn name(&self, number: u64) -> String {
        let (metric, host) = (number % self.metrics, number / self.metrics);
        let place = format!("site{}.rack{}.host{host:07}", host % 10, host / 10 % 100);
        match METRICS.get(metric as usize) {
            Some(metric) => format!("{place}.{metric}"),
            None => format!("{place}.group{:02}.metric{}", metric / 10, metric % 10),
        }
    }
}

fn main() -> Result<(), Failed> {
    let plan = Plan::of(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(&plan))
}

async fn run(plan: &Plan) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let env = Env::system(2);
    let url = directory.path().display().to_string();
    let store = Store::open(&url, env.clone(), StoreOptions::default()).await?;
    // No merge or flush starts by itself during the measurement.
    let maintenance = MaintenanceOptions { interval: Duration::from_secs(86_400), ..Default::default() };
    let (flush_bytes, flush_age) = (64 * GIB, Duration::from_secs(86_400));
    let write_budget = MemoryBudget::root("writes", 16 * GIB);
    let options = EngineOptions { maintenance, flush_bytes, flush_age, write_budget, ..Default::default() };
    let engine = Engine::open(store, env, options).await?;
    for day in 1..=plan.dead_days {
        // Each day has other hosts.
        let first = plan.names + plan.dead_names * day as u64;
        push(&engine, plan, first..first + plan.dead_names, NOW - day * DAY).await?;
        engine.flush().await?;
    }
    for hours in [3, 1] {
        push(&engine, plan, 0..plan.names, NOW - hours * HOUR).await?;
        engine.flush().await?;
        ask_all(&engine, plan, &format!("blocks up to {hours} h ago")).await?;
    }
    push(&engine, plan, 0..plan.names, NOW).await?;
    ask_all(&engine, plan, "blocks and head").await?;
    Ok(())
}

async fn push(engine: &Engine, plan: &Plan, numbers: Range<u64>, time: i64) -> Result<(), Failed> {
    let began = engine.env().monotonic();
    for first in numbers.clone().step_by(BATCH as usize) {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for number in first..numbers.end.min(first + BATCH) {
            batch.push(Arc::new(graphite_path_labels(&plan.name(number))?), [(time * 1_000, 1.0)]);
        }
        engine.push(batch).await?;
    }
    let (names, took) = (numbers.end - numbers.start, engine.env().monotonic() - began);
    println!("pushed {names} names in {took:.1?}");
    Ok(())
}

async fn ask_all(engine: &Arc<Engine>, plan: &Plan, place: &str) -> Result<(), Failed> {
    for pattern in &plan.patterns {
        ask(engine, place, pattern).await?;
    }
    Ok(())
}

async fn ask(engine: &Arc<Engine>, place: &str, pattern: &str) -> Result<(), Failed> {
    let sources = engine.sources();
    let parsed = Pattern::parse(pattern)?;
    let (mut times, mut found, mut peak) = (Vec::new(), 0, 0);
    for _ in 0..ROUNDS {
        let budget = MemoryBudget::root("query", 512 * MIB);
        let tenant = TenantId::default_tenant();
        let context = QueryContext::new(engine.env().clone(), tenant, budget, Duration::from_secs(600));
        let rules = Arc::new(StorageRules::default());
        let series = StoredSeries::new(&*sources.samples, rules, StoredOptions::default());
        let began = engine.env().monotonic();
        found = series.find(&context, &parsed, Some((NOW - 4 * HOUR, NOW))).await?.len();
        times.push(engine.env().monotonic() - began);
        peak = peak.max(context.budget().peak());
    }
    times.sort();
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!(
        "{place}: {pattern}: {found} found, median {median:.1?}, p99 {p99:.1?}, peak {}",
        ByteSize(peak)
    );
    Ok(())
}
