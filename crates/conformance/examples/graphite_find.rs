//! What it costs to find nodes among many paths of Graphite's, in blocks and in memory.
//!
//! `cargo run --release -p sandur-conformance --example graphite_find -- 1000000` stores so many names in two
//! blocks and in the head, and as many others a month before, then asks each pattern many times: about the
//! last four hours, in which those of the month before have no values.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::{ByteSize, GIB, MIB};
use sandur_base::{Env, MemoryBudget};
use sandur_engine::{Engine, EngineOptions, MaintenanceOptions};
use sandur_graphite::{Pattern, Source, StorageRules, StoredOptions, StoredSeries};
use sandur_model::{SampleBatch, TenantId, graphite_path_labels};
use sandur_query::QueryContext;
use sandur_store::{Store, StoreOptions};

type Failed = Box<dyn std::error::Error>;

/// 2026-11-20 10:00 UTC, in seconds.
const NOW: i64 = 1_795_168_800;
const HOUR: i64 = 3_600;
const MONTH: i64 = 30 * 24 * HOUR;
/// Names of a push.
const BATCH: u64 = 50_000;
/// Metrics of each host.
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
/// What is asked where nothing else is named: anchored patterns and others.
const PATTERNS: [&str; 7] = [
    "*",
    "*.*",
    "site3.rack7.*",
    "site3.rack3.host0000033.*",
    "site3.rack3.*.cpu.idle",
    "site3.*.*.cpu.idle",
    "*.*.*.cpu.idle",
];
/// How often each pattern is asked.
const ROUNDS: usize = 50;

fn main() -> Result<(), Failed> {
    let names = std::env::args().nth(1).ok_or("usage: graphite_find NAMES [PATTERN...]")?.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(names))
}

async fn run(names: u64) -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let env = Env::system(2);
    let url = directory.path().display().to_string();
    let store = Store::open(&url, env.clone(), StoreOptions::default()).await?;
    // Nothing is merged or flushed by itself while it is measured.
    let maintenance = MaintenanceOptions { interval: Duration::from_secs(86_400), ..Default::default() };
    let (flush_bytes, flush_age) = (64 * GIB, Duration::from_secs(86_400));
    let write_budget = MemoryBudget::root("writes", 16 * GIB);
    let options = EngineOptions { maintenance, flush_bytes, flush_age, write_budget, ..Default::default() };
    let engine = Engine::open(store, env, options).await?;
    push(&engine, names, "gone", NOW - MONTH).await?;
    engine.flush().await?;
    for hours in [3, 1] {
        push(&engine, names, "site", NOW - hours * HOUR).await?;
        engine.flush().await?;
        ask_all(&engine, &format!("blocks up to {hours} h ago")).await?;
    }
    push(&engine, names, "site", NOW).await?;
    ask_all(&engine, "blocks and head").await?;
    Ok(())
}

async fn push(engine: &Engine, names: u64, root: &str, time: i64) -> Result<(), Failed> {
    let mut number = 0;
    while number < names {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in number..names.min(number + BATCH) {
            let (metric, host) = (METRICS[(n % 10) as usize], n / 10);
            let path = format!("{root}{}.rack{}.host{host:07}.{metric}", host % 10, host / 10 % 100);
            batch.push(Arc::new(graphite_path_labels(&path)?), [(time * 1_000, 1.0)]);
        }
        engine.push(batch).await?;
        number += BATCH;
    }
    Ok(())
}

async fn ask_all(engine: &Arc<Engine>, place: &str) -> Result<(), Failed> {
    let asked: Vec<String> = std::env::args().skip(2).collect();
    let patterns = asked.iter().map(String::as_str);
    for pattern in patterns.chain(PATTERNS.into_iter().filter(|_| asked.is_empty())) {
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
