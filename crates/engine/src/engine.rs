//! The public interface of the engine: open, push, flush, query, delete, shut down.
//!
//! It connects the write half ([`crate::writing`]), the read half ([`crate::reading`]) and upkeep
//! ([`crate::upkeep`]), and contains no work of theirs.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::{ErrorKind, Id};
use sandur_cache::Cache;
use sandur_catalog::{Catalog, NodePhase, Snapshot};
use sandur_memory::Lender;
use sandur_model::{Batch, Dataset, RuleShards, SampleConflicts};
use sandur_query::Sources;
use sandur_runtime::{Env, Task};
use sandur_store::{Store, StoreKind};
use tokio::sync::{mpsc, oneshot};

use crate::blocks::bytes::BlockBytes;
use crate::blocks::cache::BlockCache;
use crate::blocks::reader::BlockReader;
use crate::cluster_report::{ClusterReport, OtherProcess, StoreUsage};
use crate::error::{Error, refused};
use crate::followed::WriterShown;
use crate::head::Head;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::options::EngineOptions;
use crate::peers::{AskedPeers, PeerFrames};
use crate::place::NodePlace;
use crate::readiness::log_changes;
use crate::reading::queries::Queries;
use crate::upkeep;
use crate::upkeep::adoption::{OtherWriters, WriterFollower};
use crate::upkeep::context::UpkeepContext;
use crate::upkeep::deletes::{DeleteRequests, DeleteStatus};
use crate::view::{View, floor_of};
use crate::writing::flush::outcome::Ending;
use crate::writing::flush::task as flush_task;
use crate::writing::rule_terms::{RuleLease, RuleTerms};
use crate::writing::supervisor::{publish_snapshots, stop_when_the_catalog_is_lost, supervise};
use crate::writing::writer::Writer;

/// The most flush requests that wait in the queue.
const FLUSH_QUEUE: usize = 16;
/// How long a stop tries to tell the others.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

/// An engine over one store. Dropping it without [`Engine::shutdown`] is equivalent to a crash: no
/// acknowledged row is lost.
pub struct Engine {
    node: Arc<Node>,
    queries: Queries,
    writer: Arc<Writer>,
    flush_requests: mpsc::Sender<flush_task::Request>,
    stage: tokio::sync::Mutex<Stage>,
    tasks: Mutex<Vec<Task<()>>>,
}

/// The stages of a shutdown. A later shutdown continues one that was given up in between.
enum Stage {
    /// The supervisor of the WAL still runs.
    Supervised(Task<Option<u64>>),
    /// The WAL is closed. Holds the number of its next segment, unless it ended with a failure.
    Closed(Option<u64>),
    /// Everything is flushed, the incarnation is sealed, and its heartbeat has ended.
    Left,
}

