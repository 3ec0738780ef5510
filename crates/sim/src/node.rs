//! One simulated process: an engine over its own client of the shared store.
//!
//! Killing a node drops the engine with all its tasks at whatever point they wait, which is what a
//! power cut does to a process that keeps nothing but a bucket. A cut node is a zombie: it lives, but
//! its requests go nowhere until it is connected again.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_base::units::MIB;
use sandur_base::{Env, MemoryBudget};
use sandur_catalog::CatalogOptions;
use sandur_engine::{DeleteOptions, Engine, EngineOptions, MaintenanceOptions};
use sandur_model::{
    Labels, LineColumn, LogBatch, LogBatchBuilder, LogPage, MatchOp, Matcher, SampleBatch, Signal, TenantId,
    TimeRange,
};
use sandur_query::{
    Columns, Error as QueryError, LogSource, Needles, Order, QueryContext, RowSelector, SampleSelection,
    ScanItem, Selection,
};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

/// A running engine.
pub struct Node {
    /// The node's name in traces.
    pub name: String,
    /// The engine.
    pub engine: Arc<Engine>,
    client: FaultStore,
    env: Env,
}

/// A row of a push.
pub struct WrittenRow {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// Its line; of a sample what [`sample_line`] makes of it.
    pub line: String,
    /// Its number: the value of a sample.
    pub number: u64,
}

/// A sample as a line.
pub fn sample_line(stream: &str, number: u64) -> String {
    format!("sample {number} of {stream}")
}

/// The rows of a stream, as a delete request names them.
struct OfStream(Vec<Matcher>, Needles);

impl RowSelector for OfStream {
    fn matchers(&self) -> &[Matcher] {
        &self.0
    }

    fn looks_at_rows(&self) -> bool {
        false
    }

    fn needles(&self) -> &Needles {
        &self.1
    }

    fn select(&self, _: &LogPage, _: &LineColumn, _: usize, rows: Range<u32>, out: &mut Vec<u32>) {
        out.extend(rows);
    }
}

fn compile(stream: &str) -> Result<Arc<dyn RowSelector>, QueryError> {
    let matcher = Matcher::new("stream", MatchOp::Equal, stream);
    let matcher = matcher.map_err(|error| QueryError::Internal(error.to_string()))?;
    Ok(Arc::new(OfStream(vec![matcher], Needles::default())))
}

impl Node {
    /// Starts an engine over a client of the shared store; fails while the store fails.
    pub async fn start(name: String, env: &Env, world: &FaultStore) -> Result<Self> {
        Self::start_with(name, env, world, options()).await
    }

    /// As [`Node::start`], with long pauses, so that hours of garbage collection take little time.
    pub async fn start_slow(name: String, env: &Env, world: &FaultStore) -> Result<Self> {
        Self::start_with(name, env, world, slow_options()).await
    }

    async fn start_with(name: String, env: &Env, world: &FaultStore, options: EngineOptions) -> Result<Self> {
        let client = world.client(&name);
        let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
        let engine = Engine::open(store, env.clone(), options).await?;
        Ok(Self { name, engine, client, env: env.clone() })
    }

    /// Starts an engine in a directory.
    pub async fn start_in(name: String, env: &Env, directory: &Path) -> Result<Self> {
        let url = directory.display().to_string();
        let store = Store::open(&url, env.clone(), StoreOptions::default()).await?;
        let engine = Engine::open(store, env.clone(), slow_options()).await?;
        let client = FaultStore::new(env.clone(), 0, FaultPlan::none());
        Ok(Self { name, engine, client, env: env.clone() })
    }

    /// Cuts the node off from the store, or connects it again.
    pub fn cut(&self, is_cut: bool) {
        self.client.cut(is_cut);
    }

    /// Pushes rows of one stream or series.
    pub async fn push(&self, signal: Signal, stream: &str, rows: &[WrittenRow]) -> Result<()> {
        match signal {
            Signal::Logs => self.engine.push(batch(stream, rows)).await?,
            Signal::Metrics => self.engine.push(samples(stream, rows)).await?,
        }
        Ok(())
    }

    /// Every row of a signal that the node finds, as lines; fails when it says that something is missing.
    pub async fn rows(&self, signal: Signal) -> Result<Vec<String>> {
        let (rows, warning) = self.ask(signal).await?;
        match warning {
            Some(warning) => bail!("{} warns: {warning}", self.name),
            None => Ok(rows),
        }
    }

    /// Every row of a signal that the node finds, also when it says that something is missing.
    pub async fn rows_with_warnings(&self, signal: Signal) -> Result<Vec<String>> {
        Ok(self.ask(signal).await?.0)
    }

    async fn ask(&self, signal: Signal) -> Result<(Vec<String>, Option<String>)> {
        let context = self.context();
        let rows = match signal {
            Signal::Logs => self.ask_lines(&context).await?,
            Signal::Metrics => self.ask_samples(&context).await?,
        };
        Ok((rows, context.warnings().first().map(ToString::to_string)))
    }

