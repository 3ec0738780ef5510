//! The state that all tasks of an engine share, and the start of a WAL under a new incarnation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sandur_base::{Env, Id, MemoryBudget, Shutdown, Task};
use sandur_cache::Cache;
use sandur_catalog::{Catalog, Members, MembersOptions, Registration, Snapshot};
use sandur_format::catalog_entry::WalKind;
use sandur_store::Store;
use tokio::sync::{Mutex, Notify, watch};

use crate::blocks::bytes::BlockBytes;
use crate::blocks::cache::BlockCache;
use crate::blocks::reader::BlockReader;
use crate::error::{Error, expect_catalog, refused};
use crate::head::Head;
use crate::logs::Followers;
use crate::metrics::Metrics;
use crate::options::EngineOptions;
use crate::reading::freshness::Freshness;
use crate::rules::Rulebook;
use crate::view::Views;
use crate::writing::flush::commit::COMMIT_BLOCKS_MAX;
use crate::writing::flush::flusher::Flusher;
use crate::writing::flush::outcome::Ending;
use crate::writing::flush::outcome::Flushed;
use crate::writing::flush::signal::FlushSignal;
use crate::writing::wal::{Context, End, Status, Wal};

/// Rows of other live writers may take this fraction of the write budget (a quarter).
const FOLLOWED_PART: u64 = 4;

/// The shared state of an engine.
pub(crate) struct Shared {
    pub(crate) env: Env,
    pub(crate) store: Store,
    /// Reads blocks and caches what it decodes.
    pub(crate) reader: BlockReader,
    pub(crate) catalog: Catalog,
    pub(crate) options: EngineOptions,
    pub(crate) local: bool,
    pub(crate) views: Arc<Views>,
    /// The age of the view.
    pub(crate) freshness: Freshness,
    pub(crate) followers: Arc<Followers>,
    pub(crate) metrics: Metrics,
    /// The delete requests, compiled: what they hide and remove.
    pub(crate) rulebook: Arc<Rulebook>,
    /// The memory budget of rows of other live writers; a part of the write budget.
    pub(crate) followed_budget: MemoryBudget,
    pub(crate) flush_signal: Arc<FlushSignal>,
    /// Notifies pushes that wait for memory that a flush has released some.
    pub(crate) freed: Notify,
    pub(crate) shutdown: Shutdown,
    /// The number of dead writers of this directory whose rows are not in blocks yet.
    pub(crate) recovering: watch::Sender<usize>,
    /// When the current incarnation was registered: monotonic time in milliseconds.
    pub(crate) registered_ms: AtomicU64,
    wal: RwLock<Option<Arc<Wal>>>,
    members: RwLock<Option<(Members, Task<()>)>>,
    flusher: Flusher,
    flush_turn: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(
        store: Store,
        env: Env,
        catalog: Catalog,
        options: EngineOptions,
        local: bool,
    ) -> Arc<Self> {
        let views = Arc::new(Views::new(env.clone(), catalog.snapshot()));
        let metrics = Metrics::default();
        let cache = options.cache.clone().unwrap_or_else(|| Cache::in_memory(&env, options.cache_bytes));
        let bytes = BlockBytes::new(env.clone(), store.clone(), cache);
        let decoded = Arc::new(BlockCache::new(bytes.cache().clone()));
        let reader = BlockReader::new(env.clone(), bytes, decoded);
        let flusher = Flusher {
            env: env.clone(),
            store: store.clone(),
            reader: reader.clone(),
            catalog: catalog.clone(),
            views: Arc::clone(&views),
            metrics: metrics.clone(),
            parallelism: options.flush_parallelism,
            commit_blocks: options.flush_commit_blocks.min(COMMIT_BLOCKS_MAX),
            thin_bytes: options.maintenance.compaction.thin_bytes,
            budget: options.write_budget.clone(),
            warming: std::sync::Mutex::default(),
            unneeded: std::sync::Mutex::default(),
        };
        let followed_bytes = options.write_budget.limit() / FOLLOWED_PART;
        Arc::new(Self {
            followed_budget: options.write_budget.child("followed writers", followed_bytes),
            rulebook: Arc::new(Rulebook::new(&env, options.deletes.clone())),
            freshness: Freshness::new(catalog.clone(), &options),
            env,
            store,
            reader,
            catalog,
            options,
            local,
            views,
            followers: Arc::default(),
            metrics,
            flush_signal: Arc::default(),
            freed: Notify::new(),
            shutdown: Shutdown::default(),
            recovering: watch::Sender::new(0),
            registered_ms: AtomicU64::new(0),
            wal: RwLock::default(),
            members: RwLock::default(),
            flusher,
            flush_turn: Mutex::new(()),
        })
    }

    /// Returns the task that decodes the blocks of the last flush.
    #[cfg(test)]
    pub(crate) fn take_warming(&self) -> Option<Task<()>> {
        self.flusher.take_warming()
    }

    /// Returns the WAL that accepts pushes now.
    pub(crate) fn wal(&self) -> Arc<Wal> {
        let wal = self.wal.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(wal.as_ref().expect("an engine is opened with a WAL"))
    }

