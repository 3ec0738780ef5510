//! carbonserver's gRPC: the responses of the service `CarbonV2`.
//!
//! Method: calls go directly to the router as HTTP/2 requests.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, Version};
use http_body_util::BodyExt;
use sandur_model::graphite_path_labels;
use sandur_protobuf::Writer as _;
use sandur_query::MemorySeries;
use tower::ServiceExt;

use crate::harness::{NOW, Server};

fn server() -> Server {
    let mut series = MemorySeries::default();
    for path in ["servers.web1.load", "servers.web2.load"] {
        series.edit(&graphite_path_labels(path).unwrap(), |samples| {
            for minute in 0..5 {
                samples.times.push((NOW - NOW % 60 - (4 - minute) * 60) * 1_000);
                samples.values.push(minute as f64);
            }
        });
    }
    Server::over_samples(Arc::new(series), |_| ())
}

async fn call(server: &Server, method: &str, message: &[u8]) -> (u16, Vec<Vec<u8>>) {
    let response = server.router.clone().oneshot(request(method, message)).await.unwrap();
    answer(response.map(Body::new)).await
}

/// A call of a method.
pub(crate) fn request(method: &str, message: &[u8]) -> Request<Body> {
    let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat();
    let request = Request::post(format!("/carbonapi_v2_grpc.CarbonV2/{method}"))
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .body(Body::from(framed));
    request.unwrap()
}

/// The status code and the messages of a response.
pub(crate) async fn answer(response: Response<Body>) -> (u16, Vec<Vec<u8>>) {
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"] == "application/grpc"),
        (200, true)
    );
    let head = response.headers().clone();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let code = trailers.get("grpc-status").or(head.get("grpc-status")).unwrap();
    let (bytes, mut messages) = (body.to_bytes(), Vec::new());
    let mut rest = &bytes[..];
    while let Some((prefix, after)) = rest.split_at_checked(5) {
        let (message, after) = after.split_at(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize);
        messages.push(message.to_vec());
        rest = after;
    }
    assert!(rest.is_empty());
    (code.to_str().unwrap().parse().unwrap(), messages)
}

/// A `FetchRequest` within a `MultiFetchRequest`.
pub(crate) fn fetch(name: &str, from: i64, until: i64) -> Vec<u8> {
    let mut request = Vec::new();
    request.message(1, |fetch| {
        fetch.text(1, name);
        fetch.number(2, from as u64);
        fetch.number(3, until as u64);
    });
    request
}

fn contains(message: &[u8], text: &str) -> bool {
    message.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn every_series_is_a_separate_message() {
    let server = server();
    let (from, until) = (NOW - NOW % 60 - 180, NOW - NOW % 60);
    let asked = [fetch("servers.*.load", from, until), fetch("none.*", from, until)].concat();
    let (code, series) = call(&server, "Render", &asked).await;
    assert_eq!((code, series.len()), (0, 2));
    for (message, name) in series.iter().zip(["servers.web1.load", "servers.web2.load"]) {
        let mut expected = Vec::new();
        expected.text(1, name);
        expected.number(2, (from + 60) as u64);
        assert!(message.starts_with(&expected), "{message:?}");
        let values = [2.0_f64, 3.0, 4.0].map(f64::to_le_bytes).concat();
        assert!(message.windows(values.len()).any(|window| window == values), "{message:?}");
    }
    assert_eq!(call(&server, "Render", &fetch("none.*", from, until)).await, (0, vec![]));
    assert_eq!(call(&server, "Render", b"\x08\x01\xff").await.0, 3, "not a message");
    assert_eq!(call(&server, "Render", &fetch("servers.*.load", 0, i64::MAX / 4)).await.0, 3, "a limit");
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}

/// 20,000 paths with five values each.
fn many(edit: impl FnOnce(&mut sandur_config::Settings)) -> Server {
    let mut series = MemorySeries::default();
    for n in 0..20_000 {
        series.edit(&graphite_path_labels(&format!("many.n{n:05}.load")).unwrap(), |samples| {
            for minute in 0..5 {
                samples.times.push((NOW - NOW % 60 - (4 - minute) * 60) * 1_000);
                samples.values.push((n * 5 + minute) as f64);
            }
        });
    }
    Server::over_samples(Arc::new(series), edit)
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_be_larger_than_the_memory_of_its_query() {
    let server = many(|settings| settings.limits.max_query_memory = 1 << 20);
    let asked = fetch("many.*.load", NOW - NOW % 60 - 300, NOW - NOW % 60);
    let (code, series) = call(&server, "Render", &asked).await;
    assert_eq!((code, series.len()), (0, 20_000));
    assert!(series.iter().map(Vec::len).sum::<usize>() > 3 << 19);
    let mut names: Vec<&[u8]> = series.iter().map(|message| &message[2..18]).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), names[0]), (20_000, &b"many.n00000.load"[..]));
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_middle_is_reported_at_the_end() {
    let server = many(|settings| settings.query.max_samples = 50_000);
    let asked = fetch("many.*.load", NOW - NOW % 60 - 300, NOW - NOW % 60);
    let (code, series) = call(&server, "Render", &asked).await;
    assert!(code != 0 && !series.is_empty() && series.len() < 20_000, "{code} {}", series.len());
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}

#[tokio::test(start_paused = true)]
async fn nodes_lists_and_rules_are_single_messages() {
    let server = server();
    let (code, nodes) = call(&server, "Find", b"\x0a\x09servers.*").await;
    assert_eq!(code, 0);
    assert!(nodes[0].starts_with(b"\x0a\x09servers.*\x12\x0e\x0a\x0cservers.web1"), "{nodes:?}");
    let (code, paths) = call(&server, "List", b"").await;
    assert_eq!((code, paths), (0, vec![b"\x0a\x11servers.web1.load\x0a\x11servers.web2.load".to_vec()]));
    let (code, stats) = call(&server, "Stats", b"").await;
    assert!(code == 0 && contains(&stats[0], "servers.web2.load"), "{stats:?}");
    let (code, info) = call(&server, "Info", b"\x0a\x03a.b").await;
    assert!(code == 0 && info[0].starts_with(b"\x0a\x03a.b\x12\x07average"), "{info:?}");
    assert_eq!(call(&server, "Info", b"").await.0, 3);
    assert_eq!(call(&server, "Version", b"").await, (0, vec![b"\x0a\x012".to_vec()]));
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}
