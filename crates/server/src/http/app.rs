//! What every handler needs, behind one shared handle, and the seam to the write path.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::registry::Registry;
use sandur_base::{
    BoxFuture, Claim, Env, ErrorKind, FairMemory, Id, KeyedTurns, MemoryBudget, Shutdown, ShutdownSignal,
    Task,
};
use sandur_ingest::{DeltaStreams, RateLimiter, SeriesCache};
use sandur_model::{Batch, Dataset, Limits, SampleBatch, SampleConflicts, Signal, TenantId};
use sandur_query::{FairQueue, QueryContext, ResultsCache, Sources};

use super::delete_requests::Deletes;
use super::query_log::LinesBehind;
use super::refusal_log::RefusalLog;
use super::scrape_state::ScrapeState;
use crate::carbon::CarbonState;
use crate::config::{Settings, TenantLimits};
use crate::failed_request::Failure;
use crate::graphite_rules::GraphiteRules;
use crate::memory::{Pressure, QueryMemory, RunningQueries};
use crate::server_metrics::ServerMetrics;

/// Where accepted batches of either signal go. The engine in a server; a recorder in tests.
pub trait Intake: Send + Sync {
    /// Returns when the batch is durable and can be queried, with the samples that were not stored because
    /// their series has another value for the same instant. `held` is the memory of the request, which is
    /// given back when the batch has memory of its own.
    fn push(&self, batch: Batch, held: Option<Claim>) -> BoxFuture<'_, Result<SampleConflicts, Failure>>;
    /// Returns when everything acknowledged so far is in blocks.
    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>>;
    /// Whether pushes can be acknowledged now; the failure says why not.
    fn writable(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Fails when a push would be refused at once: asked before a body is read, and before a rate of the
    /// tenant is used up for what will not be stored.
    fn admits_pushes(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Whether what other processes have stored is known; the failure says why not.
    fn has_fresh_view(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// How long rows could not be put into blocks; nothing when that works.
    fn flushes_fail_for(&self) -> Option<Duration> {
        None
    }
    /// Positions of the series of a batch with which its tenant would have more than `most` in memory.
    fn series_beyond(&self, _batch: &SampleBatch, _most: u64) -> Vec<u32> {
        Vec::new()
    }
    /// Requests to delete rows of a signal; `None` where there is nothing to delete from.
    fn deletes(&self, _signal: Signal) -> Option<Arc<dyn Deletes>> {
        None
    }
    /// The blocks of a dataset.
    fn blocks(&self, _dataset: &Dataset) -> Vec<BlockShown> {
        Vec::new()
    }
    /// Brings gauges up to date before they are shown.
    fn observe(&self) {}
    /// Memory budgets that are shown.
    fn budgets(&self) -> Vec<MemoryBudget> {
        Vec::new()
    }
    /// What was asked of the store and what it costs, for people.
    fn store_report(&self) -> String {
        String::new()
    }
    /// Takes no more, flushes and ends all work.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>>;
}

/// A block as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockShown {
    /// Its id.
    pub id: Id,
    /// First and last millisecond that it has rows of.
    pub first_ms: i64,
    /// See above.
    pub last_ms: i64,
    /// Rows.
    pub samples: u64,
    /// Series.
    pub series: u32,
    /// Pages.
    pub pages: u32,
    /// How often it was merged.
    pub level: u8,
}

/// Shared state of all handlers. Cheap to clone.
pub type App = Arc<AppState>;

/// What handlers need.
pub struct AppState {
    /// The world.
    pub env: Env,
    /// Configuration.
    pub settings: Settings,
    /// What is logged of refused pushes.
    pub refusals: RefusalLog,
    /// Lines of queries that are to be logged.
    pub query_lines: LinesBehind,
    /// Where rows come from.
    pub sources: Sources,
    /// Where rows go.
    pub intake: Arc<dyn Intake>,
    /// At which steps Graphite's series are read.
    pub graphite: Arc<GraphiteRules>,
    /// Limits of tenants now.
    pub tenant_limits: Arc<TenantLimits>,
    /// Turns of queries; each piece of a query waits for one.
    pub turns: FairQueue,
    /// Results of metric range queries.
    pub results: ResultsCache,
    /// Memory of all queries.
    pub query_memory: QueryMemory,
    /// Queries that run, for the governor.
    pub running: RunningQueries,
    /// Memory of request bodies that are being received and decoded.
    pub request_memory: FairMemory,
    /// Ingestion rates of tenants.
    pub rates: RateLimiter,
    /// Series that pushes brought before.
    pub series: Arc<SeriesCache>,
    /// What series of delta temporality add up to.
    pub deltas: Arc<DeltaStreams>,
    /// Turns of those who change a group of a Pushgateway.
    pub groups: KeyedTurns,
    /// Whether resident memory is close to its limit.
    pub pressure: Pressure,
    /// Counters of the server.
    pub metrics: ServerMetrics,
    /// Metrics of the whole process.
    pub registry: Registry,
    /// Whether requests shall be sent here.
    pub ready: AtomicBool,
    /// Triggered when the server stops.
    pub stopping: ShutdownSignal,
    /// Stops the server when it is triggered.
    pub shutdown: Shutdown,
    /// The work that a request to stop began: it outlives the request.
    pub ending: Mutex<Option<Task<()>>>,
    /// Whether it was announced that this process will be scaled down.
    pub prepared: AtomicBool,
    /// What this process scrapes, once it does.
    pub scraping: OnceLock<Arc<dyn ScrapeState>>,
    /// Followers per tenant.
    pub followers: Followers,
    /// What listeners of Graphite's protocols counted.
    pub carbon: CarbonState,
}

impl AppState {
    /// The limits of a tenant.
    pub fn limits(&self, tenant: &TenantId) -> Arc<Limits> {
        self.tenant_limits.of(tenant)
    }

    /// A context for one query of the tenant.
    pub fn query_context(&self, tenant: &TenantId) -> QueryContext {
        self.context_within(tenant, timeout_of(&self.limits(tenant)))
    }

    /// A context for one query of samples, which may ask to end earlier than it has to.
    pub fn metrics_context(&self, tenant: &TenantId, timeout: Option<Duration>) -> QueryContext {
        let most = self.settings.query.timeout;
        self.context_within(tenant, timeout.map_or(most, |timeout| timeout.min(most)))
    }

    /// Fails when a policy of the tenant blocks a query of samples.
    pub fn check_blocked(
        &self,
        tenant: &TenantId,
        query: &str,
        tags: &[(String, String)],
    ) -> Result<(), sandur_query::Error> {
        sandur_logql::check_blocked_kind("metric", query, tags, &self.limits(tenant))
    }

    fn context_within(&self, tenant: &TenantId, timeout: Duration) -> QueryContext {
        let limits = self.limits(tenant);
        let share = match limits.max_query_memory {
            // Half: one query alone gets far, two cannot starve a third for long.
            0 => self.query_memory.all().limit() / 2,
            bytes => bytes,
        };
        let budget = self.query_memory.of(tenant).child("query", share);
        let context = QueryContext::new(self.env.clone(), tenant.clone(), budget, timeout)
            .with_queue(self.turns.clone())
            .with_parallelism(limits.max_query_parallelism as usize);
        self.running.add(&context);
        let context = match limits.max_query_lookback {
            0 => context,
            lookback => context.with_earliest(self.env.now_ns().saturating_sub(lookback)),
        };
        if self.settings.query.cache_results { context.with_results(self.results.clone()) } else { context }
    }

    /// Whether requests shall be sent here.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) && !self.stopping.is_triggered()
    }
}

/// How long a query may take.
fn timeout_of(limits: &Limits) -> Duration {
    match limits.query_timeout {
        0 => Duration::MAX,
        ns => Duration::from_nanos(ns.unsigned_abs()),
    }
}

/// Counts followers, because each holds a connection and a queue for as long as it likes.
#[derive(Default)]
pub struct Followers(Mutex<HashMap<TenantId, u64>>);

/// The right to follow; dropping it makes room for another.
pub struct Following {
    app: App,
    tenant: TenantId,
}

impl Followers {
    /// Counts one more follower of the tenant, if its limit allows.
    pub fn enter(app: &App, tenant: &TenantId) -> Result<Following, Failure> {
        let limit = app.limits(tenant).max_concurrent_tail_requests;
        let mut counts = app.followers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(tenant.clone()).or_default();
        if limit > 0 && *count >= limit {
            let text = format!(
                "max concurrent tail requests limit exceeded, count > limit ({} > {limit})",
                *count + 1
            );
            return Err(Failure::new(ErrorKind::Limit, text));
        }
        *count += 1;
        Ok(Following { app: Arc::clone(app), tenant: tenant.clone() })
    }

    /// All followers.
    pub fn total(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut counts = self.app.followers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}
