//! Measures time and memory of finding series among many in blocks: selections and label calls.
//!
//! `cargo run --release -p sandur-engine --example series_index -- write DIR 10 1000000` writes ten
//! blocks of a million distinct series each; `... -- read DIR` queries them in another process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::units::{ByteSize, MIB};
use sandur_engine::{Engine, EngineOptions, MaintenanceOptions};
use sandur_format::block::{BlockOrigin, compare_series};
use sandur_format::catalog_entry::{BlockMeta, Edit};
use sandur_format::sample_block::{BlockOptions, BlockWriter, Floats};
use sandur_memory::MemoryBudget;
use sandur_model::{Dataset, MatchOp, Matcher, TenantId, TimeRange};
use sandur_query::{QueryContext, SampleSelection, SeriesRequest};
use sandur_runtime::Env;
use sandur_store::{Intent, Store, StoreOptions};

type Failed = Box<dyn std::error::Error>;

/// 2026-11-20 10:00 UTC.
const START_MS: i64 = 1_795_168_800_000;
const HOUR_MS: i64 = 3_600_000;
/// Number of metrics of each container.
const METRICS: u64 = 5;
/// Bytes of memory of one query.
const BUDGET: u64 = 64 * MIB;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match words[..] {
        ["write", directory, blocks, series] => {
            runtime.block_on(write(directory, blocks.parse()?, series.parse()?))
        }
        ["read", directory] => runtime.block_on(read(directory)),
        _ => Err("usage: series_index write DIR BLOCKS SERIES | read DIR".into()),
    }
}

async fn open(directory: &str) -> Result<Arc<Engine>, Failed> {
    let env = Env::system(2);
    let store = Store::open(directory, env.clone(), StoreOptions::default()).await?;
    // No merges run during the measurement.
    let maintenance = MaintenanceOptions { interval: Duration::from_secs(86_400), ..Default::default() };
    Ok(Engine::open(store, env, EngineOptions { maintenance, ..Default::default() }).await?)
}

/// The labels of the series of a block, sorted by name.
fn labels(block: u64, series: u64, number: u64) -> [(&'static str, String); 8] {
    let per_metric = series.div_ceil(METRICS);
    let (metric, pod) = (number / per_metric, number % per_metric);
    let mixed = (pod.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) & 0xFFFF;
    [
        ("__name__", format!("container_metric_{metric:02}_total")),
        ("cluster", format!("cluster-{block:02}")),
        ("container", ["app", "sidecar", "init"][pod as usize % 3].to_owned()),
        ("instance", format!("10.{}.{}.{}:9100", block, pod / 7_500, pod / 30 % 250)),
        ("job", format!("job-{}", pod / 30 % 17)),
        ("namespace", format!("team-{:03}", pod % 101)),
        ("node", format!("node-{:05}", pod / 30)),
        ("pod", format!("service-{}-{mixed:04x}-{pod:06}", pod % 211)),
    ]
}

fn pairs<'a>(labels: &'a [(&'static str, String); 8]) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
    labels.iter().map(|(name, value)| (*name, value.as_str()))
}

fn block_of(block: u64, series: u64, meta: &mut BlockMeta, seen: BlockOrigin) -> Result<Bytes, Failed> {
    let mut options = BlockOptions::new(TenantId::default_tenant(), meta.window, meta.level);
    options.origin = seen;
    let mut sorted: Vec<_> = (0..series).map(|number| labels(block, series, number)).collect();
    sorted.sort_by(|a, b| compare_series(pairs(a), pairs(b)));
    let (mut writer, mut out) = (BlockWriter::new(options), Vec::new());
    let start_ms = meta.window.start / 1_000_000;
    let times = [start_ms, start_ms + 15_000];
    for labels in &sorted {
        let ordinal = writer.push_series(pairs(labels))?;
        writer.push_floats(ordinal, Floats { times: &times, values: &[1.0, 2.0], ..Floats::default() })?;
    }
    println!("block {block}: its index took {} until it was closed", ByteSize(writer.index_memory_bytes()));
    let summary = writer.finish(&mut out)?;
    (meta.min_ts, meta.max_ts, meta.rows) = (summary.min_ts, summary.max_ts, summary.rows);
    (meta.raw_bytes, meta.size, meta.streams) = (summary.raw_bytes, summary.size, summary.streams);
    (meta.pages, meta.footer_offset, meta.footer_len) =
        (summary.pages, summary.footer_offset, summary.footer_len);
    println!("block {block}: {}, footer {}", ByteSize(summary.size), ByteSize(summary.footer_len.into()));
    Ok(Bytes::from(out.concat()))
}

async fn write(directory: &str, blocks: u64, series: u64) -> Result<(), Failed> {
    let engine = open(directory).await?;
    for block in 0..blocks {
        let start = (START_MS + block as i64 * 2 * HOUR_MS) * 1_000_000;
        let mut meta = BlockMeta {
            id: engine.env().new_id(),
            writer: engine.incarnation(),
            dataset: Dataset::metrics(TenantId::default_tenant()),
            level: 2,
            window: TimeRange::new(start, start + 2 * HOUR_MS * 1_000_000),
            min_ts: 0,
            max_ts: 0,
            rows: 0,
            raw_bytes: 0,
            size: 0,
            streams: 0,
            pages: 0,
            footer_offset: 0,
            footer_len: 0,
            deletes_through: 0,
            place: 0,
        };
        let position = engine.catalog().snapshot().position();
        let seen = BlockOrigin { seen: position, ..BlockOrigin::default() };
        let bytes = block_of(block, series, &mut meta, seen)?;
        engine.store().put(&meta.path(), bytes, Intent::block()).await?;
        let edits = vec![Edit::AddBlock(meta)];
        engine.publish(engine.catalog().commit(engine.incarnation(), edits, vec![]).await?);
    }
    engine.shutdown().await?;
    Ok(())
}

fn matchers(all: &[(&str, MatchOp, &str)]) -> Result<Vec<Matcher>, Failed> {
    all.iter().map(|(name, op, value)| Ok(Matcher::new(*name, *op, *value)?)).collect()
}

fn resident() -> ByteSize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
    ByteSize(number.unwrap_or(0) * 1_024)
}

/// CPU time of all threads of the process, in steps of 10 ms. Other programs do not affect it.
fn computed() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

fn context(env: &Env) -> QueryContext {
    let budget = MemoryBudget::root("query", BUDGET);
    QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(600))
}