impl Engine {
    /// Opens the engine: registers a new incarnation, reads the WAL that earlier or other writers left,
    /// so that their rows can be queried, and starts the background tasks.
    pub async fn open(store: Store, env: Env, options: EngineOptions) -> Result<Arc<Self>, Error> {
        let local = matches!(store.kind(), StoreKind::Local { .. });
        let catalog = Catalog::open(store.clone(), env.clone(), options.catalog.clone()).await?;
        let peers = options.peers.clone().filter(|_| !local);
        let peers = peers.map(|peers| AskedPeers::new(catalog.clone(), options.address.clone(), peers));
        let merges = options.maintenance.compaction.block_raw_bytes_max > 0;
        let place = NodePlace::new(&options.node, merges);
        let node = Node::new(env.clone(), store, catalog, (place, peers));
        let reader = block_reader(&node, &options);
        let queries = Queries::new(&node, reader, &options);
        let maintenance = options.maintenance.clone();
        let writer = Writer::new(&node, &queries.reader, Arc::clone(&queries.followers), options, local);
        let committer = match writer.start_wal().await {
            Ok(committer) => Some(committer),
            // Stored data can be read all the same, and retention may free space.
            Err(error) if local && may_pass(&error) => {
                writer.refuse_pushes(error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        writer.observe_nodes();
        let freshness = queries.freshness.clone();
        let mut tasks = vec![
            env.spawn("view-publisher", publish_snapshots(Arc::clone(&writer))),
            env.spawn("catalog-guard", stop_when_the_catalog_is_lost(Arc::clone(&writer))),
            env.spawn("readiness-log", log_changes(Arc::clone(&writer), freshness)),
        ];
        let others = OtherWriters::new(&writer);
        let dead = others.recover().await?;
        tasks.push(env.spawn("recovery", Arc::clone(&others).flush_dead(dead)));
        if !local {
            let mut follower = WriterFollower::new(others);
            follower.start(&queries.freshness).await?;
            tasks.push(env.spawn("writer-follower", follower.run()));
        }
        let (flush_requests, requests) = mpsc::channel(FLUSH_QUEUE);
        tasks.push(env.spawn("flush", flush_task::run(Arc::clone(&writer), requests)));
        let context = UpkeepContext {
            node: Arc::clone(&node),
            author: writer.clone(),
            reader: queries.reader.for_upkeep(),
            rulebook: Arc::clone(&queries.rulebook),
            options: maintenance,
        };
        tasks.push(env.spawn("maintenance", upkeep::run(context, local)));
        let supervise = supervise(Arc::clone(&writer), committer);
        let stage = Stage::Supervised(env.spawn("wal-supervisor", supervise));
        let (tasks, stage) = (Mutex::new(tasks), tokio::sync::Mutex::new(stage));
        Ok(Arc::new(Self { node, queries, writer, flush_requests, stage, tasks }))
    }

    /// Stores a batch. Returns when it is durable and can be queried. Returns the samples that were not
    /// stored because their series has another value for the same instant in memory. After an error the
    /// batch may or may not be stored; sending it again is safe, because equal rows are stored once.
    pub async fn push(&self, batch: impl Into<Batch>) -> Result<SampleConflicts, Error> {
        self.push_holding(batch, ()).await
    }

    /// Like [`Engine::push`]. Drops `held`, the caller's memory for the batch, once the engine has
    /// reserved its own.
    pub async fn push_holding(
        &self,
        batch: impl Into<Batch>,
        held: impl Send,
    ) -> Result<SampleConflicts, Error> {
        self.writer.push(batch.into(), held).await
    }

    /// Like [`Engine::push`], but fails unless the batch is stored under this incarnation: a process that was
    /// fenced meanwhile stores nothing.
    pub async fn push_under(
        &self,
        incarnation: Id,
        batch: impl Into<Batch>,
    ) -> Result<SampleConflicts, Error> {
        self.writer.push_under(incarnation, batch.into()).await
    }

    /// What is known of the shards of rules that this process owns. Makes no request.
    pub fn rule_lease(&self) -> RuleLease {
        self.writer.rule_lease()
    }

    /// Who evaluates the shards of rules, as far as this process knows. Makes no request.
    pub fn rule_terms(&self) -> RuleTerms {
        self.writer.rule_terms()
    }

    /// Records that `incarnation`, which must be the current one of this process, evaluates exactly these
    /// shards of rules. Returns whether it does now: another process may own one of them.
    pub async fn own_rules(&self, incarnation: Id, shards: RuleShards) -> Result<bool, Error> {
        self.writer.own_rules(incarnation, shards).await
    }

    /// Reads the catalog to its end.
    pub async fn refresh_catalog(&self) -> Result<(), Error> {
        let snapshot = self.node.catalog.poll().await?;
        self.writer.publish(snapshot);
        Ok(())
    }

    fn delete_requests(&self) -> DeleteRequests<'_> {
        DeleteRequests { node: &self.node, author: &*self.writer, rulebook: &self.queries.rulebook }
    }

    /// Hides the lines that a query selects in a time range, both ends inclusive, and schedules their
    /// removal. When it returns, no query of this process shows them; other processes follow when they
    /// have read the catalog. Fails if the engine's compiler cannot read the query, or the compiled
    /// query is too large.
    pub async fn create_delete(
        &self,
        dataset: &Dataset,
        query: &str,
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Id, Error> {
        self.delete_requests().create(dataset, query, start_ms, end_ms).await
    }

    /// Whether a query looks at rows or names complete series. Fails if no request may have this query.
    pub async fn check_delete(&self, dataset: &Dataset, query: &str) -> Result<bool, Error> {
        self.delete_requests().check(dataset, query).await
    }

    /// Cancels a request: its lines are shown again, unless they were removed. A request that was
    /// started, or whose cancellation period is over, is cancelled only with `force`.
    pub async fn cancel_delete(&self, dataset: &Dataset, id: Id, force: bool) -> Result<(), Error> {
        self.delete_requests().cancel(dataset, id, force).await
    }

    /// The requests of a dataset from all processes, by id.
    pub async fn deletes(&self, dataset: &Dataset) -> Result<Vec<DeleteStatus>, Error> {
        self.delete_requests().list(dataset).await
    }

    /// Flushes everything that was acknowledged before the call, by this process or by earlier processes
    /// of this directory.
    pub async fn flush(&self) -> Result<(), Error> {
        let mut recovering = self.writer.recovering.subscribe();
        // The sender is in `writer`, which is alive.
        let _ = recovering.wait_for(|count| *count == 0).await;
        let (reply, outcome) = oneshot::channel();
        self.flush_requests.send(reply).await.map_err(|_| Error::ShuttingDown)?;
        outcome.await.map_err(|_| Error::ShuttingDown)?
    }

    /// How far the rows of each other writer of the bucket are known, and since when.
    pub fn followed_writers(&self) -> Vec<WriterShown> {
        self.node.followed.shown()
    }

    /// Returns the durable frames of this process's WAL from the number `from` on, for another process.
    /// Waits up to `wait` for the first one. `None` if `writer` is not the current incarnation, or if the
    /// frames are not in memory any more.
    pub async fn frames_for_peer(
        &self,
        writer: Id,
        from: u64,
        (wait, most_bytes): (Duration, u64),
    ) -> Option<PeerFrames> {
        let wal = self.writer.wal();
        if wal.incarnation() != writer {
            return None;
        }
        wal.recent().wait_for(&self.node.env, from, wait).await;
        let (frames, end) = wal.recent().from(from, most_bytes)?;
        Some(PeerFrames { catalog: self.node.catalog.snapshot().number(), end, frames })
    }

    /// Returns the pieces of a block that are in the cache, for another process: one for each range.
    pub async fn pieces_for_peer(&self, block: Id, ranges: &[Range<u64>]) -> Vec<Option<Bytes>> {
        self.queries.reader.bytes().for_peer(block, ranges).await
    }

    /// Returns the sources for queries over everything that the engine holds.
    pub fn sources(&self) -> Sources {
        self.queries.sources()
    }

    /// Returns what queries see now: a catalog snapshot and the heads that belong to it.
    pub fn view(&self) -> Arc<View> {
        self.node.views.current()
    }

    /// Makes a newer catalog snapshot visible at once. Snapshots that this process's catalog commits or
    /// reads become visible soon after without a call.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.writer.publish(snapshot);
    }

    /// The store that holds the data.
    pub fn store(&self) -> &Store {
        &self.node.store
    }

    /// Reports the requests to the store and their cost, with the part that the WAL causes, as text for
    /// users.
    pub fn store_report(&self) -> String {
        let report = self.node.store.cost_report();
        let (sentence, table) = report.split_once('\n').unwrap_or((&report, ""));
        format!("{sentence}\n{}{table}", self.writer.wal().cost_sentence())
    }

    /// The catalog of the store.
    pub fn catalog(&self) -> &Catalog {
        &self.node.catalog
    }

    /// The clock, the tasks and the CPU pool.
    pub fn env(&self) -> &Env {
        &self.node.env
    }

    /// The incarnation under which pushes are acknowledged. It changes when this process is fenced.
    pub fn incarnation(&self) -> Id {
        self.writer.incarnation()
    }

    /// The metrics of the write half, with current gauges.
    pub fn metrics(&self) -> &Metrics {
        let totals = self.view().head_totals();
        let metrics = &self.node.metrics;
        metrics.head_rows.set(totals.rows as i64);
        metrics.head_line_bytes.set(totals.raw_bytes as i64);
        metrics.writable.set(i64::from(self.writable().is_ok()));
        metrics.view_age_seconds.set(self.queries.freshness.age().as_secs_f64());
        metrics.followed_lagging.set(self.queries.freshness.lagging() as i64);
        metrics.flush_failing_seconds.set(self.flushes_fail_for().unwrap_or_default().as_secs() as i64);
        metrics.unflushed_seconds.set(self.oldest_row_waits_for().as_secs() as i64);
        metrics.heads.set(self.view().heads.len() as i64);
        let cache = self.queries.reader.cache();
        let (hits, misses) = cache.hits_and_misses();
        metrics.cache_bytes.set(cache.bytes() as i64);
        // The cache keeps these counts; copy them.
        metrics.cache_hits.inner().store(hits, Ordering::Relaxed);
        metrics.cache_misses.inner().store(misses, Ordering::Relaxed);
        metrics
    }

    /// Fails while no push can be acknowledged, with the reason. Decides readiness for writes.
    pub fn writable(&self) -> Result<(), Error> {
        self.expect_open()?;
        self.writer.acknowledges()
    }

    /// Fails and counts a failed push if a push would be refused at once. Call it before expensive work
    /// on a push.
    pub fn admits_pushes(&self) -> Result<(), Error> {
        let admitted = self.expect_open().and_then(|()| self.writer.admits_pushes());
        admitted.inspect_err(|_| {
            self.node.metrics.pushes_failed.inc();
        })
    }

    /// Fails while the view of other processes' rows is too old. Decides readiness for reads.
    pub fn has_fresh_view(&self) -> Result<(), Error> {
        self.queries.freshness.check()
    }

    fn expect_open(&self) -> Result<(), Error> {
        if self.writer.is_closing() { Err(Error::ShuttingDown) } else { Ok(()) }
    }

    /// How long flushes have been failing; `None` if the last one succeeded. Pushes are accepted until
    /// the memory for rows is full.
    pub fn flushes_fail_for(&self) -> Option<Duration> {
        self.writer.flush_signal.failing_for(self.node.env.monotonic())
    }

    /// The age of the oldest head of this process that has rows.
    fn oldest_row_waits_for(&self) -> Duration {
        let heads = self.node.views.heads_of(self.writer.incarnation());
        let born = heads.iter().filter(|head| !head.is_empty()).map(|head| head.born()).min();
        born.map_or(Duration::ZERO, |born| self.node.env.monotonic().saturating_sub(born))
    }

    /// The id of this node, as others know it.
    pub fn node_id(&self) -> String {
        self.writer.node_id()
    }

    /// Describes the nodes that share the store, as this process sees them.
    pub async fn report_nodes(&self) -> ClusterReport {
        self.writer.report_nodes().await
    }

    /// The requests to the store that this process has sent.
    pub fn store_usage(&self) -> StoreUsage {
        let store = &self.node.store;
        StoreUsage {
            requests: store.meter().snapshot().iter().map(|usage| usage.requests).sum(),
            dollars: store.meter().dollars(),
            dollars_per_month: store.dollars_per_month(),
        }
    }

    /// The processes of the store that a call can reach: registered, not sealed, not known to have ended,
    /// and not this one.
    pub fn other_processes(&self) -> Vec<OtherProcess> {
        self.writer.other_processes()
    }

    /// Whether this node drains: others have taken over its work, and it waits to be stopped.
    pub fn is_draining(&self) -> bool {
        self.node.place.phase() == NodePhase::Draining
    }

    /// Marks this node as draining, or as serving again: other nodes take over its work at once. It keeps
    /// taking pushes and answering queries until it is stopped.
    pub async fn drain(&self, leaves: bool) -> Result<(), Error> {
        let phase = if leaves { NodePhase::Draining } else { NodePhase::Serving };
        self.writer.enter_phase(phase).await?;
        if leaves { self.flush().await } else { Ok(()) }
    }

    /// Marks another node as draining, or as serving again; it flushes by itself. Returns whether a live
    /// node has this id.
    pub async fn drain_node(&self, id: &str, leaves: bool) -> Result<bool, Error> {
        let phase = if leaves { NodePhase::Draining } else { NodePhase::Serving };
        let snapshot = self.node.catalog.refresh().await?;
        let is_meant = |writer: &&sandur_catalog::Writer| {
            !writer.is_sealed() && writer.node.as_ref().is_some_and(|node| node.id == id)
        };
        // The newest process of the node.
        let Some(of) = snapshot.writers().values().rfind(is_meant) else { return Ok(false) };
        let set = self.node.catalog.set_phase(self.writer.incarnation(), of.incarnation, phase).await;
        set.map_err(|error| refused("the phase of a node", &error))
    }

    /// Accepts no more pushes, settles the waiting ones, flushes everything, seals the incarnation, so
    /// that the next start has nothing to adopt, and ends all tasks. If the timeout expires first, the
    /// remaining rows stay in the WAL, and the error says so.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.writer.close();
        let patience = self.writer.options.shutdown_timeout;
        let finished = self.node.env.timeout(patience, Box::pin(self.finish())).await;
        if let Ok(stage) = self.stage.try_lock()
            && let Stage::Supervised(supervisor) = &*stage
        {
            supervisor.abort();
        }
        self.node.shutdown.trigger();
        self.queries.followers.close();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            task.abort();
            // The task was aborted on purpose.
            let _ = task.join().await;
        }
        finished.unwrap_or_else(|| {
            let reason = "not everything was flushed; the rest is in the WAL and is read at the next start";
            Err(Error::AckTimeout { waited: patience, reason: reason.to_owned() })
        })
    }

