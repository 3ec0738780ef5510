//! The stores to be damaged. Running engines make them once; it is recorded which object contains which
//! rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use sandur_catalog::{Catalog, Snapshot};
use sandur_format::log_block::Wanted;
use sandur_format::sample_block::{SamplePage, WholeSeries};
use sandur_format::wal_segment::FrameReader;
use sandur_format::{BlockFooter, sample_block};
use sandur_model::{Batch, HistogramSample, Signal};
use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Intent, Store, StoreOptions};

use crate::node::Node;
use crate::row::{Content, Found, Row, exemplar_row, help_row, rows_of, some_content};

/// The start of simulated time: 2026-11-21 00:00 UTC.
const START_NS: i64 = 1_795_219_200_000_000_000;

/// How often opening a directory is retried that a killed node may still lock.
const TRIES: u32 = 500;

/// The objects of a store by path.
pub(crate) type Objects = BTreeMap<String, Bytes>;

/// How the processes of a base end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// All processes stop cleanly.
    Stopped,
    /// They are killed, with rows in the WAL.
    Killed,
    /// They are killed, with rows in the WAL of a directory.
    KilledInDirectory,
    /// Two processes that wrote to one bucket at the same time stop cleanly one after the other.
    TwoStopped,
    /// Two processes that wrote at the same time are killed, with rows in both WALs.
    TwoKilled,
}

impl End {
    fn is_of_two(self) -> bool {
        matches!(self, Self::TwoStopped | Self::TwoKilled)
    }
}

/// A store to be damaged.
pub(crate) struct Base {
    /// The name, for messages.
    pub name: String,
    /// Its objects.
    pub objects: Objects,
    /// Its objects at an earlier time.
    pub yesterday: Objects,
    /// Every acknowledged row, and the live objects that contain it.
    pub rows: BTreeMap<Found, BTreeSet<String>>,
    /// The time at its end.
    pub ended_ns: i64,
    /// How many processes open a copy of it at the same time.
    pub nodes: usize,
}

impl Base {
    /// Makes one store of each kind.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let mut bases = Vec::new();
        for (seed, end) in [
            (1, End::Stopped),
            (2, End::Killed),
            (3, End::KilledInDirectory),
            (4, End::Stopped),
            (5, End::Killed),
            (6, End::TwoStopped),
            (7, End::TwoKilled),
        ] {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().start_paused(end != End::KilledInDirectory);
            let base = builder.build()?.block_on(Self::make(seed, end));
            bases.push(base.with_context(|| format!("base {seed}, {end:?}"))?);
        }
        Ok(bases)
    }

    async fn make(seed: u64, end: End) -> Result<Self> {
        let mut maker = Maker::new(seed, end)?;
        maker.work().await?;
        let objects = copy(&maker.store("copy").await?).await?;
        let ended_ns = maker.env.now_ns();
        let Maker { written, yesterday, .. } = maker;
        // Rows are read back from a copy, so that they do not depend on the engines that wrote them.
        let rows = locate(&objects, seed, ended_ns).await?;
        for row in &written {
            ensure!(rows.contains_key(row), "the acknowledged row {row:?} is not in any object");
        }
        let writer = |path: &String| Some(path.strip_prefix("wal/")?.split('/').next()?.to_owned());
        let writers: BTreeSet<_> = rows.values().flatten().filter_map(writer).collect();
        ensure!(end != End::TwoKilled || writers.len() == 2, "rows in the WAL of {writers:?}, not of two");
        let nodes = 1 + usize::from(end.is_of_two());
        Ok(Self { name: format!("base {seed} ({end:?})"), objects, yesterday, rows, ended_ns, nodes })
    }
}

struct Maker {
    env: Env,
    end: End,
    world: FaultStore,
    directory: tempfile::TempDir,
    written: Vec<Found>,
    yesterday: Objects,
}

impl Maker {
    fn new(seed: u64, end: End) -> Result<Self> {
        let env = match end {
            End::KilledInDirectory => Env::system(1),
            _ => Env::simulated(seed, START_NS),
        };
        let plan = FaultPlan { latency_median: Duration::from_millis(5), ..FaultPlan::none() };
        let world = FaultStore::new(env.clone(), seed, plan);
        let directory = tempfile::tempdir()?;
        Ok(Self { env, end, world, directory, written: Vec::new(), yesterday: Objects::new() })
    }

