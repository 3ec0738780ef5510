//! One simulated process: an engine with its own client of the shared store.
//!
//! Killing a node drops the engine and all its tasks wherever they wait, as a loss of power does to a
//! process that stores everything in a bucket. A node that is cut off is a zombie: it runs, but its
//! requests fail until it is connected again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_base::units::MIB;
use sandur_catalog::{CatalogOptions, Hints};
use sandur_engine::{DeleteOptions, Engine, EngineOptions, MaintenanceOptions, NodeOptions, Peers};
use sandur_memory::MemoryBudget;
use sandur_model::{
    GRAPHITE_MARK, HistogramSample, Labels, LogBatch, LogBatchBuilder, MatchOp, Matcher, SampleBatch, Signal,
    TenantId, TimeRange,
};
use sandur_query::{
    Columns, Error as QueryError, EveryRow, LogSource, MetadataSelection, Needles, Order, QueryContext,
    RowLook, RowSelector, SampleSelection, Samples, ScanItem, Selection, SeriesRequest,
};
use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

use crate::corrections::Instant;
use crate::fleet::Resident;
use crate::rolled::{self, FoundSeries};
use crate::row::{Content, Found, Row, batch_of, exemplar_row, help_row};

/// A running engine.
pub struct Node {
    /// The node's name in traces.
    pub name: String,
    /// The engine.
    pub engine: Arc<Engine>,
    client: FaultStore,
    env: Env,
}

/// Selects the rows of a stream, as a delete request does.
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

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn look(&self) -> Box<dyn RowLook + '_> {
        Box::new(EveryRow)
    }
}

fn compile(stream: &str) -> Result<Arc<dyn RowSelector>, QueryError> {
    let matcher = Matcher::new("stream", MatchOp::Equal, stream);
    let matcher = matcher.map_err(|error| QueryError::Internal(error.to_string()))?;
    Ok(Arc::new(OfStream(vec![matcher], Needles::default())))
}

/// The shape of the blocks that the engines of a run write.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Blocks with at least this many raw bytes are not merged any more.
    pub block_max: u64,
    /// Whether thin slots and days share blocks, and flushes commit one block at a time. Otherwise each
    /// slot has a block of its own, and a flush is one commit.
    pub is_thin: bool,
}

impl Node {
    /// Starts an engine over a client of the shared store. Fails if the store fails.
    pub async fn start(name: String, env: &Env, world: &FaultStore, shape: Shape) -> Result<Self> {
        let mut options = options();
        // The processes of one place have one node: `node-PLACE-NUMBER`.
        options.node.id = name.rsplit_once('-').map_or(&*name, |(node, _)| node).to_owned();
        options.maintenance.compaction.block_raw_bytes_max = shape.block_max;
        if shape.is_thin {
            options.flush_commit_blocks = 1;
            options.maintenance.compaction.long_raw_bytes_max = LONG_BLOCK;
        } else {
            options.maintenance.compaction.thin_bytes = 0;
        }
        options.maintenance.rollups = Some(rolled::rules()?);
        options.maintenance.retention_change_delay = Duration::from_secs(20);
        Self::start_with(name, env, world, options).await
    }

    /// Starts a node of a fleet: with access to the network between the nodes, its address there, and a zone.
    pub async fn start_resident(
        name: String,
        env: &Env,
        world: &FaultStore,
        (resident, address, zone): (Arc<Resident>, String, String),
    ) -> Result<Self> {
        let mut options = options();
        options.node = NodeOptions { id: address.clone(), zone, ..NodeOptions::default() };
        options.address = address;
        options.peers = Some(Arc::clone(&resident) as Arc<dyn Peers>);
        options.hints = Some(resident as Arc<dyn Hints>);
        Self::start_with(name, env, world, options).await
    }

    /// Like [`Node::start`], with long intervals, so that hours of garbage collection need few simulated
    /// events.
    pub async fn start_slow(name: String, env: &Env, world: &FaultStore) -> Result<Self> {
        Self::start_with(name, env, world, slow_options()).await
    }

    async fn start_with(name: String, env: &Env, world: &FaultStore, options: EngineOptions) -> Result<Self> {
        let client = world.client(&name);
        let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
        let engine = Engine::open(store, env.clone(), options).await?;
        Ok(Self { name, engine, client, env: env.clone() })
    }

