//! How queries are admitted, ended and refused, through the router.
//!
//! Method: a source that tells when a scan waits and when it is given up, and that never answers queries for
//! `{app="slow"}`; time is simulated.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use sandur_base::{BoxFuture, Env, MemoryBudget, Shutdown};
use sandur_model::{BlockedQuery, Labels, Level, LogBatch, Matcher, TimeRange};
use sandur_query::{
    Error, FairQueue, Follow, MemoryRow, MemorySource, QueryContext, ResultsCache, Scan, Selection, Source,
    StreamVolume, TenantsSource,
};
use sandur_server::config::{Settings, TenantLimits};
use sandur_server::http::{App, AppState, Failure, Followers, Intake, ServerMetrics, router};
use tokio::sync::Notify;
use tower::ServiceExt;

const NOW: i64 = 1_795_240_900;

struct Nowhere;

impl Intake for Nowhere {
    fn push(&self, _batch: LogBatch) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { Ok(()) })
    }
}

/// Rows of each tenant; some scans never begin.
#[derive(Default)]
struct Slow {
    waiting: Notify,
    scans: AtomicUsize,
    given_up: AtomicUsize,
    context: Mutex<Option<QueryContext>>,
}

struct GivenUp<'a>(&'a AtomicUsize);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn rows(context: &QueryContext) -> MemorySource {
    let labels = Arc::new(Labels::from_pairs([("app", "api"), ("owner", context.tenant().as_str())]));
    let (timestamp, line) = ((NOW - 10) * 1_000_000_000, context.tenant().to_string().into());
    MemorySource::new(vec![MemoryRow { labels, timestamp, line, metadata: Vec::new(), level: Level::None }])
}

impl Source for Slow {
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        self.scans.fetch_add(1, Ordering::SeqCst);
        if selection.matchers.iter().any(|m| m.value() == "slow") {
            *self.context.lock().unwrap() = Some(context.clone());
            let guard = GivenUp(&self.given_up);
            self.waiting.notify_one();
            return Box::pin(async move {
                std::future::pending::<()>().await;
                drop(guard);
                Err(Error::Cancelled)
            });
        }
        Box::pin(async move { rows(context).scan(context, selection).await })
    }
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>> {
        Box::pin(async move { rows(context).streams(context, any_of, range).await })
    }
    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move { rows(context).label_names(context, matchers, range).await })
    }
    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move { rows(context).label_values(context, name, matchers, range).await })
    }
    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        Box::pin(async move { rows(context).volumes(context, matchers, range).await })
    }
    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        rows(context).follow(context, matchers)
    }
}

struct Server {
    router: Router,
    app: App,
    source: Arc<Slow>,
    _shutdown: Shutdown,
}

fn server(change: impl FnOnce(&mut Settings)) -> Server {
    let mut settings = Settings::default();
    change(&mut settings);
    let (shutdown, metrics, source) =
        (Shutdown::default(), ServerMetrics::default(), Arc::new(Slow::default()));
    let waiting = settings.query.max_queued as usize;
    let app = Arc::new(AppState {
        env: Env::simulated(1, NOW * 1_000_000_000),
        tenant_limits: Arc::new(TenantLimits::new(&settings)),
        settings,
        source: Arc::new(TenantsSource::new(source.clone())),
        intake: Arc::new(Nowhere),
        turns: FairQueue::new(1, waiting),
        results: ResultsCache::new(MemoryBudget::root("results", 1 << 20)),
        query_memory: MemoryBudget::root("all queries", 64 << 20),
        request_memory: MemoryBudget::root("request bodies", 64 << 20),
        rates: Default::default(),
        pressure: Default::default(),
        registry: metrics.clone().register(Registry::default()),
        metrics,
        ready: AtomicBool::new(true),
        stopping: shutdown.signal(),
        shutdown: shutdown.clone(),
        prepared: AtomicBool::new(false),
        followers: Followers::default(),
    });
    Server { router: router(app.clone()), app, source, _shutdown: shutdown }
}

