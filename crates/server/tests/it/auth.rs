//! Goal: a credential permits only what it should, and no request is processed before that is checked.
//!
//! Method: every route with every scope directly against the router; the table of permissions is written
//! out below, so that a new route or a changed scope is noticed here.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Body, Bytes};
use axum::http::Request;
use sandur_config::Settings;
use sandur_http::auth::{Authority, token_hash};
use sandur_http::{Gate, OwnNames, ROUTES, Surface, router};
use sandur_query::MemorySource;

use crate::harness::{NOW, Server};

/// Required permissions: `open` needs no credential, `any` needs one with any scope, `rules-read` needs the
/// scope `rules:read`.
const TABLE: &str = "\
DELETE /alertmanager/api/v2/silence/{id} rules-write
DELETE /api/prom/rules/{namespace} rules-write
DELETE /api/prom/rules/{namespace}/{group} rules-write
DELETE /api/v1/import/prometheus/metrics/{*group} write
DELETE /api/v1/rules/{namespace} rules-write
DELETE /api/v1/rules/{namespace}/{group} rules-write
DELETE /config/v1/rules/{namespace} rules-write
DELETE /config/v1/rules/{namespace}/{group} rules-write
DELETE /explore/session open
DELETE /ingester/prepare_shutdown admin
DELETE /loki/api/v1/delete delete
DELETE /loki/api/v1/rules/{namespace} rules-write
DELETE /loki/api/v1/rules/{namespace}/{group} rules-write
DELETE /metrics/{*group} write
DELETE /prometheus/config/v1/rules/{namespace} rules-write
DELETE /prometheus/config/v1/rules/{namespace}/{group} rules-write
DELETE /sandur/queries/{id} admin
GET / any
GET /-/healthy open
GET /-/ready open
GET /_internal/capabilities any
GET /_internal/capabilities/ any
GET /alertmanager/api/v2/alerts rules-read
GET /alertmanager/api/v2/alerts/groups rules-read
GET /alertmanager/api/v2/receivers rules-read
GET /alertmanager/api/v2/silence/{id} rules-read
GET /alertmanager/api/v2/silences rules-read
GET /alertmanager/api/v2/status rules-read
GET /api/prom/label read
GET /api/prom/label/{name}/values read
GET /api/prom/query read
GET /api/prom/rules rules-read
GET /api/prom/rules/{namespace} rules-read
GET /api/prom/rules/{namespace}/{group} rules-read
GET /api/prom/series read
GET /api/prom/tail read
GET /api/v1/alertmanagers read
GET /api/v1/alerts read
GET /api/v1/features any
GET /api/v1/format_query read
GET /api/v1/label/{name}/values read
GET /api/v1/labels read
GET /api/v1/metadata read
GET /api/v1/parse_query read
GET /api/v1/query read
GET /api/v1/query_exemplars read
GET /api/v1/query_range read
GET /api/v1/rules read
GET /api/v1/rules/{namespace} rules-read
GET /api/v1/rules/{namespace}/{group} rules-read
GET /api/v1/scrape_pools admin
GET /api/v1/search/label_names read
GET /api/v1/search/label_values read
GET /api/v1/search/metric_names read
GET /api/v1/series read
GET /api/v1/status/buildinfo any
GET /api/v1/status/config admin
GET /api/v1/status/flags admin
GET /api/v1/status/runtimeinfo read
GET /api/v1/status/tsdb read
GET /api/v1/status/tsdb/blocks read
GET /api/v1/status/walreplay any
GET /api/v1/targets admin
GET /api/v1/targets/metadata admin
GET /compactor/ring any
GET /config admin
GET /config/tenant/v1/limits read
GET /config/v1/rules rules-read
GET /config/v1/rules/{namespace} rules-read
GET /config/v1/rules/{namespace}/{group} rules-read
GET /distributor/ring any
GET /events/get_data read
GET /events/get_data/ read
GET /explore open
GET /explore/ open
GET /explore/session any
GET /explore/{*file} open
GET /federate read
GET /functions any
GET /functions/ any
GET /functions/{name} any
GET /functions/{name}/ any
GET /graphite/_internal/capabilities any
GET /graphite/_internal/capabilities/ any
GET /graphite/events/get_data read
GET /graphite/events/get_data/ read
GET /graphite/functions any
GET /graphite/functions/ any
GET /graphite/functions/{name} any
GET /graphite/functions/{name}/ any
GET /graphite/info read
GET /graphite/info/ read
GET /graphite/metrics/details read
GET /graphite/metrics/details/ read
GET /graphite/metrics/expand read
GET /graphite/metrics/expand/ read
GET /graphite/metrics/find read
GET /graphite/metrics/find/ read
GET /graphite/metrics/index.json read
GET /graphite/metrics/index.json/ read
GET /graphite/metrics/list read
GET /graphite/metrics/list/ read
GET /graphite/metrics/list_query read
GET /graphite/metrics/list_query/ read
GET /graphite/rejected admin
GET /graphite/render read
GET /graphite/render/ read
GET /graphite/tags read
GET /graphite/tags/ read
GET /graphite/tags/autoComplete/tags read
GET /graphite/tags/autoComplete/tags/ read
GET /graphite/tags/autoComplete/values read
GET /graphite/tags/autoComplete/values/ read
GET /graphite/tags/findSeries read
GET /graphite/tags/findSeries/ read
GET /graphite/tags/{tag} read
GET /graphite/tags/{tag}/ read
GET /graphite/version any
GET /graphite/version/ any
GET /healthy open
GET /indexgateway/ring any
GET /info read
GET /info/ read
GET /ingester/prepare_shutdown admin
GET /log_level admin
GET /loki/api/v1/cache/generation_numbers read
GET /loki/api/v1/delete delete
GET /loki/api/v1/detected_field/{name}/values read
GET /loki/api/v1/detected_fields read
GET /loki/api/v1/detected_labels read
GET /loki/api/v1/drilldown-limits read
GET /loki/api/v1/format_query read
GET /loki/api/v1/index/stats read
GET /loki/api/v1/index/volume read
GET /loki/api/v1/index/volume_range read
GET /loki/api/v1/label read
GET /loki/api/v1/label/{name}/values read
GET /loki/api/v1/labels read
GET /loki/api/v1/patterns read
GET /loki/api/v1/query read
GET /loki/api/v1/query_range read
GET /loki/api/v1/rules rules-read
GET /loki/api/v1/rules/{namespace} rules-read
GET /loki/api/v1/rules/{namespace}/{group} rules-read
GET /loki/api/v1/series read
GET /loki/api/v1/status/buildinfo any
GET /loki/api/v1/tail read
GET /metrics any
GET /metrics/details read
GET /metrics/details/ read
GET /metrics/expand read
GET /metrics/expand/ read
GET /metrics/find read
GET /metrics/find/ read
GET /metrics/index.json read
GET /metrics/index.json/ read
GET /metrics/list read
GET /metrics/list/ read
GET /metrics/list_query read
GET /metrics/list_query/ read
GET /pattern/ring any
GET /prometheus/api/v1/alertmanagers read
GET /prometheus/api/v1/alerts read
GET /prometheus/api/v1/features any
GET /prometheus/api/v1/format_query read
GET /prometheus/api/v1/label/{name}/values read
GET /prometheus/api/v1/labels read
GET /prometheus/api/v1/metadata read
GET /prometheus/api/v1/parse_query read
GET /prometheus/api/v1/query read
GET /prometheus/api/v1/query_exemplars read
GET /prometheus/api/v1/query_range read
GET /prometheus/api/v1/rules read
GET /prometheus/api/v1/scrape_pools admin
GET /prometheus/api/v1/search/label_names read
GET /prometheus/api/v1/search/label_values read
GET /prometheus/api/v1/search/metric_names read
GET /prometheus/api/v1/series read
GET /prometheus/api/v1/status/buildinfo any
GET /prometheus/api/v1/status/config admin
GET /prometheus/api/v1/status/flags admin
GET /prometheus/api/v1/status/runtimeinfo read
GET /prometheus/api/v1/status/tsdb read
GET /prometheus/api/v1/status/tsdb/blocks read
GET /prometheus/api/v1/status/walreplay any
GET /prometheus/api/v1/targets admin
GET /prometheus/api/v1/targets/metadata admin
GET /prometheus/config/v1/rules rules-read
GET /prometheus/config/v1/rules/{namespace} rules-read
GET /prometheus/config/v1/rules/{namespace}/{group} rules-read
GET /prometheus/federate read
GET /ready open
GET /render read
GET /render/ read
GET /ring any
GET /ruler/ring any
GET /sandur/cluster admin
GET /sandur/dashboards read
GET /sandur/dashboards/{*name} read
GET /sandur/differences read
GET /sandur/differences/series read
GET /sandur/ingest read
GET /sandur/ingest/all admin
GET /sandur/queries read
GET /sandur/queries/all admin
GET /sandur/query_parts read
GET /sandur/slow_queries read
GET /sandur/slow_queries/all admin
GET /sandur/store admin
GET /scheduler/ring any
GET /services any
GET /tags read
GET /tags/ read
GET /tags/autoComplete/tags read
GET /tags/autoComplete/tags/ read
GET /tags/autoComplete/values read
GET /tags/autoComplete/values/ read
GET /tags/findSeries read
GET /tags/findSeries/ read
GET /tags/{tag} read
GET /tags/{tag}/ read
GET /version any
GET /version/ any
POST /_internal/capabilities any
POST /_internal/capabilities/ any
POST /alertmanager/api/v2/silences rules-write
POST /api/prom/label read
POST /api/prom/label/{name}/values read
POST /api/prom/push write
POST /api/prom/query read
POST /api/prom/rules/{namespace} rules-write
POST /api/prom/series read
POST /api/prom/tail read
POST /api/v1/admin/tsdb/clean_tombstones admin
POST /api/v1/admin/tsdb/delete_series delete
POST /api/v1/admin/tsdb/snapshot admin
POST /api/v1/format_query read
POST /api/v1/import/prometheus write
POST /api/v1/import/prometheus/metrics/{*group} write
POST /api/v1/labels read
POST /api/v1/otlp/v1/metrics write
POST /api/v1/parse_query read
POST /api/v1/push write
POST /api/v1/query read
POST /api/v1/query_exemplars read
POST /api/v1/query_range read
POST /api/v1/read read
POST /api/v1/rules/{namespace} rules-write
POST /api/v1/search/label_names read
POST /api/v1/search/label_values read
POST /api/v1/search/metric_names read
POST /api/v1/series read
POST /api/v1/write write
POST /carbonapi_v2_grpc.CarbonV2/Find read
POST /carbonapi_v2_grpc.CarbonV2/Info read
POST /carbonapi_v2_grpc.CarbonV2/List read
POST /carbonapi_v2_grpc.CarbonV2/Render read
POST /carbonapi_v2_grpc.CarbonV2/Stats read
POST /carbonapi_v2_grpc.CarbonV2/Version any
POST /compactor/ring any
POST /config/v1/rules/{namespace} rules-write
POST /distributor/ring any
POST /events write
POST /events/ write
POST /events/get_data read
POST /events/get_data/ read
POST /explore/session any
POST /flush admin
POST /flush/tenant admin
POST /functions any
POST /functions/ any
POST /functions/{name} any
POST /functions/{name}/ any
POST /graphite/_internal/capabilities any
POST /graphite/_internal/capabilities/ any
POST /graphite/carbon write
POST /graphite/events write
POST /graphite/events/ write
POST /graphite/events/get_data read
POST /graphite/events/get_data/ read
POST /graphite/functions any
POST /graphite/functions/ any
POST /graphite/functions/{name} any
POST /graphite/functions/{name}/ any
POST /graphite/info read
POST /graphite/info/ read
POST /graphite/metrics/details read
POST /graphite/metrics/details/ read
POST /graphite/metrics/expand read
POST /graphite/metrics/expand/ read
POST /graphite/metrics/find read
POST /graphite/metrics/find/ read
POST /graphite/metrics/index.json read
POST /graphite/metrics/index.json/ read
POST /graphite/metrics/list read
POST /graphite/metrics/list/ read
POST /graphite/metrics/list_query read
POST /graphite/metrics/list_query/ read
POST /graphite/render read
POST /graphite/render/ read
POST /graphite/tags read
POST /graphite/tags/ read
POST /graphite/tags/autoComplete/tags read
POST /graphite/tags/autoComplete/tags/ read
POST /graphite/tags/autoComplete/values read
POST /graphite/tags/autoComplete/values/ read
POST /graphite/tags/delSeries delete
POST /graphite/tags/delSeries/ delete
POST /graphite/tags/findSeries read
POST /graphite/tags/findSeries/ read
POST /graphite/tags/tagMultiSeries write
POST /graphite/tags/tagMultiSeries/ write
POST /graphite/tags/tagSeries write
POST /graphite/tags/tagSeries/ write
POST /graphite/tags/{tag} read
POST /graphite/tags/{tag}/ read
POST /indexgateway/ring any
POST /info read
POST /info/ read
POST /ingester/flush admin
POST /ingester/prepare_shutdown admin
POST /ingester/shutdown admin
POST /log_level admin
POST /loki/api/v1/delete delete
POST /loki/api/v1/detected_field/{name}/values read
POST /loki/api/v1/detected_fields read
POST /loki/api/v1/detected_labels read
POST /loki/api/v1/format_query read
POST /loki/api/v1/index/stats read
POST /loki/api/v1/index/volume read
POST /loki/api/v1/index/volume_range read
POST /loki/api/v1/label read
POST /loki/api/v1/label/{name}/values read
POST /loki/api/v1/labels read
POST /loki/api/v1/patterns read
POST /loki/api/v1/push write
POST /loki/api/v1/query read
POST /loki/api/v1/query_range read
POST /loki/api/v1/rules/{namespace} rules-write
POST /loki/api/v1/series read
POST /loki/api/v1/tail read
POST /metrics/details read
POST /metrics/details/ read
POST /metrics/expand read
POST /metrics/expand/ read
POST /metrics/find read
POST /metrics/find/ read
POST /metrics/index.json read
POST /metrics/index.json/ read
POST /metrics/list read
POST /metrics/list/ read
POST /metrics/list_query read
POST /metrics/list_query/ read
POST /metrics/{*group} write
POST /opentelemetry.proto.collector.logs.v1.LogsService/Export write
POST /opentelemetry.proto.collector.metrics.v1.MetricsService/Export write
POST /otlp/v1/logs write
POST /otlp/v1/metrics write
POST /pattern/ring any
POST /prometheus/api/v1/admin/tsdb/clean_tombstones admin
POST /prometheus/api/v1/admin/tsdb/delete_series delete
POST /prometheus/api/v1/admin/tsdb/snapshot admin
POST /prometheus/api/v1/format_query read
POST /prometheus/api/v1/import/prometheus write
POST /prometheus/api/v1/labels read
POST /prometheus/api/v1/parse_query read
POST /prometheus/api/v1/query read
POST /prometheus/api/v1/query_exemplars read
POST /prometheus/api/v1/query_range read
POST /prometheus/api/v1/read read
POST /prometheus/api/v1/search/label_names read
POST /prometheus/api/v1/search/label_values read
POST /prometheus/api/v1/search/metric_names read
POST /prometheus/api/v1/series read
POST /prometheus/api/v1/write write
POST /prometheus/config/v1/rules/{namespace} rules-write
POST /render read
POST /render/ read
POST /ring any
POST /ruler/ring any
POST /sandur/cluster/drain admin
POST /sandur/differences read
POST /sandur/differences/series read
POST /sandur/query_parts read
POST /scheduler/ring any
POST /tags read
POST /tags/ read
POST /tags/autoComplete/tags read
POST /tags/autoComplete/tags/ read
POST /tags/autoComplete/values read
POST /tags/autoComplete/values/ read
POST /tags/delSeries delete
POST /tags/delSeries/ delete
POST /tags/findSeries read
POST /tags/findSeries/ read
POST /tags/tagMultiSeries write
POST /tags/tagMultiSeries/ write
POST /tags/tagSeries write
POST /tags/tagSeries/ write
POST /tags/{tag} read
POST /tags/{tag}/ read
POST /v1/logs write
POST /v1/metrics write
PUT /api/v1/admin/tsdb/clean_tombstones admin
PUT /api/v1/admin/tsdb/delete_series delete
PUT /api/v1/admin/tsdb/snapshot admin
PUT /api/v1/import/prometheus write
PUT /api/v1/import/prometheus/metrics/{*group} write
PUT /loki/api/v1/delete delete
PUT /metrics/{*group} write
PUT /prometheus/api/v1/admin/tsdb/clean_tombstones admin
PUT /prometheus/api/v1/admin/tsdb/delete_series delete
PUT /prometheus/api/v1/admin/tsdb/snapshot admin
PUT /prometheus/api/v1/import/prometheus write
";