async fn read(directory: &str) -> Result<(), Failed> {
    use MatchOp::{Equal, NotEqual, NotRegex, Regex};
    let engine = open(directory).await?;
    println!("idle: {} resident", resident());
    let mut ten = [
        ("__name__", Regex, "container_metric_.*"),
        ("cluster", Regex, ".+"),
        ("container", NotEqual, "nothing"),
        ("instance", Regex, "10\\..*"),
        ("job", NotEqual, ""),
        ("namespace", NotRegex, "kube-.*x"),
        ("node", Regex, "node-[0-9]+"),
        ("pod", NotEqual, ""),
        ("pod", Regex, "service-.*"),
        ("pod", NotRegex, ".*zz"),
    ];
    let all = matchers(&ten)?;
    (ten[2], ten[5]) = (("container", NotEqual, "app"), ("namespace", Regex, "team-[0-9]*[02468]"));
    let some = matchers(&ten)?;
    let one = [
        ("__name__", Equal, "container_metric_03_total"),
        ("cluster", Equal, "cluster-03"),
        ("job", Equal, "job-3"),
        ("pod", Regex, "service-1.*"),
    ];
    for round in ["first", "again"] {
        selection(&engine, &format!("ten matchers that pass all, {round}"), all.clone()).await?;
        selection(&engine, &format!("ten matchers that pass some, {round}"), some.clone()).await?;
        selection(&engine, &format!("one metric, cluster and job, {round}"), matchers(&one)?).await?;
        let cluster = matchers(&[("cluster", Equal, "cluster-03")])?;
        values(&engine, &format!("values of pod of one cluster, {round}"), "pod", cluster).await?;
        values(&engine, &format!("values of pod, {round}"), "pod", Vec::new()).await?;
        values(&engine, &format!("values of job, {round}"), "job", Vec::new()).await?;
    }
    Ok(())
}

/// Prints the time until the series are known, and until the first batch of them is read.
async fn selection(engine: &Engine, what: &str, matchers: Vec<Matcher>) -> Result<(), Failed> {
    let (context, began, before) = (context(engine.env()), engine.env().monotonic(), computed());
    let selection = SampleSelection::all(matchers, START_MS - HOUR_MS, START_MS + 1_000 * HOUR_MS);
    let sources = engine.sources();
    let mut scan = sources.samples.select(&context, selection).await?;
    let (opened, peak) = (engine.env().monotonic() - began, context.budget().peak());
    let computed = computed() - before;
    let series = scan.next().await?.map_or(0, |batch| batch.labels.len());
    println!(
        "{what}: {opened:.0?} ({computed:.0?} computed), peak {} of the budget, {} resident; with {series} \
         series {:.0?}; {} requests",
        ByteSize(peak),
        resident(),
        engine.env().monotonic() - began,
        context.stats().snapshot().store_requests
    );
    Ok(())
}

async fn values(engine: &Engine, what: &str, name: &str, matchers: Vec<Matcher>) -> Result<(), Failed> {
    let (context, began, before) = (context(engine.env()), engine.env().monotonic(), computed());
    let sources = engine.sources();
    let mut scan =
        sources.samples.texts(&context, SeriesRequest::new(matchers, TimeRange::ALL).values(name)).await?;
    let mut found = 0;
    while let Some(batch) = scan.next().await? {
        found += batch.len();
    }
    println!(
        "{what}: {found} in {:.0?} ({:.0?} computed), peak {} of the budget, {} resident",
        engine.env().monotonic() - began,
        computed() - before,
        ByteSize(context.budget().peak()),
        resident()
    );
    Ok(())
}
