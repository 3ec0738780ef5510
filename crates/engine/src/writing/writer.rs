//! The write half of an engine: the incarnation of this process, its WAL, and the flush of heads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use sandur_base::Id;
use sandur_catalog::{Registration, Snapshot};
use sandur_format::catalog_entry::WalKind;
use sandur_runtime::Task;
use tokio::sync::{Mutex, Notify, watch};

use crate::blocks::reader::BlockReader;
use crate::error::{Error, refused};
use crate::head::Head;
use crate::logs::Followers;
use crate::node::Node;
use crate::options::EngineOptions;
use crate::window_counts::WindowCounts;
use crate::writing::flush::flusher::Flusher;
use crate::writing::flush::outcome::{Ending, Flushed};
use crate::writing::flush::signal::FlushSignal;
use crate::writing::membership::Membership;
use crate::writing::wal::{Context, End, RecentFrames, Status, Wal};

/// Acknowledges pushes and turns heads into blocks, under one incarnation after the other.
pub(crate) struct Writer {
    pub(crate) node: Arc<Node>,
    pub(crate) options: EngineOptions,
    /// Whether the store is a local directory.
    pub(crate) local: bool,
    pub(crate) followers: Arc<Followers>,
    pub(crate) membership: Membership,
    pub(crate) flush_signal: Arc<FlushSignal>,
    /// The number of dead writers of this directory whose rows are not in blocks yet.
    pub(crate) recovering: watch::Sender<usize>,
    /// What the nodes merge, for reports.
    pub(crate) window_counts: WindowCounts,
    is_closing: AtomicBool,
    wal: RwLock<Option<Arc<Wal>>>,
    pub(crate) flusher: Flusher,
    flush_turn: Mutex<()>,
}

impl Writer {
    pub(crate) fn new(
        node: &Arc<Node>,
        reader: &BlockReader,
        followers: Arc<Followers>,
        options: EngineOptions,
        local: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            local,
            followers,
            membership: Membership::new(&options),
            flush_signal: Arc::default(),
            recovering: watch::Sender::new(0),
            window_counts: WindowCounts::default(),
            is_closing: AtomicBool::new(false),
            wal: RwLock::default(),
            flusher: Flusher::new(node, reader, &options),
            flush_turn: Mutex::new(()),
            options,
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

    /// The current incarnation of this process.
    pub(crate) fn incarnation(&self) -> Id {
        self.wal().incarnation()
    }

    /// Registers a new incarnation and starts its WAL.
    pub(crate) async fn start_wal(&self) -> Result<Task<End>, Error> {
        let (node, incarnation) = (&self.node, self.next_incarnation());
        let own = Registration {
            incarnation,
            address: self.options.address.clone(),
            host: self.options.host.clone(),
            wal: if self.local { WalKind::Local } else { WalKind::Bucket },
            node: Some(node.place.register_as(&node.catalog.snapshot(), incarnation)),
        };
        node.followed.set_own(incarnation);
        let registered = node.catalog.register(own.clone()).await;
        node.views.publish(registered.map_err(|error| refused("the registration", &error))?);
        node.place.note_registered(incarnation);
        if !self.local {
            self.membership.start(&node.catalog, own).await;
        }
        self.membership.note_registration(&node.env);
        if let Some(hints) = self.options.hints.as_ref().filter(|_| !self.local) {
            hints.announce_segment(incarnation, 0);
        }
        let (wal, committer) = Wal::start(self.context(incarnation), self.local);
        *self.wal.write().unwrap_or_else(PoisonError::into_inner) = Some(wal);
        tracing::info!(%incarnation, store = node.store.url(), "the WAL accepts pushes");
        Ok(committer)
    }

    /// Returns an id greater than those of all earlier writers, whatever the clock says: rows of one
    /// instant in memory are ordered by their writers.
    fn next_incarnation(&self) -> Id {
        let own = self.node.env.new_id();
        let last = self.node.catalog.snapshot().writers().keys().next_back().copied();
        last.filter(|last| *last >= own).map_or(own, |last| Id::from_parts(last.timestamp_ms() + 1, own.0))
    }

    fn context(&self, incarnation: Id) -> Context {
        Context {
            env: self.node.env.clone(),
            store: self.node.store.clone(),
            options: self.options.clone(),
            incarnation,
            views: Arc::clone(&self.node.views),
            followers: Arc::clone(&self.followers),
            metrics: self.node.metrics.clone(),
            status: Arc::new(Status::default()),
            recent: RecentFrames::new(self.options.recent_frames_budget()),
            flush_signal: Arc::clone(&self.flush_signal),
            sealed: Notify::new(),
        }
    }

    /// Installs a WAL that accepts no pushes, because the store accepts no writes now.
    pub(crate) fn refuse_pushes(&self, reason: String) {
        let refusal = Error::ReadOnly { reason };
        tracing::error!(%refusal, store = self.node.store.url(), "the server starts read-only");
        let wal = Wal::refusing(self.context(self.node.env.new_id()), refusal);
        *self.wal.write().unwrap_or_else(PoisonError::into_inner) = Some(wal);
    }

    /// Makes a snapshot visible. Ends the WAL if the snapshot lists our incarnation as sealed, or does
    /// not list it any more because it was sealed long ago.
    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) {
        let wal = self.wal();
        // The newest view contains our registration; an older snapshot need not.
        let view = self.node.views.publish(snapshot);
        if view.snapshot.writer(wal.incarnation()).is_none_or(|writer| writer.is_sealed()) {
            wal.end_sealed();
        }
    }

    /// Whether the catalog lists this process as a writer. False if the store accepted no writes at the
    /// start.
    pub(crate) fn is_registered(&self) -> bool {
        self.node.views.current().snapshot.writer(self.incarnation()).is_some()
    }

    /// Flushes a head. Only one flush runs at a time, so that at most one sealed head is in memory
    /// besides open ones.
    pub(crate) async fn flush_head(&self, head: &Arc<Head>, ending: Ending) -> Result<Flushed, Error> {
        let _turn = self.flush_turn.lock().await;
        self.flusher.flush(self.incarnation(), head, ending).await
    }

    /// Holds all flushes until the guard is dropped.
    #[cfg(test)]
    pub(crate) async fn hold_flushes(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.flush_turn.lock().await
    }

    /// Makes waiting pushes give up, and accepts no more.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.wal().close();
    }

    /// Whether waiting pushes must give up.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}
