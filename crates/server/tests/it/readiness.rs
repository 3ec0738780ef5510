//! Goal: `/ready` reports pushes and queries separately, and a push that cannot be stored is refused
//! before it uses any resource.
//!
//! Method: requests go directly to the router with a recorder that reports the states.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use futures_util::stream::{self, StreamExt};
use sandur_base::ErrorKind;
use sandur_http::{Group, ROUTES};
use sandur_query::MemorySource;
use sandur_service::Failure;

use crate::harness::Server;

fn server() -> Server {
    Server::over(Arc::new(MemorySource::new(Vec::new())), |_| {})
}

fn unavailable(reason: &str) -> Option<Failure> {
    Some(Failure::new(ErrorKind::Unavailable, reason))
}

/// A process that can do only one of both stays in use for it.
#[tokio::test(start_paused = true)]
async fn readiness_is_reported_separately_for_pushes_and_queries() {
    let server = server();
    let ask = async |wanted: &str| {
        let pairs: &[(&str, &str)] = if wanted.is_empty() { &[] } else { &[("for", wanted)] };
        let answer = server.get("/ready", pairs).await;
        assert_eq!(answer.headers.contains_key("retry-after"), answer.status == 503, "{wanted}");
        (answer.status, answer.body)
    };
    let ready = || (200, "ready\n".to_owned());
    for wanted in ["", "push", "query"] {
        assert_eq!(ask(wanted).await, ready());
    }
    *server.intake.refusal.lock().unwrap() = unavailable("no space left");
    assert_eq!(ask("push").await, (503, "not ready: pushes are refused: no space left\n".to_owned()));
    for wanted in ["", "query"] {
        assert_eq!(ask(wanted).await, (200, "ready (pushes are refused: no space left)\n".to_owned()));
    }
    *server.intake.staleness.lock().unwrap() = unavailable("9s old");
    assert_eq!(ask("push").await.0, 503);
    assert_eq!(ask("query").await, (503, "not ready: answers may lack rows: 9s old\n".to_owned()));
    let both = "not ready: pushes are refused: no space left; answers may lack rows: 9s old\n";
    assert_eq!(ask("").await, (503, both.to_owned()));
    *server.intake.refusal.lock().unwrap() = None;
    assert_eq!(ask("push").await, (200, "ready (answers may lack rows: 9s old)\n".to_owned()));
    assert_eq!(ask("query").await.0, 503);
    assert_eq!(server.get("/-/ready", &[]).await.status, 200);
    *server.intake.staleness.lock().unwrap() = None;
    assert_eq!(ask("").await, ready(), "after recovery");
    assert_eq!(server.get("/ready", &[("for", "writes")]).await.status, 400);
    server.shutdown.trigger();
    for wanted in ["", "push", "query"] {
        assert_eq!(ask(wanted).await, (503, "not ready: starting or stopping\n".to_owned()));
    }
}

/// All processes of a bucket have such failures together, and pushes are still acknowledged.
#[tokio::test(start_paused = true)]
async fn a_process_whose_flushes_fail_is_ready_and_says_so() {
    let server = server();
    *server.intake.flushes_fail_for.lock().unwrap() = Some(Duration::from_secs(150));
    for pairs in [&[][..], &[("for", "push")], &[("for", "query")]] {
        let answer = server.get("/ready", pairs).await;
        assert_eq!(answer.status, 200);
        assert!(answer.body.starts_with("ready (flushes fail for 2m30s: "), "{}", answer.body);
    }
}

/// A body of which only these bytes arrive.
fn begun(bytes: &'static [u8]) -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(bytes))]);
    Body::from_stream(first.chain(stream::pending()))
}

/// Requests of a route for pushes, with bodies that do not arrive.
fn pushes(path: &str) -> Request<Body> {
    let request = Request::builder().uri(path.replace("{*group}", "job/x"));
    let (request, body) = match path {
        path if path.starts_with("/opentelemetry.") => {
            // The bytes before a message, which indicate whether it is compressed.
            let request = request.version(Version::HTTP_2).header("content-type", "application/grpc");
            (request, begun(&[0, 0, 0, 1, 0]))
        }
        // A small object that is read in any case.
        "/events" => (request, Body::from(r#"{"what":"deploy","tags":"a"}"#)),
        "/api/v1/write" => {
            let request = request.header("content-type", "application/x-protobuf");
            (request.header("content-encoding", "snappy"), begun(b""))
        }
        "/graphite/carbon" => (request.header("content-type", "text/plain"), begun(b"")),
        _ => (request.header("content-type", "application/json"), begun(b"")),
    };
    request.body(body).unwrap()
}

/// With every protocol, a push is answered before its body arrived, with `Retry-After`.
#[tokio::test(start_paused = true)]
async fn pushes_of_every_protocol_are_refused_immediately_with_retry_after() {
    let server = server();
    *server.intake.refusal.lock().unwrap() = unavailable("nothing is acknowledged");
    let mut tried = 0;
    for route in ROUTES.iter().filter(|route| route.group == Group::Write || route.paths[0] == "/events") {
        for verb in route.methods {
            let at = format!("{} {}", verb.name(), route.paths[0]);
            let mut request = pushes(route.paths[0]);
            *request.method_mut() = Method::from_bytes(verb.name().as_bytes()).unwrap();
            let sent = server.app.env.timeout(Duration::from_secs(1), server.send(request));
            let answer = sent.await.unwrap_or_else(|| panic!("{at} waits for its body"));
            tried += 1;
            if at.contains("/opentelemetry.") {
                assert_eq!(answer.headers["grpc-status"], "14", "{at}: UNAVAILABLE");
                let details = STANDARD_NO_PAD.decode(&answer.headers["grpc-status-details-bin"]).unwrap();
                let five_seconds = b"RetryInfo\x12\x04\x0a\x02\x08\x05";
                assert!(details.windows(five_seconds.len()).any(|part| part == five_seconds), "{at}");
                continue;
            }
            assert_eq!(answer.status, 503, "{at}: {}", answer.body);
            assert_eq!(answer.headers["retry-after"], "5", "{at}");
        }
    }
    assert!(tried >= 12, "{tried}");
    assert!(server.intake.batches.lock().unwrap().is_empty());
    assert!(server.intake.samples.lock().unwrap().is_empty());
}

/// Refused pushes are sent again, but Prometheus drops one that is refused with 429: if refused pushes
/// used a rate, data sent after the recovery of the store would be lost.
#[tokio::test(start_paused = true)]
async fn refused_pushes_use_no_rate() {
    let server = Server::over(Arc::new(MemorySource::new(Vec::new())), |settings| {
        settings.limits.ingestion_rate = 1_000;
        settings.limits.ingestion_burst = 1_000;
    });
    let line = "x".repeat(600);
    let now = server.app.env.now_ns();
    let body = format!(r#"{{"streams":[{{"stream":{{"app":"a"}},"values":[["{now}","{line}"]]}}]}}"#);
    *server.intake.refusal.lock().unwrap() = unavailable("nothing is acknowledged");
    for _ in 0..10 {
        assert_eq!(server.push_json(&body).await.status, 503);
    }
    *server.intake.refusal.lock().unwrap() = None;
    assert_eq!(server.push_json(&body).await.status, 204);
    assert_eq!(server.push_json(&body).await.status, 429, "the rate applies");
}
