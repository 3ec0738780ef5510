//! How queries are admitted, aborted and refused, through the router.
//!
//! Method: a source that reports when a scan waits and when it is dropped, and that never answers queries
//! for `{app="slow"}`; time is simulated.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Method;
use sandur_base::BoxFuture;
use sandur_config::Settings;
use sandur_model::{BlockedQuery, Labels, Level, TenantId};
use sandur_query::{Error, MemoryRow, MemorySource, QueryContext, Selection};
use tokio::sync::Notify;

use crate::harness::NOW;

/// The state of the scans.
#[derive(Default)]
struct Scans {
    waiting: Notify,
    begun: AtomicUsize,
    given_up: AtomicUsize,
    context: Mutex<Option<QueryContext>>,
}

struct GivenUp(Arc<Scans>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.given_up.fetch_add(1, Ordering::SeqCst);
    }
}

impl Scans {
    /// Scans for `{app="slow"}` never begin.
    fn begin(
        self: &Arc<Self>,
        context: &QueryContext,
        selection: &Selection,
    ) -> BoxFuture<'static, Result<(), Error>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        if !selection.matchers.iter().any(|m| m.value() == "slow") {
            return Box::pin(async { Ok(()) });
        }
        *self.context.lock().unwrap() = Some(context.clone());
        let guard = GivenUp(Arc::clone(self));
        self.waiting.notify_one();
        Box::pin(async move {
            let _guard = guard;
            std::future::pending().await
        })
    }
}

fn row(tenant: &str) -> MemoryRow {
    let labels = Arc::new(Labels::from_pairs([("app", "api"), ("owner", tenant)]));
    let (timestamp, line) = ((NOW - 10) * 1_000_000_000, tenant.to_owned().into());
    MemoryRow { labels, timestamp, line, metadata: Vec::new(), level: Level::None }
}

struct Server {
    inner: crate::harness::Server,
    scans: Arc<Scans>,
}

impl std::ops::Deref for Server {
    type Target = crate::harness::Server;

    fn deref(&self) -> &crate::harness::Server {
        &self.inner
    }
}

fn server(change: impl FnOnce(&mut Settings)) -> Server {
    let scans = Arc::new(Scans::default());
    let hook = Arc::clone(&scans);
    let mut source = MemorySource::new(Vec::new())
        .before_scan(move |context: &QueryContext, selection: &Selection| hook.begin(context, selection));
    for tenant in ["fake", "a", "b"] {
        source = source.of_tenant(TenantId::new(tenant).unwrap(), vec![row(tenant)]);
    }
    let change = |settings: &mut Settings| {
        settings.query.max_concurrent = 1;
        change(settings);
    };
    Server { inner: crate::harness::Server::over(Arc::new(source), change), scans }
}

impl Server {
    async fn api(&self, path: &str, pairs: &[(&str, &str)], headers: &[(&str, &str)]) -> (u16, String) {
        let answer = self.get_with(&format!("/loki/api/v1/{path}"), pairs, headers).await;
        (answer.status, answer.body)
    }

    async fn ask(&self, query: &str) -> (u16, String) {
        self.api("query_range", &[("query", query)], &[]).await
    }
}

const SLOW: &str = r#"{app="slow"}"#;

