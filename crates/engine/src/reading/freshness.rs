//! The age of the view: how long ago this process knew what other processes have stored.
//!
//! The end of the catalog is known as of its last successful read, the rows of each writer as of the last
//! read of its WAL that the catalog confirmed ([`crate::followed`]). Beyond a bound each answer carries a
//! warning with the age. A directory has no other writers, so there the view ages only when reads fail. Ages
//! are computed when they are read, so that they are correct without a running task.
//!
//! A query whose view is older than the bound first asks for newer reads and waits a short time for them:
//! writers without new rows are polled rarely while nobody queries, and a process that was suspended has an
//! old view. A query that waited in vain is answered with a warning, and later ones do not wait for the same
//! writers. A query may require a view of a certain age; then it waits longer, and fails without it.
//!
//! **Invariant.** What is missing is determined before the view is taken, so that an answer without a warning
//! has seen what was complete.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_base::units::format_duration;
use sandur_catalog::Catalog;
use sandur_query::{Error as QueryError, QueryContext, Staleness, Warnings};
use sandur_runtime::Env;
use sandur_store::{Class, Store};

use crate::error::{Error, expect_catalog};
use crate::followed::FollowedWriters;
use crate::node::Node;
use crate::options::EngineOptions;
use crate::view::Views;

/// How long a query waits for a view within the bound. Several requests to a near bucket take less.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// How long a query waits for the view that it requires, if its own time is not shorter.
const REQUIRED_WAIT_MAX: Duration = Duration::from_secs(10);
/// The pause after a failed read of the catalog.
const PAUSE: Duration = Duration::from_millis(250);

/// The age of the view of the store, and its bound.
#[derive(Clone)]
pub(crate) struct Freshness {
    env: Env,
    catalog: Catalog,
    store: Store,
    views: Arc<Views>,
    followed: Arc<FollowedWriters>,
    bound: Duration,
    /// How old the view of writers with new rows usually is at most.
    usual_age: Duration,
    /// The longest interval between reads of a writer's WAL while nobody queries.
    unread_max: Duration,
}

/// Returns the largest age of a view without a warning.
pub(crate) fn bound_of(options: &EngineOptions) -> Duration {
    match options.view_age_max {
        Duration::ZERO => Duration::MAX,
        // Just before each read a view is as old as the pause between two reads, and one read may be
        // late.
        bound => bound.max(options.poll_interval.saturating_mul(2)),
    }
}

impl Freshness {
    pub(crate) fn new(node: &Node, options: &EngineOptions) -> Self {
        Self {
            env: node.env.clone(),
            catalog: node.catalog.clone(),
            store: node.store.clone(),
            views: Arc::clone(&node.views),
            followed: Arc::clone(&node.followed),
            bound: bound_of(options),
            unread_max: options.poll_unread_interval,
            usual_age: bound_of(options).min(options.poll_interval.saturating_mul(2)),
        }
    }

    /// How long the view may have been incomplete.
    pub(crate) fn age(&self) -> Duration {
        self.catalog.age()
    }

