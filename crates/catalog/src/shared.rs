//! What all parts of an open catalog share: the store, the newest verified snapshot, the clock.
//!
//! Invariants: the published snapshot is *verified* (see `tail.rs`): a prefix of the one log that
//! all processes have. Its number never goes back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::{Backoff, Env};
use sandur_store::{Store, StoreKind};
use tokio::sync::watch;

use crate::error::Error;
use crate::metrics::CatalogMetrics;
use crate::options::CatalogOptions;
use crate::snapshot::Snapshot;

/// The first pause between attempts to write; longer ones are options.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// A pause of nothing would only repeat the collision.
const PAUSE_LEAST: Duration = Duration::from_millis(1);

pub(crate) struct Shared {
    pub store: Store,
    pub env: Env,
    pub options: CatalogOptions,
    pub metrics: CatalogMetrics,
    current: watch::Sender<Arc<Snapshot>>,
    /// By the monotonic clock: the published snapshot held everything committed before this.
    complete_at: Mutex<Duration>,
    /// By the monotonic clock: when the first of the latest reads of the log's end began that all failed.
    unread_since: Mutex<Option<Duration>>,
    pub boundary_seen: AtomicU64,
    pub refreshes: Refreshes,
    pub checkpointed: Mutex<Checkpointed>,
    /// Why the log cannot be followed any more; final.
    pub lost: watch::Sender<Option<Error>>,
}

/// Lets callers who wait for a refresh share one, if it began after they asked.
#[derive(Default)]
pub(crate) struct Refreshes {
    pub turn: tokio::sync::Mutex<()>,
    pub begun: AtomicU64,
    pub done: AtomicU64,
}

/// The newest checkpoint that this process knows of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checkpointed {
    /// Its number.
    pub number: u64,
    /// When this process learned of it, by its monotonic clock.
    pub at: Duration,
}

impl Shared {
    pub fn new(store: Store, env: Env, options: CatalogOptions) -> Self {
        let now = env.monotonic();
        Self {
            store,
            env,
            options,
            metrics: CatalogMetrics::default(),
            current: watch::Sender::new(Arc::new(Snapshot::default())),
            complete_at: Mutex::new(now),
            unread_since: Mutex::default(),
            boundary_seen: AtomicU64::new(0),
            refreshes: Refreshes::default(),
            checkpointed: Mutex::new(Checkpointed { number: 0, at: now }),
            lost: watch::Sender::new(None),
        }
    }

    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.borrow())
    }

    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.current.subscribe()
    }

    /// Publishes a verified snapshot unless a newer one is there; returns the newest.
    pub fn publish(&self, snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
        self.current.send_if_modified(|current| {
            let newer = snapshot.number() > current.number();
            if newer {
                *current = Arc::clone(&snapshot);
            }
            newer
        });
        let newest = self.current();
        self.metrics.show(&newest);
        newest
    }

    /// Notes that the published snapshot holds everything that was committed before `began`.
    pub fn note_complete(&self, began: Duration) {
        let mut at = self.complete_at.lock().unwrap_or_else(PoisonError::into_inner);
        *at = (*at).max(began);
        *self.unread_since() = None;
    }

    /// Notes that a read of the log's end failed, which was begun at `began`.
    pub fn note_unread(&self, began: Duration) {
        self.unread_since().get_or_insert(began);
    }

    fn unread_since(&self) -> MutexGuard<'_, Option<Duration>> {
        self.unread_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the published snapshot may have been incomplete. Nobody else writes into a local directory,
    /// so there it is complete until a read fails.
    pub fn age(&self) -> Duration {
        let complete_at = *self.complete_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.env.monotonic();
        let since = if self.is_local() { *self.unread_since() } else { Some(complete_at) };
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Whether the store is a directory that this process alone holds.
    pub fn is_local(&self) -> bool {
        matches!(self.store.kind(), StoreKind::Local { .. })
    }

    pub fn checkpointed(&self) -> Checkpointed {
        *self.checkpointed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a checkpoint that exists.
    pub fn note_checkpoint(&self, number: u64) {
        let at = self.env.monotonic();
        let mut newest = self.checkpointed.lock().unwrap_or_else(PoisonError::into_inner);
        if number > newest.number {
            *newest = Checkpointed { number, at };
        }
    }

    /// Notes a boundary that was read; gives the highest that was.
    pub fn note_boundary(&self, number: u64) -> u64 {
        let highest = self.boundary_seen.fetch_max(number, Ordering::Relaxed).max(number);
        self.metrics.boundary.set(highest as i64);
        highest
    }

    /// A pause before retry number `retry` (from 0), growing from 50 ms.
    pub async fn pause(&self, retry: u32) {
        let backoff = Backoff::new(PAUSE_FIRST, self.options.pause_max);
        self.env.sleep(PAUSE_LEAST + backoff.full_jitter(retry, &self.env)).await;
    }
}
