//! Readiness: whether this process can acknowledge pushes, and whether it knows what other processes
//! have stored.
//!
//! **Pushes.** Nothing can be acknowledged when the WAL cannot acknowledge ([`crate::writing::wal::Status`]), or
//! when the catalog is lost. An idle process learns from its heartbeats that a bucket accepts no writes.
//!
//! **Queries.** What other processes have stored is known as of the last successful read of the
//! catalog's end ([`crate::upkeep::adoption::follow_writers`]). Beyond a bound each answer carries a warning with the age
//! of the view. A directory has no other writers, so there the view ages only when reads fail.
//!
//! **Invariants.** Both states are computed from times when they are read, so that they are correct
//! without a running task. One task logs their changes.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::format_duration;
use sandur_query::Staleness;
use sandur_store::Class;

use crate::error::Error;
use crate::writing::shared::Shared;

/// How often the states are checked for changes, to log them.
const LOOK: Duration = Duration::from_secs(1);

impl Shared {
    /// Fails when a push would be refused at once.
    pub(crate) fn admits_pushes(&self) -> Result<(), Error> {
        self.expect_catalog()?;
        let wal = self.wal();
        let admitted = wal.status().admits(self.env.monotonic(), self.heartbeats_fail_since());
        admitted.map_err(|error| wal.explained(error))
    }

    /// Fails while nothing can be acknowledged.
    pub(crate) fn acknowledges(&self) -> Result<(), Error> {
        self.expect_catalog()?;
        let wal = self.wal();
        let able = wal.status().acknowledges(self.env.monotonic(), self.heartbeats_fail_since());
        able.map_err(|error| wal.explained(error))
    }

    fn heartbeats_fail_since(&self) -> Option<Duration> {
        self.members()?.unwritten_since()
    }

    /// Fails while the view of the store is older than its bound.
    pub(crate) fn expect_fresh_view(&self) -> Result<(), Error> {
        self.expect_catalog()?;
        let Some(Staleness { age, bound }) = self.freshness.staleness() else { return Ok(()) };
        let said = self.store.latest_failure(Class::Catalog);
        let reason = said.unwrap_or_else(|| "the store has not answered".to_owned());
        Err(Error::StaleView { age, bound, reason })
    }
}

/// Logs when pushes begin to be refused and when the view becomes too old, and when these states end.
pub(crate) async fn log_changes(shared: Arc<Shared>) {
    let (mut pushes, mut view) = (Logged::default(), Logged::default());
    while shared.pause(LOOK).await {
        let now = shared.env.monotonic();
        let texts = ("no push is acknowledged, pushes are refused", "pushes are acknowledged again");
        pushes.look(now, shared.acknowledges(), texts);
        let texts =
            ("the view of the store is too old, answers say so", "the view of the store is new again");
        view.look(now, shared.expect_fresh_view(), texts);
    }
}

/// A state whose changes are logged.
#[derive(Default)]
struct Logged {
    /// Since when the state is bad, by the monotonic clock.
    bad_since: Option<Duration>,
}

impl Logged {
    fn look(&mut self, now: Duration, state: Result<(), Error>, (begins, ends): (&str, &str)) {
        match (state, self.bad_since) {
            (Err(reason), None) => {
                tracing::warn!(%reason, "{begins}");
                self.bad_since = Some(now);
            }
            (Ok(()), Some(since)) => {
                let lasted = format_duration(Duration::from_secs(now.saturating_sub(since).as_secs()));
                tracing::info!(lasted, "{ends}");
                self.bad_since = None;
            }
            _ => {}
        }
    }
}
