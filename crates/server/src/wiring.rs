//! Where the server meets the other crates' entry points: decoders and the query language.
//!
//! Handlers name nothing of those crates but what stands here, so that a change of an entry point is
//! a change of this file.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::registry::Registry;
use sandur_base::{BoxFuture, Claim, Env, Id, MemoryBudget};
use sandur_cache::Cache;
use sandur_catalog::GcOptions;
use sandur_engine::{
    CancelRefusal, CompactionPolicy, DeleteOptions, DeleteStatus, Engine, EngineOptions, MaintenanceOptions,
};
use sandur_format::catalog_entry::DELETE_QUERY_BYTES_MAX;
pub use sandur_ingest::LEVEL_KEYS;
use sandur_ingest::{Decoded, PushHeaders};
pub use sandur_logql::query_hash;
use sandur_logql::{DeleteQuery, Expr};
pub use sandur_logql::{
    Diagnosis, FieldParser, Highlights, Kind as QueryKind, PatternSeries, PatternsRequest,
    Request as QueryText, diagnose, format_go_duration, labels_text, line_fields, parse_go_duration, quote,
};
use sandur_model::{Batch, Dataset, Limits, LogPage, Matcher, TenantId};
use sandur_query::{
    Direction, LogRow, LogSource, QueryContext, QueryResult, RowSelector, Series, TenantsSource,
};
use sandur_store::{Manners, Store, StoreKind, StoreOptions, TenantRates};

use crate::block_cache;
use crate::cli::Failed;
use crate::config::{Settings, Storage, TenantLimits};
use crate::http::{DeleteShown, Deletes, Failure, Intake, no_such_delete};
use crate::memory::Shares;

/// Bytes of the largest object that is sent in one request when memory is scarce, and when it is not.
const WHOLE_UPLOAD_LEAST: usize = 16 << 20;
const WHOLE_UPLOAD_MOST: usize = 64 << 20;

/// An engine that is ready, as the server uses it.
pub struct Opened {
    /// Where rows come from.
    pub source: Arc<dyn LogSource>,
    /// Where rows go.
    pub intake: Arc<dyn Intake>,
    /// Metrics of the crates below.
    pub registry: Registry,
    /// What an acknowledgement means here, for people.
    pub durability: String,
}

/// Opens the store and the engine.
pub async fn open(
    env: &Env,
    settings: &Settings,
    shares: &Shares,
    limits: Arc<TenantLimits>,
    address: SocketAddr,
) -> Result<Opened, Failed> {
    let manners = manners(&settings.storage, shares, Arc::clone(&limits));
    let store =
        Store::open(&settings.store, env.clone(), StoreOptions { manners, ..StoreOptions::default() });
    let store = store.await.map_err(|e| Failed::new(e.to_string()))?;
    let durability = match store.kind() {
        StoreKind::Local { root } => format!("acknowledged means fsynced to {}", root.display()),
        StoreKind::Bucket => format!("acknowledged means stored in {}", store.url()),
        StoreKind::Memory => "none: the store is this process's memory".to_owned(),
    };
    let has_bucket = matches!(store.kind(), StoreKind::Bucket);
    let cache = block_cache::open(env, &settings.cache, shares.cache, has_bucket);
    let options =
        EngineOptions { cache: Some(cache.clone()), ..engine_options(settings, shares, limits, address) };
    let engine = Engine::open(store.clone(), env.clone(), options).await;
    let engine = engine.map_err(|e| Failed::new(format!("cannot open the store: {e}")))?;
    let mut registry = Registry::default();
    store.meter().register(&mut registry);
    engine.catalog().metrics().register(&mut registry);
    engine.metrics().register(&mut registry);
    cache.register(&mut registry);
    let source = Arc::new(TenantsSource::new(engine.source()));
    Ok(Opened { source, intake: Arc::new(EngineIntake { engine, cache }), registry, durability })
}

fn manners(storage: &Storage, shares: &Shares, limits: Arc<TenantLimits>) -> Manners {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Manners {
        concurrent_reads_max: count(storage.max_concurrent_reads),
        concurrent_writes_max: count(storage.max_concurrent_writes),
        waiting_max: usize::try_from(storage.max_waiting).unwrap_or(usize::MAX),
        hedge_percent: count(storage.hedging_max_percent),
        hedge_after_min: storage.hedging_at,
        retry_percent: count(storage.retry_max_percent),
        range_gap_max: storage.range_gap_max,
        range_request_max: storage.range_request_max,
        whole_upload_max: whole_upload_max(shares),
        rates_of: Arc::new(move |tenant| {
            let limits = limits.of_one(tenant);
            TenantRates {
                requests_per_second: limits.store_request_rate,
                requests_burst: limits.store_request_burst,
                bytes_per_second: limits.store_read_rate,
                bytes_burst: limits.store_read_burst,
            }
        }),
        prices: storage.prices,
    }
}