    async fn finish(&self) -> Result<(), Error> {
        let mut stage = self.stage.lock().await;
        if let Stage::Supervised(supervisor) = &mut *stage {
            let ended = supervisor.ended().await;
            *stage = Stage::Closed(ended.as_ref().ok().copied().flatten());
            ended.map_err(|error| Error::Internal(error.to_string()))?;
        }
        let Stage::Closed(next) = *stage else { return Ok(()) };
        // Only a hint for others: a store that is slow must not take the time of the flush.
        let left = self.node.env.timeout(LEAVE_PATIENCE, Box::pin(self.writer.leave_place())).await;
        if let Some(Err(error)) = left {
            tracing::warn!(%error, "other nodes do not know yet that this one stops");
        }
        if !self.writer.is_registered() {
            // This process acknowledged nothing, and nothing can be written.
            return Err(self.writer.wal().status().end_reason());
        }
        self.flush().await?;
        let Some(next) = next else { return Err(self.writer.wal().status().end_reason()) };
        let (node, writer) = (&self.node, &self.writer);
        let wal = writer.wal();
        let floor = floor_of(&node.views.current().snapshot, wal.incarnation());
        if floor <= next {
            let rest = Arc::new(Head::new(wal.incarnation(), floor, node.env.monotonic()));
            rest.advance(next);
            Box::pin(writer.flush_head(&rest, Ending::Sealed { fence: next })).await?;
        }
        wal.delete_below(floor, next).await;
        writer.membership.leave().await?;
        *stage = Stage::Left;
        Ok(())
    }
}

