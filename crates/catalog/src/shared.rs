//! The shared parts of an open catalog: the store, the newest verified snapshot, the clock.
//!
//! Invariants: the published snapshot is *verified* (see `tail.rs`): a prefix of the one log that all
//! processes have. Its number never decreases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_runtime::{Backoff, Env};
use sandur_store::{Store, StoreKind};
use tokio::sync::watch;

use crate::error::Error;
use crate::metrics::CatalogMetrics;
use crate::options::CatalogOptions;
use crate::snapshot::Snapshot;

/// The first pause between attempts to write; the longest is an option.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// Shortest pause: without one the same collision would repeat.
const PAUSE_LEAST: Duration = Duration::from_millis(1);

pub(crate) struct Shared {
    pub store: Store,
    pub env: Env,
    pub options: CatalogOptions,
    pub metrics: CatalogMetrics,
    current: watch::Sender<Arc<Snapshot>>,
    /// Monotonic time; the published snapshot contains everything committed before it.
    complete_at: Mutex<Duration>,
    /// Monotonic start of the first failed read of the log's end since the last successful one.
    unread_since: Mutex<Option<Duration>>,
    /// Monotonic start of the last read that verified the end of the log.
    verified_at: Mutex<Option<Duration>>,
    pub boundary_seen: AtomicU64,
    pub refreshes: Refreshes,
    pub polls: Refreshes,
    pub checkpointed: Mutex<Checkpointed>,
    /// Why the log can no longer be followed; never reset.
    pub lost: watch::Sender<Option<Error>>,
}

/// Lets callers that wait for a refresh share one that began after they asked.
#[derive(Default)]
pub(crate) struct Refreshes {
    pub turn: tokio::sync::Mutex<()>,
    pub begun: AtomicU64,
    pub done: AtomicU64,
}

/// The newest checkpoint that this process has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checkpointed {
    /// Number of the entry that it is the state after.
    pub number: u64,
    /// When this process saw it, in monotonic time.
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
            verified_at: Mutex::default(),
            boundary_seen: AtomicU64::new(0),
            refreshes: Refreshes::default(),
            polls: Refreshes::default(),
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

    /// Publishes a verified snapshot unless a newer one is published; returns the newest.
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

    /// Records that the published snapshot holds everything that was committed before `began`.
    pub fn note_complete(&self, began: Duration) {
        let mut at = self.complete_at.lock().unwrap_or_else(PoisonError::into_inner);
        *at = (*at).max(began);
        *self.unread_since() = None;
    }

    /// Returns the monotonic time before which everything that was committed is in the published snapshot.
    pub fn complete_at(&self) -> Duration {
        *self.complete_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a read that began at `began` verified the end of the log.
    pub fn note_verified(&self, began: Duration) {
        *self.verified_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
    }

    /// Returns how long ago the last read began that verified the end of the log.
    pub fn since_verified(&self) -> Option<Duration> {
        let verified_at = *self.verified_at.lock().unwrap_or_else(PoisonError::into_inner);
        verified_at.map(|at| self.env.monotonic().saturating_sub(at))
    }

    /// Records that a read of the log's end that began at `began` failed.
    pub fn note_unread(&self, began: Duration) {
        self.unread_since().get_or_insert(began);
    }

    fn unread_since(&self) -> MutexGuard<'_, Option<Duration>> {
        self.unread_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns for how long the published snapshot may have been incomplete. No other process writes to a
    /// local directory, so there the snapshot is complete until a read fails.
    pub fn age(&self) -> Duration {
        let complete_at = self.complete_at();
        let now = self.env.monotonic();
        let since = if self.is_local() { *self.unread_since() } else { Some(complete_at) };
        since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Whether the store is a directory that only this process uses.
    pub fn is_local(&self) -> bool {
        matches!(self.store.kind(), StoreKind::Local { .. })
    }

    pub fn checkpointed(&self) -> Checkpointed {
        *self.checkpointed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a checkpoint that exists.
    pub fn note_checkpoint(&self, number: u64) {
        let at = self.env.monotonic();
        let mut newest = self.checkpointed.lock().unwrap_or_else(PoisonError::into_inner);
        if number > newest.number {
            *newest = Checkpointed { number, at };
        }
    }

    /// Records a boundary that was read; returns the highest so far.
    pub fn note_boundary(&self, number: u64) -> u64 {
        let highest = self.boundary_seen.fetch_max(number, Ordering::Relaxed).max(number);
        self.metrics.boundary.set(highest as i64);
        highest
    }

    /// Sleeps before retry number `retry` (from 0), with jitter and backoff from 50 ms.
    pub async fn pause(&self, retry: u32) {
        let backoff = Backoff::new(PAUSE_FIRST, self.options.pause_max);
        self.env.sleep(PAUSE_LEAST + backoff.full_jitter(retry, &self.env)).await;
    }
}