impl Server {
    async fn get(&self, path: &str, pairs: &[(&str, &str)], headers: &[(&str, &str)]) -> (u16, String) {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let mut request = Request::builder().uri(format!("/loki/api/v1/{path}?{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn ask(&self, query: &str) -> (u16, String) {
        self.get("query_range", &[("query", query)], &[]).await
    }
}

const SLOW: &str = r#"{app="slow"}"#;

#[tokio::test(start_paused = true)]
async fn a_query_ends_with_its_client() {
    let server = server(|_| ());
    tokio::select! {
        _ = server.ask(SLOW) => panic!("nobody answers"),
        () = server.source.waiting.notified() => {}
    }
    assert_eq!(server.source.given_up.load(Ordering::SeqCst), 1, "the scan is given up");
    let context = server.source.context.lock().unwrap().take().unwrap();
    assert!(matches!(context.check(), Err(Error::Cancelled)), "pages that wait for a thread are not begun");
    assert_eq!((server.app.turns.running(), server.app.turns.waiting()), (0, 0));
    assert_eq!(server.app.metrics.queries_cancelled.get(), 1);
    let (_, page) = {
        let request = Request::builder().uri("/metrics").body(Body::empty()).unwrap();
        let response = server.router.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (0, String::from_utf8(body.to_vec()).unwrap())
    };
    assert!(page.contains("method=\"GET\",status=\"499\"} 1"), "{page}");
    // A client that leaves while it waits leaves the queue.
    let _turn = context_of(&server).turn().await.unwrap();
    let timed = server.app.env.timeout(std::time::Duration::from_secs(1), server.ask(r#"{app="api"}"#)).await;
    assert!(timed.is_none());
    assert_eq!(server.app.metrics.queries_cancelled.get(), 2);
    assert_eq!(server.source.scans.load(Ordering::SeqCst), 1);
}

fn context_of(server: &Server) -> QueryContext {
    server.app.query_context(&sandur_model::TenantId::default_tenant())
}

#[tokio::test(start_paused = true)]
async fn a_query_that_takes_too_long_is_ended() {
    let server = server(|s| s.limits.query_timeout = 5_000_000_000);
    let began = server.app.env.monotonic();
    let (status, text) = server.ask(SLOW).await;
    assert_eq!(
        (status, text.as_str()),
        (
            504,
            "request timed out, decrease the duration of the request or add more label matchers (prefer \
             exact match over regex match) to reduce the amount of data processed"
        )
    );
    assert_eq!((server.app.env.monotonic() - began).as_secs(), 5);
    assert_eq!((server.source.given_up.load(Ordering::SeqCst), server.app.turns.running()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn too_many_waiting_queries_are_refused() {
    let server = server(|s| s.query.max_queued = 1);
    let turn = context_of(&server).turn().await.unwrap();
    let second = server.ask(r#"{app="api"}"#);
    let third = async {
        while server.app.turns.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let refused = server.ask(r#"{app="api"}"#).await;
        drop(turn);
        refused
    };
    let (second, third) = tokio::join!(second, third);
    assert_eq!(third, (429, "too many outstanding requests".to_owned()));
    assert_eq!(second.0, 200);
    assert!(second.1.contains("\"queueTime\":"), "{}", second.1);
}

#[tokio::test(start_paused = true)]
async fn policies_and_required_labels_refuse_before_anything_is_read() {
    let server = server(|s| {
        s.limits.required_labels = vec!["app".to_owned()];
        let tags = [("source".to_owned(), "grafana".to_owned())].into();
        let policy = BlockedQuery { pattern: ".*boom.*".into(), regex: true, tags, ..Default::default() };
        s.limits.blocked_queries = vec![policy];
    });
    let (status, text) = server.ask(r#"{env="x"}"#).await;
    assert_eq!(
        (status, text.as_str()),
        (400, "stream selector is missing required matchers [app], labels present in the query were [env]")
    );
    let boom = [("query", r#"{app="api"} |= "boom""#)];
    let tagged = server.get("query_range", &boom, &[("X-Query-Tags", "Source=Grafana")]).await;
    assert_eq!(tagged, (400, "query blocked by policy".to_owned()));
    assert_eq!(server.source.scans.load(Ordering::SeqCst), 0);
    assert_eq!(server.get("query_range", &boom, &[]).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn several_tenants_are_one_when_that_is_enabled() {
    let two = [("X-Scope-OrgID", "b|a|b")];
    let off = server(|_| ());
    assert_eq!(off.get("labels", &[], &two).await.0, 400);
    let server = server(|s| s.query.multi_tenant = true);
    let (status, body) = server.get("query_range", &[("query", r#"{app="api"}"#)], &two).await;
    assert_eq!(status, 200, "{body}");
    for tenant in ["a", "b"] {
        let stream = format!(r#"{{"__tenant_id__":"{tenant}","app":"api","owner":"{tenant}"}}"#);
        assert!(body.contains(&stream), "{body}");
    }
    let counted = [("query", r#"sum by (__tenant_id__) (count_over_time({__tenant_id__=~"b|c"}[1m]))"#)];
    let (_, body) = server.get("query", &counted, &two).await;
    assert!(body.contains(r#""metric":{"__tenant_id__":"b"}"#) && !body.contains(r#""a""#), "{body}");
    let (_, body) = server.get("label/__tenant_id__/values", &[], &two).await;
    assert_eq!(body.trim(), r#"{"status":"success","data":["a","b"]}"#);
    let (_, body) = server.get("labels", &[], &two).await;
    assert_eq!(body.trim(), r#"{"status":"success","data":["__tenant_id__","app","owner"]}"#);
    let (status, text) = server.get("push", &[], &two).await;
    assert!(status == 405 || text.contains("org ID"), "{status} {text}");
    assert_eq!(server.get("labels", &[], &[("X-Scope-OrgID", "a|b/c")]).await.0, 400);
    assert_eq!(server.get("labels", &[], &[("X-Scope-OrgID", "a")]).await.0, 200);
}