/// The ids and texts of the running queries that a path lists.
async fn listed(server: &Server, path: &str, headers: &[(&str, &str)]) -> Vec<(String, String, String)> {
    let answer = server.get_with(path, &[], headers).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let listed: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let text = |query: &serde_json::Value, name: &str| query[name].as_str().unwrap().to_owned();
    let all = listed["queries"].as_array().unwrap().iter();
    all.map(|query| (text(query, "id"), text(query, "tenant"), text(query, "query"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_running_query_is_listed_and_an_operator_can_end_it() {
    let server = server(|_| ());
    let ask = server.api("query_range", &[("query", SLOW)], &[("x-scope-orgid", "a")]);
    let operate = async {
        server.scans.waiting.notified().await;
        let own = listed(&server, "/sandur/queries", &[("x-scope-orgid", "a")]).await;
        assert_eq!(
            own.iter().map(|(_, tenant, text)| (&**tenant, &**text)).collect::<Vec<_>>(),
            [("a", SLOW)]
        );
        assert!(
            listed(&server, "/sandur/queries", &[("x-scope-orgid", "b")]).await.is_empty(),
            "another tenant"
        );
        assert_eq!(listed(&server, "/sandur/queries/all", &[]).await, own);
        for unknown in ["999", "x", "-1", "18446744073709551616"] {
            let answer = server.carry(Method::DELETE, &format!("/sandur/queries/{unknown}"), &[], "").await;
            assert_eq!(answer.status, 404, "{unknown}");
        }
        server.carry(Method::DELETE, &format!("/sandur/queries/{}", own[0].0), &[], "").await.status
    };
    let ((status, body), ended) = tokio::join!(ask, operate);
    assert_eq!((status, ended), (400, 204));
    assert!(body.contains("ended by an operator"), "{body}");
    assert_eq!(server.scans.given_up.load(Ordering::SeqCst), 1, "the scan is dropped");
    assert!(listed(&server, "/sandur/queries/all", &[]).await.is_empty());
    assert_eq!((server.app.queries.turns().running(), server.app.queries.turns().waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_dropped_is_not_listed_any_more() {
    let server = server(|_| ());
    tokio::select! {
        _ = server.ask(SLOW) => panic!("there is no answer"),
        () = server.scans.waiting.notified() => {}
    }
    assert!(listed(&server, "/sandur/queries/all", &[]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_query_ends_with_its_client() {
    let server = server(|_| ());
    tokio::select! {
        _ = server.ask(SLOW) => panic!("there is no answer"),
        () = server.scans.waiting.notified() => {}
    }
    assert_eq!(server.scans.given_up.load(Ordering::SeqCst), 1, "the scan is dropped");
    let context = server.scans.context.lock().unwrap().take().unwrap();
    assert!(matches!(context.check(), Err(Error::Cancelled)), "pages that wait for a thread are not started");
    assert_eq!((server.app.queries.turns().running(), server.app.queries.turns().waiting()), (0, 0));
    assert_eq!(server.app.queries.metrics().cancelled.get(), 1);
    let page = server.inner.get("/metrics", &[]).await.body;
    assert!(page.contains("method=\"GET\",scope=\"read\",status=\"499\"} 1"), "{page}");
    // A client that disconnects while it waits leaves the queue.
    let _turn = context_of(&server).turn().await.unwrap();
    let timed = server.app.env.timeout(Duration::from_secs(1), server.ask(r#"{app="api"}"#)).await;
    assert!(timed.is_none());
    assert_eq!(server.app.queries.metrics().cancelled.get(), 2);
    assert_eq!(server.scans.begun.load(Ordering::SeqCst), 1);
}

fn context_of(server: &Server) -> QueryContext {
    server.app.queries.logs_context(&sandur_model::TenantId::default_tenant())
}

#[tokio::test(start_paused = true)]
async fn a_query_that_takes_too_long_is_aborted() {
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
    assert_eq!((server.scans.given_up.load(Ordering::SeqCst), server.app.queries.turns().running()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn every_scan_is_aborted_in_time_even_while_it_waits() {
    let server = server(|s| s.limits.query_timeout = 5_000_000_000);
    let late = async |path: &str| {
        let began = server.app.env.monotonic();
        let (status, text) = server.api(path, &[("query", SLOW)], &[]).await;
        assert_eq!(((server.app.env.monotonic() - began).as_secs(), status), (5, 504), "{path}: {text}");
        assert!(text.starts_with("request timed out"), "{path}: {text}");
    };
    let paths = ["patterns", "detected_fields", "index/volume_range", "query_range"];
    for path in paths {
        late(path).await;
    }
    assert_eq!(server.scans.given_up.load(Ordering::SeqCst), paths.len());
    let _turn = context_of(&server).turn().await.unwrap();
    for path in paths {
        late(path).await;
    }
    assert_eq!(server.scans.begun.load(Ordering::SeqCst), paths.len(), "the others did not start");
    assert_eq!((server.app.queries.turns().running(), server.app.queries.turns().waiting()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn too_many_waiting_queries_are_refused() {
    let server = server(|s| s.query.max_queued = 1);
    let turn = context_of(&server).turn().await.unwrap();
    let second = server.ask(r#"{app="api"}"#);
    let third = async {
        while server.app.queries.turns().waiting() == 0 {
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
async fn policies_and_required_labels_apply_before_any_read() {
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
    let tagged = server.api("query_range", &boom, &[("X-Query-Tags", "Source=Grafana")]).await;
    assert_eq!(tagged, (400, "query blocked by policy".to_owned()));
    assert_eq!(server.scans.begun.load(Ordering::SeqCst), 0);
    assert_eq!(server.api("query_range", &boom, &[]).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn several_tenants_can_be_queried_if_enabled() {
    let two = [("X-Scope-OrgID", "b|a|b")];
    let off = server(|_| ());
    assert_eq!(off.api("labels", &[], &two).await.0, 400);
    let server = server(|s| s.query.multi_tenant = true);
    let (status, body) = server.api("query_range", &[("query", r#"{app="api"}"#)], &two).await;
    assert_eq!(status, 200, "{body}");
    for tenant in ["a", "b"] {
        let stream = format!(r#"{{"__tenant_id__":"{tenant}","app":"api","owner":"{tenant}"}}"#);
        assert!(body.contains(&stream), "{body}");
    }
    let counted = [("query", r#"sum by (__tenant_id__) (count_over_time({__tenant_id__=~"b|c"}[1m]))"#)];
    let (_, body) = server.api("query", &counted, &two).await;
    assert!(body.contains(r#""metric":{"__tenant_id__":"b"}"#) && !body.contains(r#""a""#), "{body}");
    let (_, body) = server.api("label/__tenant_id__/values", &[], &two).await;
    assert_eq!(body.trim(), r#"{"status":"success","data":["a","b"]}"#);
    let (_, body) = server.api("labels", &[], &two).await;
    assert_eq!(body.trim(), r#"{"status":"success","data":["__tenant_id__","app","owner"]}"#);
    for path in ["series", "index/stats", "index/volume", "detected_labels", "patterns", "format_query"] {
        let (status, text) = server.api(path, &[("query", r#"{app="api"}"#)], &two).await;
        assert_eq!(status, 200, "{path}: {text}");
    }
    for path in ["delete", "drilldown-limits"] {
        let refused = server.api(path, &[], &two).await;
        assert_eq!(refused, (400, "multiple org IDs present".to_owned()), "{path}");
    }
    let push = server.post("/loki/api/v1/push", &two, "").await;
    assert_eq!(push.status, 400, "{}", push.body);
    assert_eq!(server.api("labels", &[], &[("X-Scope-OrgID", "a|b/c")]).await.0, 400);
    assert_eq!(server.api("labels", &[], &[("X-Scope-OrgID", "a")]).await.0, 200);
}
