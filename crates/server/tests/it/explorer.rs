//! Goal: the explorer is served as browsers need it and gives other sites nothing to use.
//!
//! Method: requests directly to the router; the page itself is tested in a real browser by `cargo xtask web
//! test`.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use sandur_http::Surface;
use sandur_query::MemorySource;

use crate::auth::{guarded, try_with};
use crate::harness::{Answer, Server};

fn server() -> Server {
    Server::over(Arc::new(MemorySource::new(Vec::new())), |_| ())
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// The path of the first script that the document names.
fn script_of(document: &str) -> String {
    let start = document.find("assets/main-").unwrap();
    let name = document[start..].split('"').find(|name| name.ends_with(".js")).unwrap();
    format!("/explore/{name}")
}

#[tokio::test(start_paused = true)]
async fn people_are_sent_to_the_explorer_and_programs_are_not() {
    let server = server();
    for accept in ["text/html,application/xhtml+xml,*/*;q=0.8", "application/xhtml+xml, text/html;q=0.9"] {
        let answer = server.get_with("/", &[], &[("accept", accept)]).await;
        assert_eq!((answer.status, header(&answer, "location")), (302, "explore/logs"), "{accept}");
        assert_eq!(header(&answer, "vary"), "Accept");
    }
    for accept in ["*/*", "text/plain", "application/json", ""] {
        let answer = server.get_with("/", &[], &[("accept", accept)]).await;
        assert_eq!((answer.status, answer.kind.as_str()), (200, "text/plain; charset=utf-8"), "{accept}");
        assert!(answer.body.contains("/explore/"), "{}", answer.body);
    }
    assert_eq!(header(&server.get("/explore", &[]).await, "location"), "explore/logs");
    assert_eq!(header(&server.get("/explore/", &[]).await, "location"), "logs");
}

#[tokio::test(start_paused = true)]
async fn every_route_of_the_page_is_the_document_and_other_paths_are_404() {
    let server = server();
    let document = server.get("/explore/index.html", &[]).await.body;
    for route in ["logs", "metrics", "graphite", "alerts", "dashboards", "machine"] {
        let answer = server.get(&format!("/explore/{route}"), &[("q", "{a=\"b\"}")]).await;
        assert_eq!((answer.status, answer.kind.as_str()), (200, "text/html; charset=utf-8"), "{route}");
        assert!(answer.body == document, "{route}");
    }
    let others =
        ["x", "logs/", "logs/x", "..", "%2e%2e/config", "../config", "assets/", "assets/main.js", "session/"];
    for other in others {
        let answer = server.get(&format!("/explore/{other}"), &[]).await;
        assert!(matches!(answer.status, 404 | 405), "{other}: {}", answer.status);
    }
    assert_eq!(server.post("/explore/logs", &[], "").await.status, 405);
}

#[tokio::test(start_paused = true)]
async fn pages_forbid_foreign_scripts_frames_and_guesses_of_types() {
    let server = server();
    let document = server.get("/explore/logs", &[]).await;
    let script = server.get(&script_of(&document.body), &[]).await;
    for answer in [&document, &script] {
        let policy = header(answer, "content-security-policy");
        for part in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(header(answer, "x-content-type-options"), "nosniff");
        assert_eq!(header(answer, "referrer-policy"), "no-referrer");
        assert!(answer.headers.get("access-control-allow-origin").is_none());
    }
    assert_eq!(header(&document, "cache-control"), "no-cache");
    assert_eq!(header(&script, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(script.kind, "text/javascript; charset=utf-8");
}

#[tokio::test(start_paused = true)]
async fn a_known_file_is_not_sent_again() {
    let server = server();
    let first = server.get("/explore/logs", &[]).await;
    let tag = header(&first, "etag").to_owned();
    assert!(tag.len() > 10, "{tag}");
    let strong = tag.trim_start_matches("W/").to_owned();
    for known in [tag.clone(), strong, format!("\"other\", {tag}"), "*".to_owned()] {
        let again = server.get_with("/explore/logs", &[], &[("if-none-match", &known)]).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{known}");
        assert_eq!(header(&again, "etag"), tag);
    }
    let other = server.get_with("/explore/logs", &[], &[("if-none-match", "\"other\"")]).await;
    assert_eq!((other.status, other.body), (200, first.body));
}

#[tokio::test(start_paused = true)]
async fn files_are_compressed_for_clients_that_accept_it() {
    let server = server();
    let path = script_of(&server.get("/explore/logs", &[]).await.body);
    let plain = server.get_with(&path, &[], &[("accept-encoding", "br")]).await;
    assert!(header(&plain, "content-encoding").is_empty());
    for _ in 0..2 {
        let packed = server.get_with(&path, &[], &[("accept-encoding", "br, gzip")]).await;
        assert_eq!(
            (header(&packed, "content-encoding"), header(&packed, "vary")),
            ("gzip", "Accept-Encoding")
        );
        assert!(packed.body.len() < plain.body.len());
    }
    let head = Request::builder().method("HEAD").uri(&path).body(Body::empty()).unwrap();
    let head = server.send(head).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(header(&head, "content-length"), plain.body.len().to_string());
}

/// The document and its files contain nothing that needs protection; what they ask is protected.
#[tokio::test(start_paused = true)]
async fn with_credentials_the_page_is_served_and_asks_for_a_token() {
    let server = guarded(Surface::Whole, |_| ()).await;
    assert_eq!(try_with(&server, "GET", "/explore/logs", &[]).await.status, 200);
    let person = [("accept", "text/html")];
    assert_eq!(try_with(&server, "GET", "/", &person).await.status, 302);
    assert_eq!(try_with(&server, "GET", "/", &[]).await.status, 401);
    assert_eq!(try_with(&server, "HEAD", "/config", &person).await.status, 401, "only `/` is open to people");
    let page = try_with(&server, "GET", "/loki/api/v1/labels", &[("x-sandur-explorer", "1")]).await;
    assert_eq!(page.status, 401);
    assert_eq!(page.challenges, ["Bearer realm=\"sandur\""], "`Basic` makes a browser show its own dialog");
}

#[tokio::test(start_paused = true)]
async fn a_session_counts_only_for_pages_of_this_server() {
    let server = guarded(Surface::Whole, |_| ()).await;
    let signed =
        server.post("/explore/session?path=/sandur/&secure=true", &[("authorization", "Bearer read")], "");
    let signed = signed.await;
    assert_eq!(signed.status, 204);
    let given = header(&signed, "set-cookie");
    let (cookie, attributes) = given.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/sandur/; HttpOnly; SameSite=Strict; Secure");
    assert_eq!(header(&signed, "cache-control"), "no-store");

    let with = async |method, path, more: &[(&str, &str)]| {
        let headers: Vec<_> = more.iter().copied().chain([("cookie", cookie)]).collect();
        try_with(&server, method, path, &headers).await.status
    };
    let own = ("x-sandur-explorer", "1");
    assert_eq!(with("GET", "/loki/api/v1/labels", &[own]).await, 200);
    assert_eq!(with("POST", "/flush", &[own]).await, 403, "the session has the scopes of its token");
    let forged = ("origin", "http://10.0.0.1:8080");
    for foreign in [&[][..], &[forged], &[("sec-fetch-site", "same-site")]] {
        assert_eq!(with("GET", "/loki/api/v1/labels", foreign).await, 401, "{foreign:?}");
    }
    let socket = [("upgrade", "websocket"), ("connection", "upgrade"), ("host", "10.0.0.1:3100")];
    let tail = "/loki/api/v1/tail?query=%7Ba%3D%22b%22%7D";
    let from = async |origin: Option<(&str, &str)>| {
        with("GET", tail, &socket.into_iter().chain(origin).collect::<Vec<_>>()).await
    };
    assert_eq!(from(Some(("origin", "http://10.0.0.1:3100"))).await, 400, "it passed the gate");
    assert_eq!(from(Some(forged)).await, 403);
    assert_eq!(from(None).await, 401);

    let ended = [own, ("cookie", "sandur_session=b3RoZXI")];
    let ended = try_with(&server, "GET", "/loki/api/v1/labels", &ended).await;
    assert_eq!(ended.status, 401, "an unknown token");
    let state = try_with(&server, "GET", "/explore/session", &[own, ("cookie", cookie)]).await;
    assert_eq!((state.status, state.body.as_str()), (200, r#"{"credential":"token read"}"#));
    assert_eq!(try_with(&server, "GET", "/explore/session", &[own]).await.status, 401);
    let both = [own, ("authorization", "Bearer other")];
    assert_eq!(with("GET", "/loki/api/v1/labels", &both).await, 401, "the header takes precedence");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_made_of_tokens_only_and_paths_are_checked() {
    let server = guarded(Surface::Whole, |_| ()).await;
    let sign = async |path: &str, authorization: &str| {
        server.post(&format!("/explore/session?path={path}"), &[("authorization", authorization)], "").await
    };
    assert_eq!(sign("/", "Basic dTpwYXNzd29yZCBvZiB1").await.status, 400);
    assert_eq!(sign("/", "Bearer other").await.status, 401);
    for path in ["x", "/;Domain=evil.example", "/%0d%0ax", "/%22", &format!("/{}", "x".repeat(256))] {
        let answer = sign(path, "Bearer read").await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.headers.get("set-cookie").is_none());
    }
    let out = Request::builder().method("DELETE").uri("/explore/session").body(Body::empty()).unwrap();
    let out = server.send(out).await;
    assert_eq!(out.status, 204);
    let removed = "sandur_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict";
    assert_eq!(header(&out, "set-cookie"), removed);
    let free = self::server();
    assert_eq!(free.get("/explore/session", &[]).await.body, r#"{"credential":null}"#);
    let signed = free.post("/explore/session", &[], "").await;
    assert_eq!((signed.status, header(&signed, "set-cookie")), (204, ""), "no credentials, no session");
}

/// Browsers cannot set headers of websockets. The parameter must not circumvent the check of the tenant.
#[tokio::test(start_paused = true)]
async fn a_websocket_names_its_tenant_by_a_parameter_and_nothing_else_does() {
    let server = guarded(Surface::Whole, |_| ()).await;
    let bearer = ("authorization", "Bearer two");
    let socket = [bearer, ("upgrade", "websocket"), ("connection", "upgrade")];
    let tail = "/loki/api/v1/tail?query=%7Ba%3D%22b%22%7D&X-Scope-OrgID=";
    let ask = async |tenant: &str, headers: &[(&str, &str)]| {
        try_with(&server, "GET", &format!("{tail}{tenant}"), headers).await
    };
    let passed = ask("b", &socket).await;
    assert_eq!((passed.status, passed.body.trim()), (400, "Bad Request"), "a test has no websocket");
    let foreign = ask("c", &socket).await;
    assert_eq!(foreign.status, 403);
    assert!(foreign.body.contains("tenant 'c'"), "{}", foreign.body);
    let headed: Vec<_> = socket.into_iter().chain([("x-scope-orgid", "c")]).collect();
    assert_eq!(ask("b", &headed).await.status, 403, "the header takes precedence");
    let plain = try_with(&server, "GET", "/loki/api/v1/labels?X-Scope-OrgID=b", &[bearer]).await;
    assert!(plain.body.contains("several tenants"), "{}", plain.body);
}
