//! The public interface of the engine: open, flush, follow, shut down. Pushes are
//! in [`crate::writing::push`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_base::{Backoff, Env, ErrorKind, Id, Task};
use sandur_catalog::{Catalog, Snapshot};
use sandur_model::Matcher;
use sandur_query::{Follow, QueryContext, Sources};
use sandur_store::{Store, StoreKind};
use tokio::sync::{mpsc, oneshot};

use crate::blocks::reader::BlockReader;
use crate::error::Error;
use crate::head::Head;
use crate::logs::reading::EngineLogs;
use crate::metrics::Metrics;
use crate::options::EngineOptions;
use crate::samples::reading::EngineSamples;
use crate::upkeep;
use crate::upkeep::adoption::follow_writers::WriterFollower;
use crate::view::View;
use crate::writing::flush::outcome::Ending;
use crate::writing::flush::task as flush_task;
use crate::writing::readiness::log_changes;
use crate::writing::shared::Shared;
use crate::writing::wal::{End, Wal};

/// The most flush requests that wait in the queue.
const FLUSH_QUEUE: usize = 16;
/// How often an engine that cannot register checks whether it must stop.
const CLOSING_LOOK: Duration = Duration::from_millis(250);
/// The pauses between attempts to register a new incarnation.
const RESTARTS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// An engine over one store. Dropping it without [`Engine::shutdown`] is equivalent to a crash: no
/// acknowledged row is lost.
pub struct Engine {
    shared: Arc<Shared>,
    reader: BlockReader,
    flush_requests: mpsc::Sender<flush_task::Request>,
    stage: tokio::sync::Mutex<Stage>,
    closing: Arc<AtomicBool>,
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
        let shared = Shared::new(store, env.clone(), catalog, options, local);
        let committer = match shared.start_wal().await {
            Ok(committer) => Some(committer),
            // Stored data can be read all the same, and retention may free space.
            Err(error) if local && may_pass(&error) => {
                shared.refuse_pushes(error.to_string());
                None
            }
            Err(error) => return Err(error),
        };
        let mut tasks = vec![
            env.spawn("view-publisher", publish_snapshots(Arc::clone(&shared))),
            env.spawn("catalog-guard", stop_when_the_catalog_is_lost(Arc::clone(&shared))),
            env.spawn("readiness-log", log_changes(Arc::clone(&shared))),
        ];
        let dead = shared.recover().await?;
        tasks.push(env.spawn("recovery", Arc::clone(&shared).flush_dead(dead)));
        if !local {
            let mut follower = WriterFollower::new(Arc::clone(&shared));
            follower.tick().await?;
            tasks.push(env.spawn("writer-follower", follower.run()));
        }
        let (flush_requests, requests) = mpsc::channel(FLUSH_QUEUE);
        tasks.push(env.spawn("flush", flush_task::run(Arc::clone(&shared), requests)));
        let reader = shared.reader.clone();
        tasks.push(env.spawn("maintenance", upkeep::run(Arc::clone(&shared), reader.for_upkeep())));
        let closing = Arc::new(AtomicBool::new(false));
        let supervise = supervise(Arc::clone(&shared), committer, Arc::clone(&closing));
        let stage = Stage::Supervised(env.spawn("wal-supervisor", supervise));
        let (tasks, stage) = (Mutex::new(tasks), tokio::sync::Mutex::new(stage));
        Ok(Arc::new(Self { shared, reader, flush_requests, stage, closing, tasks }))
    }

    /// Flushes everything that was acknowledged before the call, by this process or by earlier processes
    /// of this directory.
    pub async fn flush(&self) -> Result<(), Error> {
        let mut recovering = self.shared.recovering.subscribe();
        // The sender is in `shared`, which is alive.
        let _ = recovering.wait_for(|count| *count == 0).await;
        let (reply, outcome) = oneshot::channel();
        self.flush_requests.send(reply).await.map_err(|_| Error::ShuttingDown)?;
        outcome.await.map_err(|_| Error::ShuttingDown)?
    }

    /// Follows new rows of matching streams from now on.
    pub fn follow(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
    ) -> Result<Box<dyn Follow>, sandur_query::Error> {
        self.shared.followers.follow(context, matchers)
    }

    /// Returns the sources for queries over everything that the engine holds.
    pub fn sources(&self) -> Sources {
        let (views, followers) = (&self.shared.views, Arc::clone(&self.shared.followers));
        let (reader, rulebook) = (&self.reader, &self.shared.rulebook);
        let freshness = &self.shared.freshness;
        let found = |views| (views, freshness.clone());
        let logs = EngineLogs::new(found(Arc::clone(views)), followers, reader.clone(), Arc::clone(rulebook));
        let samples = EngineSamples::new(found(Arc::clone(views)), reader.clone(), Arc::clone(rulebook));
        Sources { logs: Arc::new(logs), samples: Arc::new(samples) }
    }

    /// Returns what queries see now: a catalog snapshot and the heads that belong to it.
    pub fn view(&self) -> Arc<View> {
        self.shared.views.current()
    }

    /// Makes a newer catalog snapshot visible at once. Snapshots that this process's catalog commits or
    /// reads become visible soon after without a call.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.shared.publish(snapshot);
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether waiting pushes must give up.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The store that holds the data.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Reports the requests to the store and their cost, with the part that the WAL causes, as text for
    /// users.
    pub fn store_report(&self) -> String {
        let report = self.shared.store.cost_report();
        let (sentence, table) = report.split_once('\n').unwrap_or((&report, ""));
        format!("{sentence}\n{}{table}", self.shared.wal().cost_sentence())
    }

    /// The catalog of the store.
    pub fn catalog(&self) -> &Catalog {
        &self.shared.catalog
    }

    /// The clock, the tasks and the CPU pool.
    pub fn env(&self) -> &Env {
        &self.shared.env
    }

    /// The incarnation under which pushes are acknowledged. It changes when this process is fenced.
    pub fn incarnation(&self) -> Id {
        self.shared.incarnation()
    }

    /// The metrics of the write half, with current gauges.
    pub fn metrics(&self) -> &Metrics {
        let totals = self.view().head_totals();
        let metrics = &self.shared.metrics;
        metrics.head_rows.set(totals.rows as i64);
        metrics.head_line_bytes.set(totals.raw_bytes as i64);
        metrics.writable.set(i64::from(self.writable().is_ok()));
        metrics.view_age_seconds.set(self.shared.freshness.age().as_secs_f64());
        metrics.flush_failing_seconds.set(self.flushes_fail_for().unwrap_or_default().as_secs() as i64);
        metrics.unflushed_seconds.set(self.oldest_row_waits_for().as_secs() as i64);
        metrics.heads.set(self.view().heads.len() as i64);
        let cache = self.reader.cache();
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
        self.shared.acknowledges()
    }

    /// Fails and counts a failed push if a push would be refused at once. Call it before expensive work
    /// on a push.
    pub fn admits_pushes(&self) -> Result<(), Error> {
        let admitted = self.expect_open().and_then(|()| self.shared.admits_pushes());
        admitted.inspect_err(|_| {
            self.shared.metrics.pushes_failed.inc();
        })
    }

    /// Fails while the view of other processes' rows is too old. Decides readiness for reads.
    pub fn has_fresh_view(&self) -> Result<(), Error> {
        self.shared.expect_fresh_view()
    }

    fn expect_open(&self) -> Result<(), Error> {
        if self.is_closing() { Err(Error::ShuttingDown) } else { Ok(()) }
    }

    /// How long flushes have been failing; `None` if the last one succeeded. Pushes are accepted until
    /// the memory for rows is full.
    pub fn flushes_fail_for(&self) -> Option<Duration> {
        self.shared.flush_signal.failing_for(self.shared.env.monotonic())
    }

    /// The age of the oldest head of this process that has rows.
    fn oldest_row_waits_for(&self) -> Duration {
        let heads = self.shared.views.heads_of(self.shared.incarnation());
        let born = heads.iter().filter(|head| !head.is_empty()).map(|head| head.born()).min();
        born.map_or(Duration::ZERO, |born| self.shared.env.monotonic().saturating_sub(born))
    }

    /// Accepts no more pushes, settles the waiting ones, flushes everything, seals the incarnation, so
    /// that the next start has nothing to adopt, and ends all tasks. If the timeout expires first, the
    /// remaining rows stay in the WAL, and the error says so.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.closing.store(true, Ordering::Release);
        self.shared.wal().close();
        let patience = self.shared.options.shutdown_timeout;
        let finished = self.shared.env.timeout(patience, self.finish()).await;
        if let Ok(stage) = self.stage.try_lock()
            && let Stage::Supervised(supervisor) = &*stage
        {
            supervisor.abort();
        }
        self.shared.shutdown.trigger();
        self.shared.followers.close();
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
        if !self.shared.is_registered() {
            // This process acknowledged nothing, and nothing can be written.
            return Err(self.shared.wal().status().end_reason());
        }
        self.flush().await?;
        let Some(next) = next else { return Err(self.shared.wal().status().end_reason()) };
        let shared = &self.shared;
        let wal = shared.wal();
        let floor = crate::view::floor_of(&shared.views.current().snapshot, wal.incarnation());
        if floor <= next {
            let rest = Arc::new(Head::new(wal.incarnation(), floor, shared.env.monotonic()));
            rest.advance(next);
            shared.flush_head(&rest, Ending::Sealed { fence: next }).await?;
        }
        wal.delete_below(floor, next).await;
        shared.leave().await?;
        *stage = Stage::Left;
        Ok(())
    }
}

