//! Goal: records from OTLP exporters over gRPC are stored, and the status code tells exporters whether to
//! retry.
//!
//! Method: calls go directly to the router as HTTP/2 requests.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Version};
use base64::Engine;
use bytes::Bytes;
use http_body_util::BodyExt;
use sandur_base::ErrorKind;
use sandur_config::Settings;
use sandur_protobuf::Writer as _;
use sandur_query::MemorySource;
use sandur_service::Failure;
use tower::ServiceExt;

use crate::harness::{NOW, Server};

const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// An `ExportLogsServiceRequest` with one record per line, all at `seconds`.
fn export(seconds: i64, lines: &[&str]) -> Vec<u8> {
    let mut request = Vec::new();
    request.message(1, |resource_logs| {
        resource_logs.message(1, |resource| {
            resource.message(1, |attribute| {
                attribute.text(1, "service.name");
                attribute.message(2, |value| value.text(1, "svc"));
            });
        });
        resource_logs.message(2, |scope_logs| {
            for line in lines {
                scope_logs.message(2, |record| {
                    record.fixed64(1, seconds as u64 * 1_000_000_000); // time_unix_nano
                    record.message(5, |body| body.text(1, line));
                });
            }
        });
    });
    request
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

fn gzipped(message: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(message).unwrap();
    encoder.finish().unwrap()
}

/// The status code, head and message of a response.
async fn call(server: &Server, body: impl Into<Body>, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    let mut request =
        Request::post(EXPORT).version(Version::HTTP_2).header("content-type", "application/grpc+proto");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = server.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let head = response.headers().clone();
    assert_eq!(head["content-type"], "application/grpc");
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let code = trailers.get("grpc-status").or(head.get("grpc-status")).unwrap();
    (code.to_str().unwrap().parse().unwrap(), head, body.to_bytes())
}

fn server_with(change: impl FnOnce(&mut Settings)) -> Server {
    Server::over(Arc::new(MemorySource::new(Vec::new())), change)
}

fn details(head: &HeaderMap) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(&head["grpc-status-details-bin"]).unwrap()
}

fn has_retry_info(head: &HeaderMap) -> bool {
    let name = b"type.googleapis.com/google.rpc.RetryInfo";
    details(head).windows(name.len()).any(|window| window == name)
}

#[tokio::test(start_paused = true)]
async fn records_are_stored_in_every_compression() {
    let message = export(NOW, &["one", "two"]);
    let zstd = zstd::encode_all(&message[..], 1).unwrap();
    for (flag, encoding, body) in [
        (0, None, message.clone()),
        (0, Some("gzip"), message.clone()),
        (1, Some("gzip"), gzipped(&message)),
        (1, Some("zstd"), zstd),
    ] {
        let server = server_with(|_| ());
        let encoding: Vec<(&str, &str)> = encoding.map(|name| ("grpc-encoding", name)).into_iter().collect();
        let (code, _, answer) = call(&server, framed(flag, &body), &encoding).await;
        assert_eq!(
            (code, &answer[..]),
            (0, &[0, 0, 0, 0, 0][..]),
            "an empty message: all records are stored"
        );
        let batches = server.intake.batches.lock().unwrap();
        assert_eq!(batches.iter().map(|batch| batch.rows()).collect::<Vec<_>>(), [2], "{encoding:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn records_beyond_a_limit_are_a_partial_success() {
    let server = server_with(|s| s.limits.max_line_size = 8);
    let message = export(NOW, &["short", "too long for the limit", "fine"]);
    let (code, _, answer) = call(&server, framed(0, &message), &[]).await;
    assert_eq!(code, 0);
    assert_eq!(answer[5] >> 3, 1, "partial_success");
    let partial = &answer[7..];
    assert_eq!(partial[..2], [0x08, 1], "one record was rejected: {answer:?}");
    assert!(String::from_utf8_lossy(partial).contains("svc"), "{answer:?}");
    assert_eq!(server.intake.batches.lock().unwrap()[0].rows(), 2);
}

#[tokio::test(start_paused = true)]
async fn invalid_messages_are_refused_and_nothing_is_stored() {
    let server = server_with(|s| s.limits.max_body_size = 1_000);
    let whole = framed(0, &export(NOW, &["one"]));
    let gzip = [("grpc-encoding", "gzip")];
    let two = [whole.clone(), whole.clone()].concat();
    let mut announced = whole.clone();
    announced[1..5].copy_from_slice(&u32::MAX.to_be_bytes());
    for (body, headers, code) in [
        (whole[..whole.len() - 1].to_vec(), &[][..], 3),
        (whole[..3].to_vec(), &[], 3),
        (Vec::new(), &[], 3),
        (two, &[], 3),
        (announced, &[], 8),
        (framed(0, &vec![0; 2_000]), &[], 8),
        (framed(2, b""), &[], 3),
        (framed(1, b"x"), &[], 12),
        (framed(1, b"x"), &[("grpc-encoding", "brotli")], 12),
        (framed(1, b"no gzip"), &gzip, 3),
        (framed(0, b"\xff\xff\xff"), &[], 3),
    ] {
        let (found, head, message) = call(&server, body.clone(), headers).await;
        assert_eq!((found, message.len()), (code, 0), "{:?}: {:?}", &body[..body.len().min(20)], head);
        assert!(!has_retry_info(&head), "a retry would be refused again");
    }
    assert!(server.intake.batches.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn temporary_failures_ask_for_a_retry() {
    let server = server_with(|_| ());
    let whole = framed(0, &export(NOW, &["one"]));
    let later = [
        (ErrorKind::RateLimited, 8),
        (ErrorKind::Busy, 14),
        (ErrorKind::Unavailable, 14),
        (ErrorKind::Internal, 14),
    ];
    for (kind, code) in later {
        *server.intake.failure.lock().unwrap() = Some(Failure::new(kind, "wait a moment, 100 %\n"));
        let (found, head, _) = call(&server, whole.clone(), &[]).await;
        assert_eq!((found, has_retry_info(&head)), (code, true));
        assert_eq!(head["grpc-message"], "wait a moment, 100 %25");
        assert_eq!(details(&head)[..2], [0x08, code as u8]);
    }
}

#[tokio::test(start_paused = true)]
async fn other_protocols_get_an_error_with_the_supported_one() {
    let server = server_with(|_| ());
    let answer = server.post(EXPORT, &[("content-type", "application/json")], "{}").await;
    assert_eq!((answer.status, answer.kind.as_str()), (200, "application/grpc"));
    assert!(server.intake.batches.lock().unwrap().is_empty());
}
