//! The membership of this process in a bucket: its heartbeats, and those of the other members.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sandur_catalog::{Catalog, Hints, Members, MembersOptions, Registration};
use sandur_runtime::{Env, Task};

use crate::error::Error;
use crate::options::EngineOptions;

/// The heartbeats of one process under its current incarnation. Without members in a local directory.
pub(crate) struct Membership {
    /// Interval of our own heartbeat.
    pub(crate) beat: Duration,
    /// Silence after which a member is presumed dead.
    pub(crate) silent_after: Duration,
    /// When the current incarnation was registered: monotonic time in milliseconds.
    registered_ms: AtomicU64,
    current: RwLock<Option<(Members, Task<()>)>>,
    hints: Option<Arc<dyn Hints>>,
}

impl Membership {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        let (beat, silent_after) = (options.heartbeat_interval, options.dead_after);
        let (registered_ms, current, hints) = (AtomicU64::new(0), RwLock::default(), options.hints.clone());
        Self { beat, silent_after, registered_ms, current, hints }
    }

    /// Starts heartbeats for this incarnation and the observation of other members' heartbeats.
    pub(crate) async fn start(&self, catalog: &Catalog, own: Registration) {
        let (beat, silent_after) = (self.beat, self.silent_after);
        let hints = self.hints.clone();
        let members = Members::new(catalog.clone(), own, MembersOptions { beat, silent_after, hints });
        if let Err(error) = members.beat().await {
            tracing::warn!(%error, "the first heartbeat could not be written");
        }
        let task = members.start();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some((members, task));
    }

    /// Returns the members of the store, with their heartbeats; `None` in a local directory.
    pub(crate) fn members(&self) -> Option<Members> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|(members, _)| members.clone())
    }

    /// Since when our heartbeats could not be written.
    pub(crate) fn heartbeats_fail_since(&self) -> Option<Duration> {
        self.members()?.unwritten_since()
    }

    /// Notes that an incarnation has just been registered.
    pub(crate) fn note_registration(&self, env: &Env) {
        let now_ms = u64::try_from(env.monotonic().as_millis()).unwrap_or(u64::MAX);
        self.registered_ms.store(now_ms, Ordering::Relaxed);
    }

    /// How long ago the current incarnation was registered.
    pub(crate) fn since_registration(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.registered_ms.load(Ordering::Relaxed)))
    }

    /// Ends the heartbeat permanently.
    pub(crate) async fn leave(&self) -> Result<(), Error> {
        let members = self.current.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some((members, task)) = members else { return Ok(()) };
        drop(task);
        Ok(members.leave().await?)
    }
}