/// Credentials of the scan: a token per scope (with `-` for `:`, which names may not have), one without
/// scopes, and some for tenants.
const CREDENTIALS: [(&str, &str, &str); 10] = [
    ("read", "'a'", "'read'"),
    ("write", "'a'", "'write'"),
    ("delete", "'a'", "'delete'"),
    ("admin", "'a'", "'admin'"),
    ("rules-read", "'a'", "'rules:read'"),
    ("rules-write", "'a'", "'rules:write'"),
    ("none", "'a'", ""),
    ("two", "'a', 'b'", "'read', 'write'"),
    ("every", "'*'", "'read', 'write'"),
    ("rest", "'a'", "'read', 'write', 'delete'"),
];

/// A user with a cheap hash, so that a wrong password can be tested on every route.
fn user_u() -> String {
    let hash = bcrypt::hash_with_salt("password of u", 4, [7; 16]).unwrap();
    format!("[users.u]\npassword = '{hash}'\ntenants = ['a']\nscopes = ['read']\n")
}

async fn authority(server: &Server) -> Arc<Authority> {
    let tokens: String = CREDENTIALS
        .iter()
        .map(|(name, tenants, scopes)| {
            let hash = token_hash(name);
            format!("[tokens.{name}]\nhash = '{hash}'\ntenants = [{tenants}]\nscopes = [{scopes}]\n")
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("auth.toml");
    std::fs::write(&path, tokens + &user_u()).unwrap();
    Arc::new(Authority::open(server.app.env.clone(), path.to_str().unwrap()).await.unwrap())
}

fn open_server(change: impl FnOnce(&mut Settings)) -> Server {
    Server::over(Arc::new(MemorySource::new(Vec::new())), change)
}

/// A server with credentials, as it listens on a public address.
pub async fn guarded(surface: Surface, change: impl FnOnce(&mut Settings)) -> Server {
    let mut server = open_server(change);
    let authority = authority(&server).await;
    let address: SocketAddr = "10.0.0.1:3100".parse().unwrap();
    let names = OwnNames::new(address, true, &[]);
    let app = server.app.clone();
    let gate = Gate::new(app.env.clone(), Some(authority), names, app.metrics.clone());
    server.router = router(app, surface, gate);
    server
}

/// A body that records whether it was read.
fn watched() -> (Body, Arc<AtomicBool>) {
    let read = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&read);
    let stream = futures_util::stream::poll_fn(move |_| {
        seen.store(true, Ordering::SeqCst);
        std::task::Poll::Ready(None::<Result<Bytes, std::io::Error>>)
    });
    (Body::from_stream(stream), read)
}

pub struct Tried {
    pub status: u16,
    pub body: String,
    pub challenges: Vec<String>,
    was_read: bool,
}

pub async fn try_with(server: &Server, verb: &str, path: &str, headers: &[(&str, &str)]) -> Tried {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let (body, read) = watched();
    let mut request = Request::builder().method(verb).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = server.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let challenges = response.headers().get_all("www-authenticate").iter();
    let challenges = challenges.map(|value| value.to_str().unwrap().to_owned()).collect();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    Tried { status, body, challenges, was_read: read.load(Ordering::SeqCst) }
}

fn bearer(name: &str) -> String {
    format!("Bearer {name}")
}

/// Every method and path, with names in place of the parameters in braces.
fn every_path() -> impl Iterator<Item = (&'static str, String, String)> {
    ROUTES.iter().flat_map(|route| {
        let verbs = route.methods.iter().map(|verb| verb.name());
        verbs.flat_map(|verb| route.paths.iter().map(move |path| (verb, *path))).map(|(verb, path)| {
            let asked = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
            (verb, path.to_owned(), asked.collect::<Vec<_>>().join("/"))
        })
    })
}

#[tokio::test(start_paused = true)]
async fn every_route_accepts_exactly_the_scope_of_the_table() {
    let mut lines = Vec::new();
    let server = guarded(Surface::Whole, |_| ()).await;
    for (verb, path, asked) in every_path() {
        let mut let_in = Vec::new();
        let stranger = try_with(&server, verb, &asked, &[]).await;
        let is_open = stranger.status != 401;
        assert!(is_open || !stranger.was_read, "{verb} {path}: the body was read before the check");
        assert_eq!(is_open, stranger.challenges.is_empty(), "{verb} {path}");
        for scope in ["none", "read", "write", "delete", "admin", "rules-read", "rules-write"] {
            let tried = try_with(&server, verb, &asked, &[("authorization", &bearer(scope))]).await;
            assert_ne!(tried.status, 401, "{verb} {path}: the credential is known");
            match tried.status {
                403 => {
                    assert!(!tried.was_read, "{verb} {path}: the body was read before the check");
                    assert!(tried.body.starts_with("this credential has no scope '"), "{}", tried.body);
                }
                _ => let_in.push(scope),
            }
        }
        let who = match (is_open, let_in.as_slice()) {
            (true, ["none", .., "rules-write"]) if let_in.len() == 7 => "open",
            (false, ["none", .., "rules-write"]) if let_in.len() == 7 => "any",
            (false, [one]) => one,
            other => panic!("{verb} {path}: {other:?}"),
        };
        lines.push(format!("{verb} {path} {who}\n"));
    }
    lines.sort();
    let found = lines.concat();
    assert_eq!(found, TABLE, "\n{found}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_credential_is_401_on_all_routes_except_open_ones() {
    const SESSION: (&str, &str) = ("GET", "/explore/session");
    let server = guarded(Surface::Whole, |_| ()).await;
    for (verb, path, asked) in every_path() {
        for authorization in ["Bearer other", "Basic dTpw", "Digest x", "Bearer"] {
            let tried = try_with(&server, verb, &asked, &[("authorization", authorization)]).await;
            let open = ["/ready", "/-/ready", "/healthy", "/-/healthy"].contains(&path.as_str())
                || (path.starts_with("/explore") && verb != "POST" && (verb, path.as_str()) != SESSION);
            assert_eq!(tried.status == 401, !open, "{verb} {path} {authorization}: {}", tried.status);
            assert!(open || (!tried.was_read && tried.challenges.len() == 2), "{verb} {path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_credential_acts_for_its_tenants_only() {
    let server = guarded(Surface::Whole, |s| s.query.multi_tenant = true).await;
    let push = async |name: &str, tenant: Option<&str>| {
        let body =
            format!(r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[["{NOW}000000000","one"]]}}]}}"#);
        let authorization = bearer(name);
        let mut headers = vec![("content-type", "application/json"), ("authorization", &authorization)];
        headers.extend(tenant.map(|tenant| ("x-scope-orgid", tenant)));
        let answer = server.post("/loki/api/v1/push", &headers, body).await;
        let batch = server.intake.batches.lock().unwrap().pop();
        (answer.status, batch.map_or(answer.body, |batch| batch.tenant.to_string()))
    };
    let text = |status: u16, text: &str| (status, text.to_owned());
    assert_eq!(push("write", None).await, text(204, "a"), "the only tenant needs no header");
    assert_eq!(push("write", Some("a")).await, text(204, "a"));
    let foreign = "this credential may not act for tenant 'b' (X-Scope-OrgID)\n";
    assert_eq!(push("write", Some("b")).await, text(403, foreign));
    assert_eq!(push("write", Some("a|b")).await, text(403, foreign));
    assert_eq!(push("write", Some("fake")).await.0, 403);
    assert_eq!(push("two", Some("b")).await, text(204, "b"));
    assert_eq!(push("two", None).await.0, 400, "the tenant is ambiguous");
    assert_eq!(push("two", Some("c")).await.0, 403);
    assert_eq!(push("every", Some("c")).await, text(204, "c"));
    assert_eq!(push("every", None).await, text(204, "fake"));

    let query = async |name: &str, tenants: &[&str]| {
        let authorization = bearer(name);
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(tenants.iter().map(|tenant| ("x-scope-orgid", *tenant)));
        server.get_with("/loki/api/v1/labels", &[], &headers).await.status
    };
    assert_eq!(query("two", &["a|b"]).await, 200);
    assert_eq!(query("two", &["a|c"]).await, 403);
    assert_eq!(query("read", &["a", "b"]).await, 200, "the second header is ignored here and later");
    assert_eq!(query("read", &["b", "a"]).await, 403);
}

#[tokio::test(start_paused = true)]
async fn routes_for_operators_are_only_on_their_listener() {
    let data = guarded(Surface::Data, |_| ()).await;
    let operators = guarded(Surface::Operators, |_| ()).await;
    for (method, path, on_data, on_operators) in [
        ("POST", "/flush", false, true),
        ("POST", "/ingester/shutdown", false, true),
        ("GET", "/config", false, true),
        ("POST", "/log_level", false, true),
        ("PUT", "/loki/api/v1/delete", false, true),
        ("GET", "/loki/api/v1/labels", true, false),
        ("POST", "/loki/api/v1/push", true, false),
        ("GET", "/ready", true, true),
        ("GET", "/metrics", true, true),
    ] {
        for (server, served) in [(&data, on_data), (&operators, on_operators)] {
            let tried = try_with(server, method, path, &[("authorization", "Bearer admin")]).await;
            assert_eq!(tried.status != 404, served, "{method} {path}: {}", tried.status);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changes_need_a_method_other_than_get() {
    let server = open_server(|_| ());
    for path in ["/flush", "/ingester/flush", "/flush/tenant", "/ingester/shutdown"] {
        assert_eq!(server.get(path, &[]).await.status, 405, "{path}: an image on any page could request it");
    }
    assert_eq!(server.get("/log_level", &[("log_level", "trace")]).await.status, 200);
    let shown = server.get("/log_level", &[]).await;
    assert!(!shown.body.contains("trace"), "reading changes nothing: {}", shown.body);
}

#[tokio::test(start_paused = true)]
async fn a_page_of_another_origin_is_refused_on_loopback_too() {
    let server = open_server(|s| s.http.allowed_hosts = vec!["logs.example.org".to_owned()]);
    let rebound = [("host", "evil.example:3100")];
    for (verb, path, asked) in every_path() {
        let tried = try_with(&server, verb, &asked, &rebound).await;
        assert_eq!(tried.status, 403, "{verb} {path}: DNS rebinding permits reads and writes");
        assert!(tried.body.contains("http.allowed_hosts") && !tried.was_read, "{}", tried.body);
    }
    let own = [("host", "localhost:3100"), ("origin", "http://localhost:3100")];
    let proxied = [("host", "logs.example.org"), ("origin", "https://logs.example.org")];
    let forged = [("host", "localhost:3100"), ("origin", "http://evil.example")];
    let websocket = [forged[0], forged[1], ("upgrade", "websocket"), ("connection", "upgrade")];
    for path in ["/flush", "/loki/api/v1/push", "/log_level", "/ingester/prepare_shutdown", "/otlp/v1/logs"] {
        assert_ne!(try_with(&server, "POST", path, &own).await.status, 403, "{path}");
        assert_ne!(try_with(&server, "POST", path, &proxied).await.status, 403, "{path}");
        let tried = try_with(&server, "POST", path, &forged).await;
        assert_eq!(tried.status, 403, "{path}");
        assert!(
            tried.body.starts_with("a page of 'http://evil.example' may not send this"),
            "{}",
            tried.body
        );
    }
    assert_eq!(try_with(&server, "PUT", "/loki/api/v1/delete", &forged).await.status, 403);
    assert_eq!(try_with(&server, "GET", "/loki/api/v1/tail", &websocket).await.status, 403);
    assert_eq!(
        try_with(&server, "GET", "/loki/api/v1/labels", &forged).await.status,
        200,
        "it cannot read the response"
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_counted_by_reason() {
    let server = guarded(Surface::Whole, |_| ()).await;
    try_with(&server, "GET", "/loki/api/v1/labels", &[]).await;
    try_with(&server, "GET", "/loki/api/v1/labels", &[("authorization", "Bearer x")]).await;
    try_with(&server, "GET", "/loki/api/v1/labels", &[("authorization", "Bearer write")]).await;
    let metrics = server.get_with("/metrics", &[], &[("authorization", "Bearer none")]).await.body;
    for reason in ["missing", "unknown", "scope"] {
        let line = format!("sandur_http_refused_requests_total{{reason=\"{reason}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
    }
}