    /// Fails once the catalog is lost, because nothing that is acknowledged or written after that could
    /// be committed.
    pub(crate) fn expect_catalog(&self) -> Result<(), Error> {
        expect_catalog(&self.catalog)
    }

    /// The current incarnation of this process.
    pub(crate) fn incarnation(&self) -> Id {
        self.wal().incarnation()
    }

    /// Registers a new incarnation and starts its WAL.
    pub(crate) async fn start_wal(&self) -> Result<Task<End>, Error> {
        let incarnation = self.next_incarnation();
        let own = Registration {
            incarnation,
            address: self.options.address.clone(),
            host: self.options.host.clone(),
            wal: if self.local { WalKind::Local } else { WalKind::Bucket },
        };
        let registered = self.catalog.register(own.clone()).await;
        self.views.publish(registered.map_err(|error| refused("the registration", &error))?);
        if !self.local {
            self.start_heartbeat(own).await;
        }
        let now_ms = u64::try_from(self.env.monotonic().as_millis()).unwrap_or(u64::MAX);
        self.registered_ms.store(now_ms, Ordering::Relaxed);
        let (wal, committer) = Wal::start(self.context(incarnation), self.local);
        *self.wal.write().unwrap_or_else(PoisonError::into_inner) = Some(wal);
        tracing::info!(%incarnation, store = self.store.url(), "the WAL accepts pushes");
        Ok(committer)
    }

    /// Returns an id greater than those of all earlier writers, whatever the clock says: rows of one
    /// instant in memory are ordered by their writers.
    fn next_incarnation(&self) -> Id {
        let own = self.env.new_id();
        let last = self.catalog.snapshot().writers().keys().next_back().copied();
        last.filter(|last| *last >= own).map_or(own, |last| Id::from_parts(last.timestamp_ms() + 1, own.0))
    }

    fn context(&self, incarnation: Id) -> Context {
        Context {
            env: self.env.clone(),
            store: self.store.clone(),
            options: self.options.clone(),
            incarnation,
            views: Arc::clone(&self.views),
            followers: Arc::clone(&self.followers),
            metrics: self.metrics.clone(),
            status: Arc::new(Status::default()),
            flush_signal: Arc::clone(&self.flush_signal),
            sealed: Notify::new(),
        }
    }

    /// Installs a WAL that accepts no pushes, because the store accepts no writes now.
    pub(crate) fn refuse_pushes(&self, reason: String) {
        let refusal = Error::ReadOnly { reason };
        tracing::error!(%refusal, store = self.store.url(), "the server starts read-only");
        let wal = Wal::refusing(self.context(self.env.new_id()), refusal);
        *self.wal.write().unwrap_or_else(PoisonError::into_inner) = Some(wal);
    }

    /// Starts heartbeats for this incarnation and the observation of other members' heartbeats.
    async fn start_heartbeat(&self, own: Registration) {
        let (beat, silent_after) = (self.options.heartbeat_interval, self.options.dead_after);
        let members = Members::new(self.catalog.clone(), own, MembersOptions { beat, silent_after });
        if let Err(error) = members.beat().await {
            tracing::warn!(%error, "the first heartbeat could not be written");
        }
        let task = members.start();
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = Some((members, task));
    }

    /// Returns the members of the store, with their heartbeats; `None` in a local directory.
    pub(crate) fn members(&self) -> Option<Members> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.as_ref().map(|(members, _)| members.clone())
    }

    /// Ends the heartbeat permanently.
    pub(crate) async fn leave(&self) -> Result<(), Error> {
        let members = self.members.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some((members, task)) = members else { return Ok(()) };
        drop(task);
        Ok(members.leave().await?)
    }

    /// Makes a snapshot visible. Ends the WAL if the snapshot lists our incarnation as sealed, or does
    /// not list it any more because it was sealed long ago.
    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) {
        let wal = self.wal();
        // The newest view contains our registration; an older snapshot need not.
        let view = self.views.publish(snapshot);
        if view.snapshot.writer(wal.incarnation()).is_none_or(|writer| writer.is_sealed()) {
            wal.end_sealed();
        }
    }

    /// Whether the catalog lists this process as a writer. False if the store accepted no writes at the
    /// start.
    pub(crate) fn is_registered(&self) -> bool {
        self.views.current().snapshot.writer(self.incarnation()).is_some()
    }

    /// Flushes a head. Only one flush runs at a time, so that at most one sealed head is in memory
    /// besides open ones.
    pub(crate) async fn flush_head(&self, head: &Arc<Head>, ending: Ending) -> Result<Flushed, Error> {
        let _turn = self.flush_turn.lock().await;
        self.flusher.flush(self.incarnation(), head, ending).await
    }

    /// Waits for the duration or until the engine stops. Returns false when it stops.
    pub(crate) async fn pause(&self, duration: Duration) -> bool {
        let signal = self.shutdown.signal();
        self.env.timeout(duration, signal.triggered()).await.is_none()
    }
}