    async fn store(&self, name: &str) -> Result<Store> {
        if self.end == End::KilledInDirectory {
            let url = self.directory.path().display().to_string();
            let options = StoreOptions {
                access: sandur_store::Access::ReadOnly,
                probe: false,
                ..StoreOptions::default()
            };
            return Ok(Store::open(&url, self.env.clone(), options).await?);
        }
        let client = Arc::new(self.world.client(name));
        Ok(Store::from_object_store(client, self.env.clone(), StoreOptions::default()))
    }

    async fn node(&self, name: &str) -> Result<Node> {
        match self.end {
            End::KilledInDirectory => self.node_in_directory(name).await,
            _ => Node::start_slow(name.to_owned(), &self.env, &self.world).await,
        }
    }

    /// The tasks of a killed node lock the directory until they have ended.
    async fn node_in_directory(&self, name: &str) -> Result<Node> {
        let mut tries = 0;
        loop {
            match Node::start_in(name.to_owned(), &self.env, self.directory.path()).await {
                Err(_) if tries < TRIES => self.env.sleep(Duration::from_millis(20)).await,
                outcome => return outcome,
            }
            tries += 1;
        }
    }

    async fn push(&mut self, node: &Node, count: usize) -> Result<()> {
        let stream = format!("s{}", self.env.random_below(3));
        for signal in Signal::ALL {
            let first = self.written.len();
            let row = |n: usize| {
                // Two samples of a series must not have the same time: the second would be refused.
                let timestamp = self.env.now_ns() + n as i64 * 1_000_000;
                let content = match signal {
                    Signal::Logs => Content::Line(format!("row {n} of {stream}, as it was acknowledged")),
                    Signal::Metrics => some_content(&self.env, timestamp.div_euclid(1_000_000), n as u64),
                };
                Row { stream: stream.clone(), timestamp, content }
            };
            let mut rows: Vec<Row> = (first..first + count).map(row).collect();
            if signal == Signal::Metrics {
                let content = Content::Help(format!("help {first}"));
                rows.push(Row { stream: format!("family_{first}"), timestamp: 0, content });
            }
            node.push(signal, &stream, &rows).await?;
            self.written.extend(rows.iter().map(Row::found));
        }
        Ok(())
    }

    /// Lets time pass for merges and checkpoints; there are none in a directory.
    async fn rest(&self, seconds: u64) {
        if self.end != End::KilledInDirectory {
            self.env.sleep(Duration::from_secs(seconds)).await;
        }
    }

    async fn work(&mut self) -> Result<()> {
        // A process that dies with rows in its WAL and is adopted.
        let first = self.node("first").await?;
        self.flushes(&first, 4).await?;
        self.push(&first, 6).await?;
        self.rest(2).await;
        drop(first);
        let mut nodes = vec![self.node("second").await?];
        if self.end.is_of_two() {
            nodes.push(self.node("third").await?);
        }
        self.rest(200).await;
        self.flushes_in_turn(&nodes, 6).await?;
        self.rest(700).await;
        self.yesterday = copy(&self.store("yesterday").await?).await?;
        self.flushes_in_turn(&nodes, 7).await?;
        for _ in 0..4 {
            for node in &nodes {
                self.push(node, 3).await?;
            }
            self.rest(2).await;
        }
        if matches!(self.end, End::Stopped | End::TwoStopped) {
            for node in &nodes {
                node.engine.shutdown().await?;
            }
        }
        self.rest(11).await;
        drop(nodes);
        Ok(())
    }

    async fn flushes(&mut self, node: &Node, count: usize) -> Result<()> {
        self.flushes_in_turn(std::slice::from_ref(node), count).await
    }

    /// Lets each node push, then each flush, `count` times.
    async fn flushes_in_turn(&mut self, nodes: &[Node], count: usize) -> Result<()> {
        for _ in 0..count {
            for node in nodes {
                self.push(node, 5).await?;
                self.push(node, 4).await?;
            }
            for node in nodes {
                node.engine.flush().await?;
            }
            self.rest(40).await;
        }
        Ok(())
    }
}

async fn copy(store: &Store) -> Result<Objects> {
    let mut objects = Objects::new();
    for below in ["blocks", "catalog", "members", "wal"] {
        for object in store.list(below, Intent::gc()).await? {
            let bytes = store.get(&object.path, Intent::gc()).await?;
            objects.insert(object.path, bytes);
        }
    }
    if let Some(object) = store.head("witness", Intent::gc()).await? {
        objects.insert(object.path, store.get("witness", Intent::gc()).await?);
    }
    Ok(objects)
}

