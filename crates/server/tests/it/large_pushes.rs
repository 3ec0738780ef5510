//! Goal: with the minimum memory of a server, usual requests of agents that contain only new series or
//! streams are stored, and may be sent again. They were once permanently refused.
//!
//! Method: the real binary with a limit of 128 MiB on a directory; it stays below that limit.

#![allow(clippy::unwrap_used)] // process tests

use std::path::Path;

use sandur_ingest::RemoteWriteEncoder;
use sandur_model::Labels;
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

fn put(bytes: &mut Vec<u8>, field: u8, content: &[u8]) {
    bytes.push(field << 3 | 2);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn pair(name: &str, value: &[u8], field: u8) -> Vec<u8> {
    let mut pair = Vec::new();
    put(&mut pair, 1, name.as_bytes());
    put(&mut pair, field, value);
    pair
}

/// A request of remote write 1.0.
fn version_1(name: &str, now_ms: u64) -> Vec<u8> {
    let (mut request, mut series, mut sample) = (Vec::new(), Vec::new(), vec![1 << 3 | 1]);
    sample.extend_from_slice(&1f64.to_le_bytes());
    sample.push(2 << 3);
    varint(&mut sample, now_ms);
    for n in 0..SERIES {
        series.clear();
        labels(name, n)
            .iter()
            .for_each(|(name, value)| put(&mut series, 1, &pair(name, value.as_bytes(), 2)));
        put(&mut series, 2, &sample);
        put(&mut request, 1, &series);
    }
    snap::raw::Encoder::new().compress_vec(&request).unwrap()
}

/// An OTLP request with as many points as an exporter sends at once.
fn otlp(name: &str, now_ms: u64) -> Vec<u8> {
    let (mut points, mut metric, mut scope) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..8_192 {
        let mut point = vec![3 << 3 | 1];
        point.extend_from_slice(&(now_ms * 1_000_000).to_le_bytes());
        point.push(4 << 3 | 1);
        point.extend_from_slice(&1f64.to_le_bytes());
        for (name, value) in labels(name, n).iter().skip(1) {
            let mut text = Vec::new();
            put(&mut text, 1, value.as_bytes());
            put(&mut point, 7, &pair(name, &text, 2));
        }
        put(&mut points, 1, &point);
    }
    put(&mut metric, 1, name.as_bytes());
    put(&mut metric, 5, &points);
    put(&mut scope, 2, &metric);
    let mut resource = Vec::new();
    put(&mut resource, 2, &scope);
    let mut request = Vec::new();
    put(&mut request, 1, &resource);
    request
}

#[test]
fn samples_of_ten_thousand_new_series_are_stored_in_128_mebibytes() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let now_ms = now_ns() as u64 / 1_000_000;
    let mut second = RemoteWriteEncoder::new();
    let mut text = String::new();
    for n in 0..SERIES {
        second.series(&Labels::from_pairs(labels("second", n)), [(now_ms as i64, 1.0)]);
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
        for times in 1..=2 {
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