    /// Starts an engine on a directory.
    pub async fn start_in(name: String, env: &Env, directory: &Path) -> Result<Self> {
        let url = directory.display().to_string();
        let store = Store::open(&url, env.clone(), StoreOptions::default()).await?;
        let engine = Engine::open(store, env.clone(), slow_options()).await?;
        let client = FaultStore::new(env.clone(), 0, FaultPlan::none());
        Ok(Self { name, engine, client, env: env.clone() })
    }

    /// Disconnects the node from the store, or connects it again.
    pub fn cut(&self, is_cut: bool) {
        self.client.cut(is_cut);
    }

    /// Pushes rows of one stream or series.
    pub async fn push(&self, signal: Signal, stream: &str, rows: &[Row]) -> Result<()> {
        match signal {
            Signal::Logs => self.engine.push(batch(stream, rows)).await?,
            Signal::Metrics => self.engine.push(batch_of(stream, rows)).await?,
        };
        Ok(())
    }

    /// Returns every row of a signal that the node finds. Fails if the answer has a warning about
    /// missing data.
    pub async fn rows(&self, signal: Signal) -> Result<Vec<Found>> {
        let (rows, warning) = self.answer(signal).await?;
        match warning {
            Some(warning) => bail!("{} warns: {warning}", self.name),
            None => Ok(rows),
        }
    }

    /// Returns every row of a signal that the node finds, and ignores warnings about missing data.
    pub async fn rows_with_warnings(&self, signal: Signal) -> Result<Vec<Found>> {
        Ok(self.answer(signal).await?.0)
    }

    /// Returns every row of a signal that the node finds, and the first warning about missing data.
    pub async fn answer(&self, signal: Signal) -> Result<(Vec<Found>, Option<String>)> {
        let context = self.context();
        let rows = match signal {
            Signal::Logs => self.ask_lines(&context).await?,
            Signal::Metrics => self.ask_samples(&context).await?,
        };
        Ok((rows, context.warnings().first().map(ToString::to_string)))
    }

    /// Returns every sample, exemplar and help text.
    async fn ask_samples(&self, context: &QueryContext) -> Result<Vec<Found>> {
        let source = self.engine.sources().samples;
        let everything = SampleSelection::all(of_others()?, i64::MIN, i64::MAX);
        let mut scan = source.select(context, everything).await?;
        let mut rows = Vec::new();
        while let Some(batch) = scan.next().await? {
            for (series, samples) in batch.samples.iter().enumerate() {
                let stream = batch.pairs(series).find(|(name, _)| *name == "stream");
                add_samples(stream.map_or("", |(_, value)| value), samples, &mut rows);
            }
        }
        for of in source.exemplars(context, SeriesRequest::everything()).await?.series {
            rows.extend(of.exemplars.iter().map(|one| exemplar_row(&of.labels, one)));
        }
        let metadata = source.metadata(context, MetadataSelection::default()).await?;
        rows.extend(metadata.metrics.iter().map(help_row));
        Ok(rows.iter().map(Row::found).collect())
    }

    /// Pushes values of carbon metrics.
    pub async fn push_carbon(&self, values: &[(Instant, u64)]) -> Result<()> {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for ((path, ms), bits) in values {
            let labels = Arc::new(rolled::labels_of(path)?);
            batch.push(labels, [(*ms, f64::from_bits(*bits))]);
        }
        self.engine.push(batch).await?;
        Ok(())
    }

    /// Returns every value of carbon metrics that the node finds. Fails if the answer has a warning
    /// about missing data.
    pub async fn carbon(&self) -> Result<Vec<(Instant, u64)>> {
        let context = self.context();
        let everything = SampleSelection::all(vec![below("carbon")?], i64::MIN, i64::MAX);
        let mut scan = self.engine.sources().samples.select(&context, everything).await?;
        let mut values = Vec::new();
        while let Some(batch) = scan.next().await? {
            for (series, samples) in batch.samples.iter().enumerate() {
                let path = batch.pairs(series).find(|(name, _)| *name == "__name__");
                let path = path.map_or("", |(_, path)| path);
                let of_series = samples.times.iter().zip(&samples.values);
                values.extend(of_series.map(|(ms, value)| ((path.to_owned(), *ms), value.to_bits())));
            }
        }
        match context.warnings().first() {
            Some(warning) => bail!("{} warns: {warning}", self.name),
            None => Ok(values),
        }
    }