    /// The age, if it exceeds the bound.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        let (age, bound) = (self.age(), self.bound);
        (age > bound).then_some(Staleness { age, bound })
    }

    /// Brings the view up to date if it is older than the bound or than the query requires. Fails if the
    /// query requires more than is possible in its time.
    pub(crate) async fn ensure(&self, context: &QueryContext) -> Result<(), QueryError> {
        if self.catalog.is_local() {
            return Ok(());
        }
        let target = self.expected(context);
        self.note_query();
        if context.sees_until().is_some() {
            return self.ensure_until(context, target).await;
        }
        if !self.followed.is_complete(target, false) {
            let newer = self.env.timeout(WAIT_MAX, self.bring_up_to(target, false)).await;
            if newer.is_none() {
                self.followed.give_up(target);
            }
        }
        Ok(())
    }

    /// The time as of which the view of a query should be complete.
    fn expected(&self, context: &QueryContext) -> Duration {
        // After a time without queries, writers without new segments are polled rarely.
        let age = if self.followed.is_queried() { self.bound } else { self.usual_age };
        context.sees_until().unwrap_or_else(|| self.env.monotonic().saturating_sub(age))
    }

    /// Notes that a query reads the view, so that all writers are polled at their usual interval.
    fn note_query(&self) {
        if self.followed.note_query() {
            self.followed.read_before(self.env.monotonic().saturating_sub(self.usual_age));
        }
    }

    async fn ensure_until(&self, context: &QueryContext, target: Duration) -> Result<(), QueryError> {
        let patience = context.remaining().min(REQUIRED_WAIT_MAX);
        match self.env.timeout(patience, self.bring_up_to(target, true)).await {
            Some(()) => Ok(()),
            None => Err(QueryError::StaleView(self.missing_for(target))),
        }
    }

    /// Waits until the view is complete as of `target`, and causes the reads for that. Without `all`, what
    /// does not fit into memory or was waited for in vain does not count. Concurrent callers share the reads.
    pub(crate) fn bring_up_to(&self, target: Duration, all: bool) -> BoxFuture<'_, ()> {
        // Boxed, because it is large and rarely made.
        Box::pin(self.read_until(target, all))
    }

    async fn read_until(&self, target: Duration, all: bool) {
        let mut changes = self.followed.watch();
        while !self.followed.is_complete(target, all) {
            self.followed.read_before(target);
            while self.followed.awaits_reads(target, all) {
                // The sender is alive.
                let _ = changes.changed().await;
            }
            if self.followed.is_complete(target, all) {
                return;
            }
            match self.catalog.poll().await {
                Ok(_) => self.note_catalog(),
                Err(_) => self.env.sleep(PAUSE).await,
            }
        }
    }

    /// Has all writers read at their usual interval from now on, and returns warnings for what is missing
    /// now.
    pub(crate) fn keep_up(&self) -> Vec<String> {
        if self.catalog.is_local() {
            return Vec::new();
        }
        self.note_query();
        let missing = Warnings::default();
        self.note_missing(&missing);
        missing.all()
    }

    /// Publishes the newest state of the catalog, and notes what is complete with it.
    fn note_catalog(&self) {
        let (at, snapshot) = self.catalog.known();
        self.views.publish(Arc::clone(&snapshot));
        self.followed.note_catalog(at, &snapshot);
    }

    /// Says what is missing for a view as of `target`.
    fn missing_for(&self, target: Duration) -> String {
        let (catalog, writers) = self.followed.incomplete(target);
        let seconds = |age: Duration| format_duration(Duration::from_secs(age.as_secs()));
        let catalog = catalog.map(|age| {
            let reason = self.store.latest_failure(Class::Catalog);
            let reason = reason.unwrap_or_else(|| "the store has not answered".to_owned());
            format!("the catalog was last read {} ago: {reason}", seconds(age))
        });
        let others = writers.len().saturating_sub(2);
        let mut texts: Vec<String> = catalog.into_iter().collect();
        texts.extend(writers.iter().take(2).map(ToString::to_string));
        if others > 0 {
            texts.push(format!("and those of {others} other writers"));
        }
        texts.join("; ")
    }

    /// Whether an answer from cached results is as good as one that reads the view: nothing is missing that
    /// [`Freshness::ensure`] could bring, and nothing is known to be missing.
    pub(crate) fn is_settled(&self, context: &QueryContext) -> bool {
        if self.catalog.is_local() {
            return true;
        }
        let is_required = context.sees_until().is_some();
        let is_complete = self.followed.is_complete(self.expected(context), is_required);
        if is_complete {
            self.note_query();
        }
        is_complete && !self.followed.lacks_memory()
    }

    /// Adds warnings to the answer of a query for what may be missing from it.
    pub(crate) fn warn(&self, context: &QueryContext) {
        self.note_missing(&context.kept_warnings());
    }

    fn note_missing(&self, warnings: &Warnings) {
        if let Some(staleness) = self.staleness() {
            warnings.add_age(staleness);
        }
        if !self.catalog.is_local() {
            self.followed.lags(self.bound).into_iter().for_each(|lag| warnings.add_lag(lag));
        }
    }

    /// The number of other writers whose rows may be missing although their polls are not late by intent.
    pub(crate) fn lagging(&self) -> usize {
        let intended = if self.followed.is_queried() { Duration::ZERO } else { self.unread_max };
        self.followed.lags(self.bound.saturating_add(intended)).len()
    }

    /// Fails while the view of the store is older than its bound.
    pub(crate) fn check(&self) -> Result<(), Error> {
        expect_catalog(&self.catalog)?;
        let Some(Staleness { age, bound }) = self.staleness() else { return Ok(()) };
        let said = self.store.latest_failure(Class::Catalog);
        let reason = said.unwrap_or_else(|| "the store has not answered".to_owned());
        Err(Error::StaleView { age, bound, reason })
    }
}
