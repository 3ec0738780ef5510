//! The service of queries: the context and the sources of a query of any language and protocol.
//!
//! [`Queries`] makes the context of a query (memory budget, deadline, queue, earliest visible time) and
//! gives access to the sources. The modules of the languages use it: [`crate::logql`], [`crate::promql`] and
//! [`crate::graphite`].
//!
//! **Invariants.** Every query of samples reads through [`Visible`], so it sees only what its tenant may see.
//! Every context is in [`RunningQueries`], from which the memory governor can cancel it. The queries of one
//! tenant together hold at most three quarters of the memory of queries.

use std::sync::Arc;
use std::time::Duration;

use sandur_graphite::StorageRules;
use sandur_memory::MemoryBudget;
use sandur_model::{Limits, TenantId};
use sandur_query::{Error, FairQueue, LogSource, QueryContext, ResultsCache, SampleSource, Sources};
use sandur_runtime::Env;

use crate::caller::Caller;
use crate::followers::Followers;
use crate::metrics::QueryMetrics;
use crate::query_log::{OpenQueries, Pace, QueuedLines, SlowQueries};
use crate::query_memory::QueryMemory;
use crate::running::RunningQueries;
use crate::visible::Visible;

/// Returns the current limits of a tenant.
pub type LimitsOf = Arc<dyn Fn(&TenantId) -> Arc<Limits> + Send + Sync>;
/// Returns the current storage rules of Graphite.
pub type RulesNow = Arc<dyn Fn() -> Arc<StorageRules> + Send + Sync>;

/// Configuration of queries.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// Maximum duration of a query of samples.
    pub timeout: Duration,
    /// Maximum age of the sample that is the value at an instant.
    pub lookback: Duration,
    /// Maximum number of samples that a query may hold at a time.
    pub samples_max: u64,
    /// Whether evaluated steps are stored in the step cache.
    pub keeps_steps: bool,
    /// A query that takes at least as long is logged as slow.
    pub slow_after: Duration,
    /// Whether the log of the process has a line for each query, not only for a selection.
    pub logs_all: bool,
    /// Whether the server's own log is stored too, which has a line for each query.
    pub stores_log: bool,
}

/// The parts of [`Queries`].
pub struct QueryParts {
    /// Clock, tasks and the CPU pool.
    pub env: Env,
    /// Configuration.
    pub options: QueryOptions,
    /// The sources of rows.
    pub sources: Sources,
    /// Storage schemas and aggregation rules of Graphite: the steps at which series are read.
    pub graphite_rules: RulesNow,
    /// Limits of tenants.
    pub limits_of: LimitsOf,
    /// The queue in which each piece of a query waits.
    pub turns: FairQueue,
    /// The queue in which evaluations of many steps wait in addition.
    pub wide_turns: FairQueue,
    /// The step cache.
    pub steps: ResultsCache,
    /// The memory budget of all queries.
    pub memory: QueryMemory,
    /// The last slow queries.
    pub slow: SlowQueries,
    /// Counters.
    pub metrics: QueryMetrics,
}

/// The service of queries. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Queries(Arc<Inner>);

struct Inner {
    parts: QueryParts,
    running: RunningQueries,
    open: OpenQueries,
    followers: Followers,
    lines: QueuedLines,
    pace: Pace,
}

impl Queries {
    /// Creates the service from its parts.
    pub fn new(parts: QueryParts) -> Self {
        let followers = Followers::default();
        Self(Arc::new(Inner {
            parts,
            running: RunningQueries::default(),
            open: OpenQueries::default(),
            followers,
            lines: QueuedLines::default(),
            pace: Pace::default(),
        }))
    }

    /// Clock, tasks and the CPU pool.
    pub fn env(&self) -> &Env {
        &self.0.parts.env
    }

    /// Configuration.
    pub fn options(&self) -> &QueryOptions {
        &self.0.parts.options
    }

    /// The limits of a tenant.
    pub fn limits(&self, tenant: &TenantId) -> Arc<Limits> {
        (self.0.parts.limits_of)(tenant)
    }

    /// Counters.
    pub fn metrics(&self) -> &QueryMetrics {
        &self.0.parts.metrics
    }

