//! Queries as a service: what every query of a tenant runs with, whichever language and protocol it comes by.
//!
//! A [`Queries`] hands out the context of a query (its memory, its deadline, its place in the queue, how far
//! back it sees) and the sources that it reads. The languages stand beside it: [`crate::logql`],
//! [`crate::promql`] and [`crate::graphite`].
//!
//! **Invariants.** Every query of samples reads them through [`Visible`], so that none sees what its tenant
//! may not. Every context is known to the governor, which can end it. A tenant's queries together hold at
//! most three quarters of the memory of queries.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_graphite::StorageRules;
use sandur_model::{Limits, TenantId};
use sandur_query::{Error, FairQueue, LogSource, QueryContext, ResultsCache, SampleSource, Sources};

use crate::caller::Caller;
use crate::followers::Followers;
use crate::metrics::QueryMetrics;
use crate::query_log::LinesBehind;
use crate::query_memory::QueryMemory;
use crate::running::RunningQueries;
use crate::visible::Visible;

/// The limits of a tenant at this moment.
pub type LimitsOf = Arc<dyn Fn(&TenantId) -> Arc<Limits> + Send + Sync>;
/// Graphite's storage rules at this moment.
pub type RulesNow = Arc<dyn Fn() -> Arc<StorageRules> + Send + Sync>;

/// What is configured for queries.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// Longest time of a query of samples.
    pub timeout: Duration,
    /// How old a sample may be that stands for an instant.
    pub lookback: Duration,
    /// Most samples that a query may hold at once.
    pub samples_max: u64,
    /// Whether evaluated steps are kept for later queries.
    pub keeps_steps: bool,
    /// A query that takes longer is logged as slow.
    pub slow_after: Duration,
}

/// What queries are made of.
pub struct QueryParts {
    /// Clock, tasks and the CPU pool.
    pub env: Env,
    /// Configuration.
    pub options: QueryOptions,
    /// What queries read from.
    pub sources: Sources,
    /// Storage schemas and aggregation rules of Graphite: the steps at which series are read.
    pub graphite_rules: RulesNow,
    /// Limits of tenants.
    pub limits_of: LimitsOf,
    /// Admission; each piece of a query waits for its turn.
    pub turns: FairQueue,
    /// Steps that were evaluated before.
    pub steps: ResultsCache,
    /// The memory budget of all queries.
    pub memory: QueryMemory,
    /// Counters.
    pub metrics: QueryMetrics,
}

/// The service of queries. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Queries(Arc<Inner>);

struct Inner {
    parts: QueryParts,
    running: RunningQueries,
    followers: Followers,
    lines: LinesBehind,
}

impl Queries {
    /// A service of these parts.
    pub fn new(parts: QueryParts) -> Self {
        let followers = Followers::default();
        Self(Arc::new(Inner {
            parts,
            running: RunningQueries::default(),
            followers,
            lines: LinesBehind::default(),
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

    /// Queries that run, for the code that has to end one.
    pub fn running(&self) -> &RunningQueries {
        &self.0.running
    }

    /// Admission of queries.
    pub fn turns(&self) -> &FairQueue {
        &self.0.parts.turns
    }

    /// Steps that were evaluated before.
    pub fn steps(&self) -> &ResultsCache {
        &self.0.parts.steps
    }

    /// Clients that follow new lines.
    pub fn followers(&self) -> &Followers {
        &self.0.followers
    }

    /// Lines of the log of queries.
    pub(crate) fn lines(&self) -> &LinesBehind {
        &self.0.lines
    }

    /// Log rows.
    pub fn logs(&self) -> &dyn LogSource {
        &*self.0.parts.sources.logs
    }

    /// Samples as they are stored, for writes that look up what is there.
    pub fn stored_samples(&self) -> &dyn SampleSource {
        &*self.0.parts.sources.samples
    }

    /// Samples as PromQL sees them.
    pub fn samples(&self) -> Visible<'_> {
        Visible::new(&*self.0.parts.sources.samples)
    }

    /// Samples with the rollups of Graphite's paths.
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

    /// A context for one query of samples. `timeout` is the client's; it only shortens the configured
    /// one.
    pub fn samples_context(&self, tenant: &TenantId, timeout: Option<Duration>) -> QueryContext {
        let most = self.options().timeout;
        self.context_within(tenant, timeout.map_or(most, |timeout| timeout.min(most)))
    }

    fn context_within(&self, tenant: &TenantId, timeout: Duration) -> QueryContext {
        let (parts, limits) = (&self.0.parts, self.limits(tenant));
        let share = match limits.max_query_memory {
            // Half: one query can use much, and two cannot take all for long.
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
        parts.metrics.observe(&parts.turns, self.0.followers.total(), &parts.steps);
    }
}
