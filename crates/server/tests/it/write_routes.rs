//! Goal: senders of samples get the statuses, headers and texts that they need to decide what to send
//! again.
//!
//! Method: requests go directly to the router.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use crate::harness::{Answer, NOW, Server};
use sandur_base::ErrorKind;
use sandur_model::{Labels, SampleConflict, SampleConflicts};
use sandur_protobuf::{Writer as _, prometheus};
use sandur_query::MemorySource;
use sandur_service::Failure;

const NOW_MS: i64 = NOW * 1_000;
const V1: &[(&str, &str)] = &[("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
const V2: &[(&str, &str)] = &[
    ("content-type", "application/x-protobuf;proto=io.prometheus.write.v2.Request"),
    ("content-encoding", "snappy"),
];

fn server() -> Server {
    Server::over(Arc::new(MemorySource::new(Vec::new())), |_| {})
}

/// A `WriteRequest` with one series per time.
fn version_1(times_ms: &[i64]) -> Vec<u8> {
    let mut request = Vec::new();
    for time in times_ms {
        prometheus::series(&mut request, [("__name__", "up")], [(*time, 1.0)]);
    }
    request
}

/// The same in version 2.0.
fn version_2(times_ms: &[i64]) -> Vec<u8> {
    let mut request = Vec::new();
    ["", "__name__", "up"].iter().for_each(|symbol| request.bytes(4, symbol.as_bytes()));
    for time in times_ms {
        request.message(5, |series| {
            series.packed(1, [1, 2]);
            prometheus::sample(series, *time, 1.0);
        });
    }
    request
}

async fn write(server: &Server, headers: &[(&str, &str)], plain: &[u8]) -> Answer {
    let body = snap::raw::Encoder::new().compress_vec(plain).unwrap();
    server.post("/api/v1/write", headers, body).await
}

fn written(answer: &Answer) -> Option<&str> {
    answer.headers.get("x-prometheus-remote-write-samples-written").map(|value| value.to_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn remote_write_responds_like_prometheus() {
    let server = server();
    let answer = write(&server, V1, &version_1(&[NOW_MS, NOW_MS - 1])).await;
    assert_eq!((answer.status, answer.body.as_str(), written(&answer)), (204, "", None));
    let answer = write(&server, V2, &version_2(&[NOW_MS])).await;
    assert_eq!((answer.status, written(&answer)), (204, Some("1")));
    let answer = write(&server, V2, &version_2(&[NOW_MS, NOW_MS + 3_600_000])).await;
    assert_eq!((answer.status, written(&answer)), (400, Some("1")), "the rest is stored");
    assert!(answer.body.contains("out of bounds"), "{}", answer.body);
    let rows: usize = server.intake.samples.lock().unwrap().iter().map(|batch| batch.rows()).sum();
    assert_eq!(rows, 4);
    for headers in [
        [("content-type", "application/json"), ("content-encoding", "snappy")],
        [("content-type", "application/x-protobuf"), ("content-encoding", "gzip")],
        [("content-type", "application/x-protobuf;proto=other"), ("content-encoding", "snappy")],
    ] {
        let answer = write(&server, &headers, &version_1(&[NOW_MS])).await;
        assert_eq!(answer.status, 415, "{headers:?}: {}", answer.body);
    }
    let answer = server.post("/api/v1/write", V1, "no snappy").await;
    assert_eq!(answer.status, 400, "{}", answer.body);
}

/// Conflicts of the only sample of each of these series.
fn conflicts(series: &[u32]) -> SampleConflicts {
    let mut conflicts = SampleConflicts::default();
    for position in series {
        let labels = Arc::new(Labels::from_pairs([("__name__", "up")])).into();
        let conflict = || SampleConflict { labels, timestamp: NOW_MS, stored: Some(1.0), refused: Some(2.0) };
        conflicts.add(*position, conflict, false);
    }
    conflicts
}

#[tokio::test(start_paused = true)]
async fn samples_that_conflict_are_not_counted_as_written() {
    let server = server();
    *server.intake.conflicts.lock().unwrap() = conflicts(&[1, 2]);
    let said = "2 errors like: duplicate sample for timestamp 1795240900000; overrides not allowed: existing \
                1, new value 2 for series {__name__=\"up\"}";
    let times = [NOW_MS, NOW_MS, NOW_MS];
    for (headers, body, count) in [(V1, version_1(&times), None), (V2, version_2(&times), Some("1"))] {
        let answer = write(&server, headers, &body).await;
        assert_eq!((answer.status, answer.body.as_str(), written(&answer)), (400, said, count));
    }
    let (import, text) =
        ("/api/v1/import/prometheus", "# TYPE up gauge\nup 1\n\nup 2\nup{a=\"1\"} 3\nup 4\n");
    let answer = server.post(import, &[], text).await;
    assert_eq!((answer.status, answer.body.as_str()), (400, said));
    let asked = server.post(import, &[("x-sandur-refused", "lines")], text).await;
    let json: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(json["refused"], serde_json::json!([[3, 2, "new_value_for_timestamp"]]), "{}", asked.body);
    let json = [("content-type", "application/json")];
    let answer = server.post("/otlp/v1/metrics", &json, gauge("asDouble")).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("duplicate sample for timestamp 1795240900000"), "{}", answer.body);
    let metrics = server.get("/metrics", &[]).await.body;
    assert!(
        metrics.contains(r#"sandur_push_refused_samples_total{reason="new_value_for_timestamp"} 10"#),
        "{metrics}"
    );
}

/// An `ExportMetricsServiceRequest` with a point that has a member with this name.
fn gauge(value: &str) -> String {
    let point = format!(r#"{{"timeUnixNano":"{NOW}000000000","{value}":1}}"#);
    let metric = format!(r#"{{"name":"g","gauge":{{"dataPoints":[{point}]}}}}"#);
    format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#)
}

/// Prometheus drops a push that is refused with 429, and repeats one that is refused with a 5xx.
#[tokio::test(start_paused = true)]
async fn a_server_that_lacks_a_resource_does_not_respond_with_429() {
    let server = server();
    *server.intake.failure.lock().unwrap() = Some(Failure::new(ErrorKind::Busy, "the heads are full"));
    for (form, body) in [(V1, version_1(&[NOW_MS])), (V2, version_2(&[NOW_MS]))] {
        let answer = write(&server, form, &body).await;
        assert_eq!((answer.status, answer.body.as_str()), (503, "the heads are full"));
    }
}

#[tokio::test(start_paused = true)]
async fn rates_of_samples_are_limited() {
    let server = Server::over(Arc::new(MemorySource::new(Vec::new())), |s| {
        s.limits.metrics.ingestion_rate = 2;
    });
    assert_eq!(write(&server, V1, &version_1(&[NOW_MS, NOW_MS - 1])).await.status, 204);
    let answer = write(&server, V1, &version_1(&[NOW_MS])).await;
    assert_eq!(answer.status, 429);
    assert!(answer.body.contains("err-mimir-tenant-max-ingestion-rate"), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn refused_lines_of_a_text_are_listed_on_request() {
    let server = server();
    let (path, text) = ("/api/v1/import/prometheus", "up 1\nup one\nup two\n\nup 2\nup{a} 2\n");
    let answer = server.post(path, &[("x-sandur-refused", "lines")], text).await;
    assert_eq!(answer.status, 400);
    let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let expected = serde_json::json!([[1, 2, "invalid_sample"], [5, 1, "invalid_labels"]]);
    assert_eq!(json["refused"], expected, "{}", answer.body);
    let plain = server.post(path, &[("x-sandur-refused", "entries")], text).await;
    assert_eq!(
        (plain.status, plain.body.contains("line 2: expected a value")),
        (400, true),
        "{}",
        plain.body
    );
    let all = server.post(path, &[("x-sandur-refused", "lines")], "up 1\n").await;
    assert_eq!((all.status, all.body.as_str()), (204, ""));
}

#[tokio::test(start_paused = true)]
async fn texts_and_otlp_are_stored() {
    let server = server();
    let text = server.post("/api/v1/import/prometheus?extra_label=job=a&timestamp=5", &[], "up 1\n").await;
    assert_eq!(text.status, 204, "{}", text.body);
    let group = server.post("/metrics/job/b/instance/c", &[], "# TYPE up gauge\nup 1\n").await;
    assert_eq!(group.status, 200, "{}", group.body);
    let bad = server.post("/api/v1/import/prometheus", &[], "up one\n").await;
    assert_eq!((bad.status, bad.body.contains("line 1")), (400, true), "{}", bad.body);
    let json = [("content-type", "application/json")];
    let otlp = server.post("/otlp/v1/metrics", &json, gauge("asDouble")).await;
    assert_eq!((otlp.status, otlp.body.as_str()), (200, "{}"));
    let misspelt = gauge("asDouble").replace("dataPoints", "datapoints");
    let refused = server.post("/otlp/v1/metrics", &json, misspelt).await;
    assert_eq!((refused.status, refused.body.contains("dataPoints")), (400, true), "{}", refused.body);
    let batches = server.intake.samples.lock().unwrap();
    let series: Vec<String> = batches
        .iter()
        .flat_map(|batch| batch.series.iter().map(|series| series.labels.to_string()))
        .collect();
    assert_eq!(
        series,
        [
            r#"{__name__="up", job="a"}"#,
            r#"{__name__="up", instance="c", job="b"}"#,
            r#"{__name__="push_time_seconds", instance="c", job="b"}"#,
            r#"{__name__="push_failure_time_seconds", instance="c", job="b"}"#,
            r#"{__name__="g"}"#
        ]
    );
    assert_eq!(batches[0].timestamps, [5]);
}
