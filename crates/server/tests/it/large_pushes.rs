//! Goal: with the minimum memory of a server, usual requests of agents that contain only new series or
//! streams are stored, and may be sent again. They were once permanently refused.
//!
//! Method: the real binary with a limit of 128 MiB on a directory; it stays below that limit.

#![allow(clippy::unwrap_used)] // process tests

use std::path::Path;

use sandur_ingest::RemoteWriteEncoder;
use sandur_model::Labels;
use sandur_protobuf::{Writer as _, prometheus};
use serde_json::json;

use crate::process::{Server, Setup, encode, now_ns, request};

/// Rows of vmagent's largest request.
const SERIES: usize = 10_000;
const LIMIT: u64 = 128 << 20;
const SNAPPY: &[(&str, &str)] = &[("Content-Type", "application/x-protobuf"), ("Content-Encoding", "snappy")];

fn start(folder: &Path) -> Server {
    let store = format!("file://{}", folder.join("data").display());
    Setup::new(store, folder).with(&["--memory-limit", "128MiB"]).start()
}

fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let (status, body) = request(server.address, "POST", path, headers, body).unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// The value of an instant query.
fn value(server: &Server, path: &str, query: &str) -> String {
    let answer = server.get_json(&format!("{path}?query={}", encode(query)));
    answer["data"]["result"][0]["value"][1].as_str().unwrap_or_default().to_owned()
}

/// Ten labels of fifteen bytes that no other series has.
fn labels(name: &str, series: usize) -> Vec<(String, String)> {
    let own = (0..9).map(|n| (format!("label_{n}"), format!("value-{series:07}-{n}")));
    std::iter::once(("__name__".to_owned(), name.to_owned())).chain(own).collect()
}

/// A request of remote write 1.0.
fn version_1(name: &str, now_ms: i64) -> Vec<u8> {
    let mut request = Vec::new();
    for n in 0..SERIES {
        let labels = labels(name, n);
        let pairs = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        prometheus::series(&mut request, pairs, [(now_ms, 1.0)]);
    }
    snap::raw::Encoder::new().compress_vec(&request).unwrap()
}

/// An OTLP request with as many points as an exporter sends at once.
fn otlp(name: &str, now_ms: i64) -> Vec<u8> {
    let mut gauge = Vec::new();
    for n in 0..8_192 {
        gauge.message(1, |point| {
            point.fixed64(3, now_ms as u64 * 1_000_000);
            point.double(4, 1.0);
            for (name, value) in labels(name, n).iter().skip(1) {
                point.message(7, |attribute| {
                    attribute.text(1, name);
                    attribute.message(2, |any| any.text(1, value));
                });
            }
        });
    }
    let mut request = Vec::new();
    request.message(1, |resource| {
        resource.message(2, |scope| {
            scope.message(2, |metric| {
                metric.text(1, name);
                metric.bytes(5, &gauge);
            });
        });
    });
    request
}

#[test]
fn samples_of_ten_thousand_new_series_are_stored_in_128_mebibytes() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let now_ms = now_ns() / 1_000_000;
    let mut second = RemoteWriteEncoder::new();
    let mut text = String::new();
    for n in 0..SERIES {
        second.series(&Labels::from_pairs(labels("second", n)), [(now_ms, 1.0)]);
        let own: Vec<_> =
            labels("", n).iter().skip(1).map(|(name, value)| format!("{name}={value:?}")).collect();
        text.push_str(&format!("text{{{}}} 1 {now_ms}\n", own.join(",")));
    }
    let second = second.finish().unwrap();
    let (first, points) = (version_1("first", now_ms), otlp("otlp", now_ms));
    let type_2 = [("Content-Type", sandur_ingest::REMOTE_WRITE_2_TYPE), ("Content-Encoding", "snappy")];
    let (plain, protobuf) = ([("Content-Type", "text/plain")], [("Content-Type", "application/x-protobuf")]);
    let requests: [(&str, &str, &[(&str, &str)], &[u8], usize); 4] = [
        ("first", "/api/v1/write", SNAPPY, &first, SERIES),
        ("second", "/api/v1/write", &type_2, &second, SERIES),
        ("text", "/api/v1/import/prometheus", &plain, text.as_bytes(), SERIES),
        ("otlp", "/otlp/v1/metrics", &protobuf, &points, 8_192),
    ];
    for (name, path, headers, body, expected) in requests {
        // A push that is repeated takes the same path in every protocol.
        for times in 1..=if name == "first" { 2 } else { 1 } {
            let (status, answer) = post(&server, path, headers, body);
            assert!(matches!(status, 200 | 204), "{name}, time {times}: {status} {answer}");
            let found = value(&server, "/api/v1/query", &format!("sum(count_over_time({name}[1h]))"));
            assert_eq!(found, expected.to_string(), "{name}, time {times}");
        }
    }
    let peak = server.peak_resident_bytes();
    assert!(peak <= LIMIT + LIMIT / 10, "peak {} MiB", peak >> 20);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn lines_of_a_thousand_new_streams_are_stored_in_128_mebibytes() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let now = now_ns();
    let stream = |n: usize| {
        let labels: serde_json::Map<_, _> =
            labels("x", n).into_iter().map(|(name, value)| (name, value.into())).collect();
        json!({"stream": labels, "values": [[now.to_string(), "a line"], [now.to_string(), "another"]]})
    };
    let body = json!({"streams": (0..1_000).map(stream).collect::<Vec<_>>()}).to_string();
    for _ in 0..2 {
        let json = [("Content-Type", "application/json")];
        let (status, answer) = post(&server, "/loki/api/v1/push", &json, body.as_bytes());
        assert_eq!(status, 204, "{answer}");
    }
    let query = "sum(count_over_time({__name__=\"x\"}[1h]))";
    assert_eq!(value(&server, "/loki/api/v1/query", query), "2000");
    assert_eq!(server.terminate(), Some(0));
}