/// The parts that tests of this crate look into.
#[cfg(test)]
impl Engine {
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn queries(&self) -> &Queries {
        &self.queries
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn upkeep(&self) -> UpkeepContext {
        UpkeepContext {
            node: Arc::clone(&self.node),
            author: self.writer.clone(),
            reader: self.queries.reader.clone(),
            rulebook: Arc::clone(&self.queries.rulebook),
            options: self.writer.options.maintenance.clone(),
        }
    }
}

/// Whether a registration failed because the disk is full or read-only, which may change.
fn may_pass(error: &Error) -> bool {
    let is_lost = matches!(error, Error::CatalogLost { .. });
    !is_lost && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied)
}

/// The reader of stored blocks, through the cache of the options or one of its own.
fn block_reader(node: &Node, options: &EngineOptions) -> BlockReader {
    let env = &node.env;
    let cache = options.cache.clone().unwrap_or_else(|| Cache::in_memory(env, options.cache_bytes));
    let bytes = BlockBytes::new(env.clone(), node.store.clone(), cache).asking(node.peers.clone());
    let decoded = Arc::new(BlockCache::new(bytes.cache().clone()));
    if let Some(pool) = &options.pool {
        pool.lend_to(Arc::clone(&decoded) as Arc<dyn Lender>);
    }
    BlockReader::new(env.clone(), bytes, decoded)
}

impl Drop for Engine {
    /// Closes the queue, so that no push waits for a committer that has ended.
    fn drop(&mut self) {
        self.writer.wal().close();
    }
}
