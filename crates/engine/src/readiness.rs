//! What this process can do now: acknowledge pushes, and answer queries with what others have stored.
//!
//! **Pushes.** Nothing can be acknowledged when the WAL cannot ([`crate::wal::Status`]), or when the catalog
//! is lost. An idle process learns from its heartbeats that a bucket takes no writes.
//!
//! **Queries.** What others have stored is known as of the last read of the catalog's end that succeeded
//! ([`crate::follow_writers`]). Beyond a bound each answer says how old the view is. A directory has no other
//! writers, so there the view grows old only when reads fail.
//!
//! **Invariants.** Both are computed from times when they are asked for, so that no task has to run for them
//! to be true. One task logs when they change.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::format_duration;
use sandur_catalog::Catalog;
use sandur_query::{QueryContext, Staleness};
use sandur_store::Class;

use crate::error::Error;
use crate::options::EngineOptions;
use crate::shared::Shared;

/// How often changes are looked for, to log them.
const LOOK: Duration = Duration::from_secs(1);

/// How old the view of the store is, and how old it may be.
#[derive(Clone)]
pub(crate) struct Freshness {
    catalog: Catalog,
    bound: Duration,
}

impl Freshness {
    pub(crate) fn new(catalog: Catalog, options: &EngineOptions) -> Self {
        let bound = match options.view_age_max {
            Duration::ZERO => Duration::MAX,
            // A view is as old as the pause between two reads before each of them, and one may be late.
            bound => bound.max(options.poll_interval.saturating_mul(2)),
        };
        Self { catalog, bound }
    }

    /// How long the view may have been incomplete.
    pub(crate) fn age(&self) -> Duration {
        self.catalog.age()
    }

    /// The age when it is beyond the bound.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        let (age, bound) = (self.age(), self.bound);
        (age > bound).then_some(Staleness { age, bound })
    }

    /// Notes in the answer of a query that the view is too old.
    pub(crate) fn warn(&self, context: &QueryContext) {
        if let Some(staleness) = self.staleness() {
            context.warn_of_age(staleness);
        }
    }
}

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

    /// Fails while the view of the store is older than it may be.
    pub(crate) fn expect_fresh_view(&self) -> Result<(), Error> {
        self.expect_catalog()?;
        let Some(Staleness { age, bound }) = self.freshness.staleness() else { return Ok(()) };
        let said = self.store.latest_failure(Class::Catalog);
        let reason = said.unwrap_or_else(|| "the store has not answered".to_owned());
        Err(Error::StaleView { age, bound, reason })
    }
}

/// Logs when pushes begin to be refused, when the view becomes too old, and the ends of both.
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
    /// Since when it is bad, by the monotonic clock.
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