/// What an upload may hold before it is sent: more saves requests, and takes memory of what is written.
fn whole_upload_max(shares: &Shares) -> usize {
    let eighth = usize::try_from(shares.write / 8).unwrap_or(usize::MAX);
    eighth.clamp(WHOLE_UPLOAD_LEAST, WHOLE_UPLOAD_MOST)
}

fn engine_options(
    settings: &Settings,
    shares: &Shares,
    limits: Arc<TenantLimits>,
    address: SocketAddr,
) -> EngineOptions {
    let defaults = MaintenanceOptions::default();
    let kept = Arc::clone(&limits);
    let maintenance = MaintenanceOptions {
        interval: settings.compaction.interval,
        gc_interval: settings.retention.interval,
        compaction: CompactionPolicy {
            block_raw_bytes_max: settings.compaction.block_max,
            ..CompactionPolicy::default()
        },
        compaction_budget: MemoryBudget::root("compaction", shares.compaction),
        gc: GcOptions { grace: settings.retention.delete_delay, ..GcOptions::default() },
        retention_of: Arc::new(move |dataset| kept.of(&dataset.tenant).retention_period),
        ..defaults
    };
    EngineOptions {
        write_budget: MemoryBudget::root("write", shares.write),
        flush_bytes: settings.flush.max_bytes,
        flush_parallelism: shares.flush_parallelism(),
        flush_age: settings.flush.max_age,
        wal_frame_bytes: settings.wal.group_bytes,
        wal_linger: settings.wal.group_age,
        wal_requests_per_second: settings.wal.requests_per_second,
        wal_requests_burst: settings.wal.requests_burst as f64,
        poll_interval: settings.cluster.poll_interval,
        heartbeat_interval: settings.cluster.heartbeat_interval,
        dead_after: settings.cluster.dead_after,
        address: address.to_string(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        maintenance,
        deletes: delete_options(settings, limits),
        ..EngineOptions::default()
    }
}

fn delete_options(settings: &Settings, limits: Arc<TenantLimits>) -> DeleteOptions {
    DeleteOptions {
        cancel_period: settings.compaction.delete_request_cancel_period,
        mode_of: Arc::new(move |tenant| limits.of(tenant).deletion_mode),
        compile: Arc::new(|text| Ok(Arc::new(DeleteQuery::new(text)?))),
    }
}

/// The engine as handlers see it.
struct EngineIntake {
    engine: Arc<Engine>,
    cache: Cache,
}

/// How long a stop waits for what is in memory alone to be written to flash.
const CACHE_PATIENCE: Duration = Duration::from_secs(10);

fn failure(error: sandur_engine::Error) -> Failure {
    Failure::new(error.kind(), error.to_string())
}

impl Intake for EngineIntake {
    fn push(&self, batch: Batch, held: Option<Claim>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move { self.engine.push_holding(batch, held).await.map_err(failure) })
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move { self.engine.flush().await.map_err(failure) })
    }

    fn writable(&self) -> Result<(), Failure> {
        self.engine.writable().map_err(|error| match error {
            // Only people can mend that.
            lost @ sandur_engine::Error::CatalogLost { .. } => {
                Failure::new(sandur_base::ErrorKind::Corrupt, lost.to_string())
            }
            error => failure(error),
        })
    }

    fn deletes(&self) -> Option<Arc<dyn Deletes>> {
        Some(Arc::new(EngineDeletes(Arc::clone(&self.engine))))
    }

    fn observe(&self) {
        // Reading them brings the gauges of the heads up to date.
        self.engine.metrics();
        self.engine.store().meter();
    }

    fn store_report(&self) -> String {
        self.engine.store_report()
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            let ended = self.engine.shutdown().await.map_err(failure);
            let cache = self.cache.clone();
            self.engine.env().run_blocking(move || cache.close(CACHE_PATIENCE)).await;
            ended
        })
    }
}

/// Reads a push in Loki's JSON.
pub fn decode_push(tenant: &TenantId, limits: &Limits, now_ns: i64, body: Bytes) -> Result<Decoded, String> {
    let headers = PushHeaders { content_type: Some("application/json"), content_encoding: None };
    sandur_ingest::loki_push(tenant, limits, now_ns, headers, body).map_err(|error| error.to_string())
}