/// Finds which live objects contain which rows: blocks that the catalog names, and WAL objects above the
/// floors.
async fn locate(objects: &Objects, seed: u64, now_ns: i64) -> Result<BTreeMap<Found, BTreeSet<String>>> {
    let env = Env::simulated(seed, now_ns);
    let world = FaultStore::new(env.clone(), seed, FaultPlan::none());
    let store = Store::from_object_store(Arc::new(world), env.clone(), StoreOptions::default());
    for (path, bytes) in objects {
        store.put(path, bytes.clone(), Intent::gc()).await?;
    }
    let snapshot = Catalog::open(store, env, Default::default()).await?.snapshot();
    let mut rows: BTreeMap<Found, BTreeSet<String>> = BTreeMap::new();
    for block in snapshot.all_blocks() {
        let path = block.path();
        let bytes = objects.get(&path).with_context(|| format!("'{path}' is missing"))?;
        for line in rows_of_block(bytes)? {
            rows.entry(line).or_default().insert(path.clone());
        }
    }
    for (path, bytes) in objects.iter().filter(|(path, _)| path.starts_with("wal/")) {
        for line in rows_of_wal(&snapshot, bytes.clone())? {
            rows.entry(line).or_default().insert(path.clone());
        }
    }
    Ok(rows)
}

fn rows_of_block(bytes: &Bytes) -> Result<Vec<Found>> {
    let cut = |range: std::ops::Range<u64>| bytes.slice(range.start as usize..range.end as usize);
    let mut found = Vec::new();
    match BlockFooter::open(cut(BlockFooter::locate(bytes, bytes.len() as u64)?))? {
        BlockFooter::Logs(footer) => {
            for page in footer.pages() {
                let narrow = page.decode_narrow(&cut(page.narrow.range()), Wanted { metadata: true })?;
                let lines = page.decode_lines(&cut(page.lines.range()), &narrow.timestamps)?;
                found.extend((0..narrow.timestamps.len()).map(|row| line(lines.line(row))));
            }
        }
        BlockFooter::Metrics(footer) => {
            let mut rows = Vec::new();
            let series = sample_block::WholeSeries::of_object(bytes, &footer)?;
            for page in sample_block::pages_of_object(bytes)?.1 {
                add_page(&page, &series, &mut rows);
            }
            let (exemplars, metadata) = sample_block::annotations_of_object(bytes, &footer)?;
            for of in exemplars {
                rows.extend(of.exemplars.iter().map(|one| exemplar_row(&of.labels, one)));
            }
            rows.extend(metadata.iter().map(help_row));
            found.extend(rows.iter().map(Row::found));
        }
    }
    Ok(found)
}

/// The found row of a log entry.
fn line(line: &[u8]) -> Found {
    Found { identity: String::from_utf8_lossy(line).into_owned(), text: String::new() }
}

fn add_page(page: &SamplePage, series: &WholeSeries, rows: &mut Vec<Row>) {
    for run in &page.runs {
        let labels = series.labels(run.series);
        let stream = labels.get("stream").unwrap_or_default();
        for (row, ms) in run.rows().zip(run.times.iter()) {
            let start = page.starts.get(row).copied().unwrap_or(0);
            let content = match page.histograms.get(row) {
                Some(histogram) => Content::Histogram(HistogramSample {
                    timestamp: *ms,
                    start,
                    integer: page.integers.get(row).copied().unwrap_or(false),
                    histogram: Arc::clone(histogram),
                }),
                None => Content::Float { bits: page.values[row].to_bits(), start },
            };
            rows.push(Row { stream: stream.to_owned(), timestamp: ms * 1_000_000, content });
        }
    }
}

fn rows_of_wal(snapshot: &Snapshot, bytes: Bytes) -> Result<Vec<Found>> {
    let mut reader = FrameReader::new(bytes);
    let mut found = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        let id = frame.header().id;
        let writer = snapshot.writer(id.incarnation);
        if writer.is_none_or(|writer| writer.is_drained() || id.sequence < writer.floor) {
            continue;
        }
        for batch in &frame.batches()? {
            match batch {
                Batch::Logs(batch) => {
                    let entries = batch.streams.iter().flat_map(|stream| &stream.entries);
                    found.extend(entries.map(|entry| line(entry.line.of(&batch.arena.bytes))));
                }
                Batch::Metrics(batch) => found.extend(rows_of(batch).iter().map(Row::found)),
            }
        }
    }
    Ok(found)
}