    /// Returns every point and rollup of an old day that the node finds. Fails if the answer has a
    /// warning about missing data.
    pub async fn old_points(&self) -> Result<Vec<FoundSeries>> {
        let context = self.context();
        let everything = SampleSelection::all(vec![rolled::matcher()?], i64::MIN, i64::MAX);
        let mut scan = self.engine.sources().samples.select(&context, everything).await?;
        let mut found = Vec::new();
        while let Some(batch) = scan.next().await? {
            for (series, samples) in batch.samples.iter().enumerate() {
                let labels = Labels::from_pairs(batch.pairs(series));
                let samples = samples.times.iter().copied().zip(samples.values.iter().copied()).collect();
                found.push(FoundSeries { labels, samples });
            }
        }
        match context.warnings().first() {
            Some(warning) => bail!("{} warns: {warning}", self.name),
            None => Ok(found),
        }
    }

    fn context(&self) -> QueryContext {
        let budget = MemoryBudget::root("simulated query", 64 * MIB);
        let tenant = TenantId::default_tenant();
        QueryContext::new(self.env.clone(), tenant, budget, Duration::from_secs(3_600))
    }

    async fn ask_lines(&self, context: &QueryContext) -> Result<Vec<Found>> {
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
        let lines = collect(&*source, context, selection).await?;
        Ok(lines.into_iter().map(|identity| Found { identity, text: String::new() }).collect())
    }
}

/// Matchers of series that are not Graphite's.
fn of_others() -> Result<Vec<Matcher>> {
    let without = |label: &str| Ok(Matcher::new(label, MatchOp::Equal, "")?);
    ["__g0__", GRAPHITE_MARK].into_iter().map(without).collect()
}

/// A matcher of series whose path begins with a node.
fn below(root: &str) -> Result<Matcher> {
    Ok(Matcher::new("__g0__", MatchOp::Equal, root)?)
}

/// Raw bytes at which blocks of several days are split.
const LONG_BLOCK: u64 = 2_000;

/// Small sizes and short intervals, so that a few simulated minutes have many flushes and merges.
fn options() -> EngineOptions {
    let mut maintenance = MaintenanceOptions {
        interval: Duration::from_secs(5),
        gc_interval: Duration::from_secs(30),
        orphan_interval: Duration::from_secs(300),
        ..MaintenanceOptions::default()
    };
    maintenance.compaction.hour_blocks_max = 4;
    // A low limit, so that merges leave blocks out.
    maintenance.compaction.inputs_max = 3;
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

/// Intervals of minutes instead of seconds, and a checkpoint after few entries.
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
        let ScanItem::Page(mut task) = item else { bail!("no counts were requested") };
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

/// Adds the samples of a series as rows.
fn add_samples(stream: &str, samples: &Samples, rows: &mut Vec<Row>) {
    let mut add = |ms: i64, content| {
        rows.push(Row { stream: stream.to_owned(), timestamp: ms * 1_000_000, content });
    };
    for (n, (ms, value)) in samples.times.iter().zip(&samples.values).enumerate() {
        let start = samples.starts.get(n).copied().unwrap_or(0);
        add(*ms, Content::Float { bits: value.to_bits(), start });
    }
    for (n, (ms, histogram)) in samples.histogram_times.iter().zip(&samples.histograms).enumerate() {
        let start = samples.histogram_starts.get(n).copied().unwrap_or(0);
        let (timestamp, histogram) = (*ms, Arc::clone(histogram));
        add(*ms, Content::Histogram(HistogramSample { timestamp, start, integer: false, histogram }));
    }
}

fn batch(stream: &str, rows: &[Row]) -> LogBatch {
    let labels = Arc::new(Labels::from_pairs([("job", "sim"), ("stream", stream)]));
    let mut batch = LogBatchBuilder::new(TenantId::default_tenant());
    for Row { timestamp, content, .. } in rows {
        if let Content::Line(line) = content {
            batch.row(&labels, *timestamp, line);
        }
    }
    batch.build()
}