    /// Memory of all queries.
    pub fn memory(&self) -> &MemoryBudget {
        self.0.parts.memory.all()
    }

    /// The running queries with their descriptions, for operators.
    pub fn open(&self) -> &OpenQueries {
        &self.0.open
    }

    /// Running queries, of which one can be cancelled.
    pub fn running(&self) -> &RunningQueries {
        &self.0.running
    }

    /// The queue of queries.
    pub fn turns(&self) -> &FairQueue {
        &self.0.parts.turns
    }

    /// The queue of evaluations of many steps.
    pub(crate) fn wide_turns(&self) -> &FairQueue {
        &self.0.parts.wide_turns
    }

    /// The step cache.
    pub fn steps(&self) -> &ResultsCache {
        &self.0.parts.steps
    }

    /// Clients that follow new lines.
    pub fn followers(&self) -> &Followers {
        &self.0.followers
    }

    /// The last slow queries.
    pub fn slow(&self) -> &SlowQueries {
        &self.0.parts.slow
    }

    /// The bound on the lines of queries in the log of the process.
    pub(crate) fn pace(&self) -> &Pace {
        &self.0.pace
    }

    /// Queued lines of the log of queries.
    pub(crate) fn lines(&self) -> &QueuedLines {
        &self.0.lines
    }

    /// Log rows.
    pub fn logs(&self) -> &dyn LogSource {
        &*self.0.parts.sources.logs
    }

    /// All stored samples, for writes that look up existing samples.
    pub fn stored_samples(&self) -> &dyn SampleSource {
        &*self.0.parts.sources.samples
    }

    /// The samples that PromQL may see.
    pub fn samples(&self) -> Visible<'_> {
        Visible::new(&*self.0.parts.sources.samples)
    }

    /// The samples that Graphite may see, with the rollups of its paths.
    pub fn samples_with_rollups(&self) -> Visible<'_> {
        Visible::with_rollups(&*self.0.parts.sources.samples)
    }

    /// Graphite's storage rules.
    pub fn graphite_rules(&self) -> Arc<StorageRules> {
        (self.0.parts.graphite_rules)()
    }

    /// A context for one query of log rows.
    pub fn logs_context(&self, tenant: &TenantId) -> QueryContext {
        let timeout = match self.limits(tenant).query_timeout {
            0 => Duration::MAX,
            ns => Duration::from_nanos(ns.unsigned_abs()),
        };
        self.context_within(tenant, timeout)
    }

    /// A context for one query of samples. The `timeout` of the client can only shorten the configured
    /// one.
    pub fn samples_context(&self, tenant: &TenantId, timeout: Option<Duration>) -> QueryContext {
        let most = self.options().timeout;
        self.context_within(tenant, timeout.map_or(most, |timeout| timeout.min(most)))
    }

    fn context_within(&self, tenant: &TenantId, timeout: Duration) -> QueryContext {
        let (parts, limits) = (&self.0.parts, self.limits(tenant));
        let share = match limits.max_query_memory {
            // Half: a query that waits for its complete limit gets it although others of the tenant, which
            // may have three quarters, use some.
            0 => parts.memory.all().limit() / 2,
            bytes => bytes,
        };
        let budget = parts.memory.of(tenant).child("query", share);
        let context = QueryContext::new(parts.env.clone(), tenant.clone(), budget, timeout)
            .with_queue(parts.turns.clone())
            .with_parallelism(limits.max_query_parallelism as usize);
        self.0.running.add(&context);
        let context = match limits.max_query_lookback {
            0 => context,
            lookback => context.with_earliest(parts.env.now_ns().saturating_sub(lookback)),
        };
        if parts.options.keeps_steps { context.with_results(parts.steps.clone()) } else { context }
    }

    /// Fails when a policy of the tenant (`blocked_queries`) blocks this query of samples.
    pub fn check_blocked(&self, caller: &Caller, query: &str) -> Result<(), Error> {
        let limits = self.limits(&caller.tenant);
        sandur_logql::check_blocked_kind("metric", query, &caller.tags, &limits)
    }

    /// Updates gauges before they are rendered.
    pub fn observe(&self) {
        let parts = &self.0.parts;
        parts.metrics.observe([&parts.turns, &parts.wide_turns], self.0.followers.total(), &parts.steps);
    }
}