/// The delete requests of the engine as handlers see them.
struct EngineDeletes(Arc<Engine>);

impl Deletes for EngineDeletes {
    fn create<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a str,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'a, Result<Id, Failure>> {
        let logs = Dataset::logs(tenant.clone());
        Box::pin(async move { self.0.create_delete(&logs, query, start_ms, end_ms).await.map_err(failure) })
    }

    fn list<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<DeleteShown>, Failure>> {
        let shown = |DeleteStatus { record, percent }| {
            let request = record.request;
            DeleteShown {
                id: request.id,
                start_ms: request.start_ms,
                end_ms: request.end_ms,
                created_ms: request.created_ms,
                query: request.query,
                percent,
            }
        };
        Box::pin(async move {
            let all = self.0.deletes(&Dataset::logs(tenant.clone())).await.map_err(failure)?;
            Ok(all.into_iter().map(shown).collect())
        })
    }

    fn cancel<'a>(&'a self, tenant: &'a TenantId, id: Id, force: bool) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            self.0.cancel_delete(&Dataset::logs(tenant.clone()), id, force).await.map_err(cancel_failure)
        })
    }
}

/// A refused cancellation in Loki's words.
fn cancel_failure(error: sandur_engine::Error) -> Failure {
    let sandur_engine::Error::Cancel(refusal) = error else { return failure(error) };
    match refusal {
        CancelRefusal::Unknown => no_such_delete(),
        CancelRefusal::Processed => {
            Failure::invalid("deletion of request which is in process or already processed is not allowed\n")
        }
        CancelRefusal::Late { period } => {
            let period = format_go_duration(i64::try_from(period.as_nanos()).unwrap_or(i64::MAX));
            Failure::invalid(format!(
                "Cancellation of partially completed delete request or delete request past the deadline of \
                 {period} since its creation is not allowed. To force, use the ?force query parameter\n"
            ))
        }
    }
}

/// Whether the query of a delete request looks at lines or metadata; a failure when it is not one.
pub async fn check_delete_query(context: &QueryContext, text: &str) -> Result<bool, Failure> {
    let read =
        on_text(context, text, |text| DeleteQuery::new(text).map(|query| query.looks_at_rows())).await?;
    let looks_at_rows = read.map_err(|error| Failure::invalid(format!("{error}\n")))?;
    if text.len() > DELETE_QUERY_BYTES_MAX {
        let text = format!("the query is longer than {DELETE_QUERY_BYTES_MAX} bytes; split it\n");
        return Err(Failure::invalid(text));
    }
    Ok(looks_at_rows)
}

/// The text of a query, parsed once for everything that asks about it; or why it is no query.
pub struct ParsedQuery(Result<Expr, sandur_query::Error>);

impl ParsedQuery {
    /// Parses in the tenant's turn on the CPU pool; but not a text with more matchers than there may be.
    pub async fn read(context: &QueryContext, limits: &Limits, text: &str) -> Result<Self, Failure> {
        if let Err(error) = sandur_logql::check_matcher_counts(text, limits) {
            return Ok(Self(Err(error)));
        }
        on_text(context, text, Self::of_text).await
    }

    /// Parses where it is called.
    pub fn of_text(text: &str) -> Self {
        Self(sandur_logql::parse(text).map_err(Into::into))
    }

    /// The kind of the query in Loki's words: `metric`, `filter` (a stage may drop lines), `limited` (none
    /// does); nothing for what is no query.
    pub fn query_type(&self) -> &'static str {
        self.0.as_ref().map_or("", sandur_logql::query_type)
    }

    /// Refuses a metric query where lines are wanted, in Loki's words.
    pub fn of_lines(self) -> Result<Self, Failure> {
        let expr = self.0?;
        is_log_query(&expr)?;
        Ok(Self(Ok(expr)))
    }
}

/// Runs a query that was parsed from the text of the request. `tags` are those of the request.
pub async fn query(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    tags: &[(String, String)],
    (parsed, request): (ParsedQuery, QueryText),
) -> Result<QueryResult, Failure> {
    if request.query.trim().is_empty() {
        return Err(Failure::invalid(EMPTY_QUERY));
    }
    let parsed = parsed.0?;
    sandur_logql::check_blocked(&parsed, &request.query, tags, limits)?;
    Ok(sandur_logql::query_parsed(source, context, limits, &parsed, &request).await?)
}

