//! The HTTP side with given rows, without an engine and a network: requests go directly to the router,
//! time is simulated, and the intake records its input.

// No test needs all of it.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use sandur_base::{BoxFuture, Id};
use sandur_config::{Settings, TenantLimits};
use sandur_http::{App, AppState, DashboardFolder, Gate, OwnNames, ServerMetrics, Surface, router};
use sandur_ingest::{DeltaStreams, SeriesCache};
use sandur_listeners::carbon::{Carbon, CarbonParts};
use sandur_memory::MemoryBudget;
use sandur_model::{Batch, LogBatch, SampleBatch, SampleConflicts, Signal, TenantId};
use sandur_query::{
    FairQueue, LogSource, MemorySeries, MemorySource, ResultsCache, RowSelector, SampleSource, Sources,
};
use sandur_runtime::{Env, FairBudget, FairReservation, Shutdown};
use sandur_server::roles::query_options;
use sandur_service::query_log::SlowQueries;
use sandur_service::writes::BODY_PATIENCE;
use sandur_service::{
    DeleteShown, Deletes, Failure, Intake, LimitsOf, Queries, QueryMemory, QueryMetrics, QueryParts,
    WriteMetrics, WriteParts, Writes,
};
use sandur_store::Store;
use tokio::sync::Notify;
use tower::ServiceExt;

pub mod neighbours;
use neighbours::Neighbours;

/// The start of the simulated time, in seconds.
pub const NOW: i64 = 1_795_240_900;

/// Records its input.
#[derive(Default)]
pub struct Recorder {
    pub batches: Mutex<Vec<LogBatch>>,
    pub samples: Mutex<Vec<SampleBatch>>,
    /// The result of every push, flush and shutdown.
    pub failure: Mutex<Option<Failure>>,
    /// Samples that pushes report as not stored.
    pub conflicts: Mutex<SampleConflicts>,
    pub flushes_fail_for: Mutex<Option<Duration>>,
    /// Why pushes are refused now.
    pub refusal: Mutex<Option<Failure>>,
    /// Why the data of other processes may be out of date.
    pub staleness: Mutex<Option<Failure>>,
    /// Whether flushes and shutdowns wait for `go_on`.
    pub slow: AtomicBool,
    /// Whether pushes wait for `go_on`.
    pub slow_pushes: AtomicBool,
    pub go_on: Notify,
    /// Number of flushes and shutdowns that ended.
    pub ended: AtomicUsize,
    pub deletes: Arc<DeleteRecorder>,
}

/// Records queries, starts and ends of delete requests.
#[derive(Default)]
pub struct DeleteRecorder(pub Mutex<Vec<(String, i64, i64)>>);

impl Deletes for DeleteRecorder {
    fn check<'a>(&'a self, _: &'a TenantId, query: &'a str) -> BoxFuture<'a, Result<bool, Failure>> {
        let read = sandur_logql::DeleteQuery::new(query).map(|query| RowSelector::looks_at_rows(&query));
        Box::pin(async move { Ok(read?) })
    }

    fn create<'a>(
        &'a self,
        _: &'a TenantId,
        query: &'a str,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'a, Result<Id, Failure>> {
        let mut all = self.0.lock().unwrap();
        all.push((query.to_owned(), start_ms, end_ms));
        let id = Id(all.len() as u128);
        Box::pin(async move { Ok(id) })
    }

    fn list<'a>(&'a self, _: &'a TenantId) -> BoxFuture<'a, Result<Vec<DeleteShown>, Failure>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn cancel<'a>(&'a self, _: &'a TenantId, _: Id, _: bool) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
}

impl Recorder {
    fn outcome(&self) -> Result<(), Failure> {
        self.failure.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    async fn end(&self) -> Result<(), Failure> {
        if self.slow.load(Ordering::SeqCst) {
            self.go_on.notified().await;
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.outcome()
    }
}

impl Intake for Recorder {
    fn push(
        &self,
        batch: Batch,
        _held: Option<FairReservation>,
    ) -> BoxFuture<'_, Result<SampleConflicts, Failure>> {
        Box::pin(async move {
            if self.slow_pushes.load(Ordering::SeqCst) {
                self.go_on.notified().await;
            }
            self.admits_pushes()?;
            self.outcome()?;
            match batch {
                Batch::Logs(batch) => self.batches.lock().unwrap().push(batch),
                Batch::Metrics(batch) => self.samples.lock().unwrap().push(batch),
            }
            Ok(self.conflicts.lock().unwrap().clone())
        })
    }

    /// A recorder is never fenced.
    fn push_under(&self, batch: Batch, _: Id) -> BoxFuture<'_, Result<SampleConflicts, Failure>> {
        self.push(batch, None)
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.end())
    }

    fn writable(&self) -> Result<(), Failure> {
        self.refusal.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn admits_pushes(&self) -> Result<(), Failure> {
        self.writable()
    }

    fn has_fresh_view(&self) -> Result<(), Failure> {
        self.staleness.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn flushes_fail_for(&self) -> Option<Duration> {
        *self.flushes_fail_for.lock().unwrap()
    }

    fn deletes(&self, _: Signal) -> Option<Arc<dyn Deletes>> {
        Some(self.deletes.clone())
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.end())
    }
}

/// A server without a socket.
pub struct Server<I = Arc<Recorder>> {
    pub router: Router,
    pub app: App,
    pub intake: I,
    pub shutdown: Shutdown,
    pub neighbours: Arc<Neighbours>,
}