    /// Every sample, as [`sample_line`] writes it.
    async fn ask_samples(&self, context: &QueryContext) -> Result<Vec<String>> {
        let everything = SampleSelection::all(Vec::new(), i64::MIN, i64::MAX);
        let mut scan = self.engine.sources().samples.select(context, everything).await?;
        let mut lines = Vec::new();
        while let Some(batch) = scan.next().await? {
            for (series, samples) in batch.samples.iter().enumerate() {
                let stream = batch.pairs(series).find(|(name, _)| *name == "stream");
                let stream = stream.map_or("", |(_, value)| value);
                lines.extend(samples.values.iter().map(|value| sample_line(stream, *value as u64)));
            }
        }
        Ok(lines)
    }

    fn context(&self) -> QueryContext {
        let budget = MemoryBudget::root("simulated query", 64 * MIB);
        let tenant = TenantId::default_tenant();
        QueryContext::new(self.env.clone(), tenant, budget, Duration::from_secs(3_600))
    }

    async fn ask_lines(&self, context: &QueryContext) -> Result<Vec<String>> {
        let source = self.engine.sources().logs;
        let selection = Selection {
            matchers: Vec::new(),
            range: TimeRange::ALL,
            order: Order::OldestFirst,
            needles: Needles::default(),
            columns: Columns { lines: true, metadata: true },
            counts: false,
            counts_by: Vec::new(),
        };
        collect(&*source, context, selection).await
    }
}

/// Small sizes and short times, so that a few simulated minutes see many flushes and merges.
fn options() -> EngineOptions {
    let mut maintenance = MaintenanceOptions {
        interval: Duration::from_secs(5),
        gc_interval: Duration::from_secs(30),
        orphan_interval: Duration::from_secs(300),
        ..MaintenanceOptions::default()
    };
    maintenance.compaction.hour_blocks_max = 4;
    maintenance.compaction.quiet = Duration::from_secs(10);
    maintenance.compaction.window_grace = Duration::from_secs(60);
    maintenance.gc.grace = Duration::from_secs(600);
    EngineOptions {
        write_budget: MemoryBudget::root("simulated writes", 64 * MIB),
        flush_bytes: 2_000,
        flush_age: Duration::from_secs(20),
        maintenance,
        deletes: DeleteOptions {
            cancel_period: Duration::from_secs(30),
            compile: Arc::new(compile),
            ..DeleteOptions::default()
        },
        ..EngineOptions::default()
    }
}

/// Pauses of minutes where there are seconds else, and checkpoints after few entries.
fn slow_options() -> EngineOptions {
    let mut slow = options();
    slow.flush_age = Duration::from_secs(3_600);
    slow.flush_bytes = 64 * MIB;
    slow.poll_interval = Duration::from_secs(10);
    slow.poll_idle_interval = Duration::from_secs(60);
    slow.maintenance.interval = Duration::from_secs(20);
    slow.maintenance.gc_interval = Duration::from_secs(120);
    slow.maintenance.orphan_interval = Duration::from_secs(600);
    slow.catalog = CatalogOptions { checkpoint_entries: 6, ..CatalogOptions::default() };
    slow
}

async fn collect(
    source: &dyn LogSource,
    context: &QueryContext,
    selection: Selection,
) -> Result<Vec<String>> {
    let mut scan = source.scan(context, selection).await?;
    let mut seen = std::collections::HashSet::new();
    let mut lines = Vec::new();
    while let Some(item) = scan.next().await? {
        let ScanItem::Page(mut task) = item else { bail!("counts were not asked for") };
        let page = task.narrow()?;
        if page.runs.is_empty() {
            continue;
        }
        let column = task.lines()?;
        for run in &page.runs {
            for row in run.start as usize..run.end as usize {
                let at = page.timestamps[row];
                let line = String::from_utf8_lossy(column.line(row)).into_owned();
                let suspect = run.suspect.is_some_and(|s| s.first <= at && at <= s.last);
                if !suspect || seen.insert((run.labels.to_string(), at, line.clone())) {
                    lines.push(line);
                }
            }
        }
    }
    Ok(lines)
}

fn samples(stream: &str, rows: &[WrittenRow]) -> SampleBatch {
    let labels = Arc::new(Labels::from_pairs([("__name__", "sim"), ("stream", stream)]));
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(labels, rows.iter().map(|row| (row.timestamp.div_euclid(1_000_000), row.number as f64)));
    batch
}

fn batch(stream: &str, rows: &[WrittenRow]) -> LogBatch {
    let labels = Arc::new(Labels::from_pairs([("job", "sim"), ("stream", stream)]));
    let mut batch = LogBatchBuilder::new(TenantId::default_tenant());
    rows.iter().for_each(|row| batch.row(&labels, row.timestamp, &row.line));
    batch.build()
}