/// Bytes of lines in a window before each of the instants, of the streams that match, summed by some of their
/// labels. Limits on the queries of the tenant do not concern it.
pub async fn bytes_by_labels(
    source: &dyn LogSource,
    context: &QueryContext,
    (matchers, labels): (Vec<Matcher>, Vec<String>),
    kind: QueryKind,
    window_ns: i64,
) -> Result<Vec<Series>, Failure> {
    let query = sandur_logql::bytes_by_labels(matchers, labels, window_ns);
    let limits = Limits { max_query_length: 0, max_query_range: 0, max_query_series: 0, ..Limits::default() };
    let (direction, text) = (Direction::Backward, String::new());
    let request = QueryText { query: text, kind, limit: 1, direction, interval_ns: 0 };
    match sandur_logql::query_parsed(source, context, &limits, &query, &request).await? {
        QueryResult::Matrix(series) | QueryResult::Vector(series) => Ok(series),
        QueryResult::Streams(_) | QueryResult::Scalar(_) => Ok(Vec::new()),
    }
}

/// Fails when a time is longer than the tenant may ask for.
pub fn check_length(start_ns: i64, end_ns: i64, limits: &Limits) -> Result<(), Failure> {
    Ok(sandur_logql::check_length(start_ns, end_ns, limits)?)
}

/// What Loki says when there is no query.
pub const EMPTY_QUERY: &str = "parse error : syntax error: unexpected $end";

/// The matchers of a selector.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>, Failure> {
    Ok(sandur_logql::parse_selector(text)?)
}

/// Fails when selectors, and `others` matchers beside them, are more than a request may have.
pub fn check_selector_sizes<'a>(
    texts: impl Iterator<Item = &'a str>,
    others: usize,
    limits: &Limits,
) -> Result<(), Failure> {
    Ok(sandur_logql::check_selector_sizes(texts, others as u64, limits)?)
}

/// Reads a selector that asks for more than the absence of labels.
pub fn parse_selecting(text: &str) -> Result<Vec<Matcher>, Failure> {
    Ok(sandur_logql::parse_selecting(text)?)
}

/// A log query that can be run over pages as they come.
pub struct LineQuery(sandur_logql::LogQuery);

impl LineQuery {
    /// Conditions on streams.
    pub fn matchers(&self) -> Vec<Matcher> {
        self.0.matchers().to_vec()
    }

    /// Appends the rows of the page that pass, by time.
    pub fn process(&self, page: &LogPage, rows: &mut Vec<LogRow>) {
        self.0.process_page(page, rows);
    }
}

/// Compiles a log query for a follower.
pub fn compile_log_query(text: &str, limits: &Limits) -> Result<LineQuery, Failure> {
    sandur_logql::check_matcher_counts(text, limits)?;
    is_log_query(&sandur_logql::parse(text).map_err(sandur_query::Error::from)?)?;
    Ok(LineQuery(sandur_logql::compile_log_query(text)?))
}

fn is_log_query(expr: &Expr) -> Result<(), Failure> {
    match expr {
        Expr::Log(_) => Ok(()),
        Expr::Metric(_) => Err(Failure::invalid("only log selector is supported")),
    }
}

/// Work on the text of a query, which may have to be parsed for it: in the tenant's turn on the CPU pool.
pub async fn on_text<T: Send + 'static>(
    context: &QueryContext,
    text: &str,
    work: impl FnOnce(&str) -> T + Send + 'static,
) -> Result<T, Failure> {
    on_texts(context, vec![text.to_owned()], |texts| work(&texts[0])).await
}

/// The same on several texts.
pub async fn on_texts<T: Send + 'static>(
    context: &QueryContext,
    texts: Vec<String>,
    work: impl FnOnce(&[String]) -> T + Send + 'static,
) -> Result<T, Failure> {
    let is_little = texts.len() <= TEXTS_AT_ONCE && texts.iter().all(|text| sandur_logql::is_short(text));
    Ok(context.compute_sized(is_little, move || Ok(work(&texts))).await?)
}

/// So many short texts are read where they are needed.
const TEXTS_AT_ONCE: usize = 4;

/// A query laid out for people.
pub fn format_query(text: &str) -> Result<String, Failure> {
    let parsed = sandur_logql::parse(text).map_err(sandur_query::Error::from)?;
    Ok(sandur_logql::pretty(&parsed))
}

/// What the lines of streams look like.
pub async fn patterns(
    source: &dyn LogSource,
    context: &QueryContext,
    request: PatternsRequest,
) -> Result<Vec<PatternSeries>, Failure> {
    Ok(sandur_logql::patterns(source, context, request).await?)
}