/// Whether a registration failed because the disk is full or read-only, which may change.
fn may_pass(error: &Error) -> bool {
    let is_lost = matches!(error, Error::CatalogLost { .. });
    !is_lost && matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied)
}

/// Publishes snapshots that other parts of this process committed or read.
async fn publish_snapshots(shared: Arc<Shared>) {
    let mut snapshots = shared.catalog.watch();
    while snapshots.changed().await.is_ok() {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        shared.publish(snapshot);
    }
}

/// Ends the WAL once the catalog's log was shortened or removed: rows that are acknowledged after that
/// could never be put into blocks.
async fn stop_when_the_catalog_is_lost(shared: Arc<Shared>) {
    let mut lost = shared.catalog.watch_lost();
    loop {
        let is_lost = lost.borrow_and_update().is_some();
        if is_lost && let Err(error) = shared.expect_catalog() {
            return shared.wal().status().end(error);
        }
        if lost.changed().await.is_err() {
            return;
        }
    }
}

/// Starts a new incarnation each time the current one is fenced. When the queue is closed, returns the
/// first unused sequence number of the last incarnation; `None` if there is no incarnation.
async fn supervise(
    shared: Arc<Shared>,
    mut committer: Option<Task<End>>,
    closing: Arc<AtomicBool>,
) -> Option<u64> {
    loop {
        if let Some(committer) = committer {
            match committer.join().await {
                Ok(End::Closed { next }) => return Some(next),
                Ok(End::Fenced) => {}
                Err(error) => {
                    tracing::error!(%error, "nothing is acknowledged any more");
                    shared.wal().status().end(Error::Internal(error.to_string()));
                    return None;
                }
            }
        }
        committer = Some(restart(&shared, &closing).await?);
        if closing.load(Ordering::Acquire) {
            shared.wal().close();
        }
    }
}

/// Registers a new incarnation as soon as that is possible. Returns `None` if the engine stops before.
async fn restart(shared: &Shared, closing: &AtomicBool) -> Option<Task<End>> {
    let (mut pauses, mut not_before) = (RESTARTS.pauses(), Duration::ZERO);
    while !closing.load(Ordering::Acquire) {
        if shared.env.monotonic() < not_before {
            shared.env.sleep(CLOSING_LOOK).await;
            continue;
        }
        match shared.start_wal().await {
            Ok(committer) => return Some(committer),
            Err(error) => tracing::warn!(%error, "a new incarnation could not be registered yet"),
        }
        not_before = shared.env.monotonic() + pauses.after_failure();
    }
    None
}

impl Drop for Engine {
    /// Closes the queue, so that no push waits for a committer that has ended.
    fn drop(&mut self) {
        let wal: Arc<Wal> = self.shared.wal();
        wal.close();
    }
}