/// What a server consists of, apart from its HTTP side.
pub struct ServerParts {
    pub env: Env,
    pub settings: Settings,
    pub sources: Sources,
    pub intake: Arc<dyn Intake>,
    /// Metrics of these parts.
    pub registry: Registry,
}

/// The response to a request.
pub struct Answer {
    pub status: u16,
    pub kind: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    /// The part before the statistics.
    pub fn data(&self) -> &str {
        self.body.split(",\"stats\":{").next().unwrap()
    }
}

impl Server {
    /// Serves the rows of `source` with changed settings.
    pub fn over(source: Arc<dyn LogSource>, change: impl FnOnce(&mut Settings)) -> Self {
        Self::of(Sources { logs: source, samples: Arc::new(MemorySeries::default()) }, change)
    }

    /// The same with samples.
    pub fn over_samples(samples: Arc<dyn SampleSource>, change: impl FnOnce(&mut Settings)) -> Self {
        Self::of(Sources { logs: Arc::new(MemorySource::new(Vec::new())), samples }, change)
    }

    fn of(sources: Sources, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let env = Env::simulated(1, NOW * 1_000_000_000);
        let sources = sources.of_several_tenants();
        let recorder: Arc<Recorder> = Arc::default();
        let (intake, registry) = (recorder.clone(), Registry::default());
        Server::before(ServerParts { env, settings, sources, intake, registry }, recorder)
    }
}

impl<I> Server<I> {
    /// The HTTP side in front of the given parts; the test keeps `kept`.
    pub fn before(parts: ServerParts, kept: I) -> Self {
        let ServerParts { env, settings, sources, intake, mut registry } = parts;
        let (metrics, shutdown) = (ServerMetrics::default(), Shutdown::default());
        let (queries, writes) = services(&env, &settings, sources, intake);
        queries.metrics().register(&mut registry);
        writes.metrics().register(&mut registry);
        let carbon = Carbon::new(CarbonParts {
            env: env.clone(),
            options: settings.carbon.clone(),
            drain_timeout: settings.http.drain_timeout,
            writes: writes.clone(),
            stopping: shutdown.signal(),
        });
        carbon.metrics.register(&mut registry);
        let store =
            Store::open("memory://", env.clone(), Default::default()).now_or_never().unwrap().unwrap();
        let stored_rules =
            sandur_server::roles::stored_rules((&env, &settings), store, &queries, &Default::default());
        let neighbours = Arc::<Neighbours>::default();
        let dashboards = DashboardFolder::new(&settings.dashboards);
        let app = App::new(AppState {
            env,
            dashboards,
            settings: Arc::new(settings),
            queries,
            writes,
            others: neighbours.clone(),
            groups: Default::default(),
            registry: metrics.clone().register(registry),
            metrics,
            ready: AtomicBool::new(true),
            stopping: shutdown.signal(),
            shutdown: shutdown.clone(),
            ending: Default::default(),
            prepared: AtomicBool::new(false),
            rules: Default::default(),
            stored_rules,
            scraping: Default::default(),
            carbon,
        });
        let names = OwnNames::new("127.0.0.1:3100".parse().unwrap(), false, &app.settings.http.allowed_hosts);
        let gate = Gate::new(app.env.clone(), None, names, app.metrics.clone());
        let router = router(app.clone(), Surface::Whole, gate);
        Self { router, app, intake: kept, shutdown, neighbours }
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").map(|v| v.to_str().unwrap().to_owned());
        let headers = response.headers().clone();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        Answer { status, kind: kind.unwrap_or_default(), headers, body }
    }

    pub async fn get_with(&self, path: &str, pairs: &[(&str, &str)], headers: &[(&str, &str)]) -> Answer {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let mut request = Request::builder().uri(format!("{path}?{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub async fn get(&self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        self.get_with(path, pairs, &[]).await
    }

    /// A request with a body.
    pub async fn carry(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
        self.carry(Method::POST, path, headers, body).await
    }

    pub async fn push_json(&self, body: &str) -> Answer {
        self.post("/loki/api/v1/push", &[("content-type", "application/json")], body.to_owned()).await
    }
}

/// The services of the server.
fn services(env: &Env, settings: &Settings, sources: Sources, intake: Arc<dyn Intake>) -> (Queries, Writes) {
    let query = &settings.query;
    let running = if query.max_concurrent == 0 { 4 } else { query.max_concurrent };
    let limits = Arc::new(TenantLimits::new(settings));
    let limits_of: LimitsOf = Arc::new(move |tenant| limits.of(tenant));
    let queries = Queries::new(QueryParts {
        env: env.clone(),
        options: query_options(settings),
        sources,
        graphite_rules: Arc::new(Default::default),
        limits_of: limits_of.clone(),
        turns: FairQueue::new(running as usize, query.max_queued as usize),
        wide_turns: FairQueue::new(2, query.max_queued as usize),
        steps: ResultsCache::new(MemoryBudget::root("results", 1 << 20)),
        memory: QueryMemory::new(MemoryBudget::root("all queries", 64 << 20)),
        slow: SlowQueries::new(&MemoryBudget::root("slow queries", 1 << 20)),
        metrics: QueryMetrics::default(),
    });
    let bodies = MemoryBudget::root("request bodies", 64 << 20);
    let writes = Writes::new(WriteParts {
        env: env.clone(),
        intake,
        limits_of,
        series: Arc::new(SeriesCache::new(1 << 20, 1)),
        deltas: Arc::new(DeltaStreams::new(MemoryBudget::root("deltas", 1 << 20))),
        memory: FairBudget::new(env.clone(), bodies, BODY_PATIENCE),
        pressure: Default::default(),
        metrics: WriteMetrics::default(),
    });
    (queries, writes)
}
