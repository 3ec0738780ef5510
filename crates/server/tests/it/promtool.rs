//! Goal: promtool's queries and our own commands work with samples that were pushed with remote write,
//! both in memory and in blocks; deletes hide samples immediately and permanently.
//!
//! Method: the real binary with series whose values are known. promtool is built by `cargo xtask rivals`
//! and found on PATH; without it its part is skipped with a message.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use sandur_protobuf::prometheus;

use crate::process::{Server, Setup, client_is_there, now_ns, request};

const SAMPLES: i64 = 240;
const SPACING_MS: i64 = 15_000;

/// `up` and `requests_total` of two instances until `end_ms`, as a body of remote write 1.0.
fn body(end_ms: i64) -> Vec<u8> {
    let mut write = Vec::new();
    for instance in 1..=2 {
        for name in ["up", "requests_total"] {
            let instance_text = instance.to_string();
            let labels = [("__name__", name), ("instance", &instance_text), ("job", "api")];
            let samples = (0..SAMPLES).map(|n| {
                let value = if name == "up" { 1.0 } else { (n * 30 * instance) as f64 };
                (end_ms - (SAMPLES - 1 - n) * SPACING_MS, value)
            });
            prometheus::series(&mut write, labels, samples);
        }
    }
    snap::raw::Encoder::new().compress_vec(&write).unwrap()
}

fn start(folder: &Path) -> Server {
    Setup::new(format!("file://{}", folder.join("data").display()), folder).start()
}

fn push(server: &Server, end_ms: i64) {
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
    let (status, text) = request(server.address, "POST", "/api/v1/write", &headers, &body(end_ms)).unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&text));
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {out}{err}");
    out.into_owned()
}

fn promtool(server: &Server, end_ms: i64) {
    let url = format!("http://{}", server.address);
    let (end, start) = ((end_ms / 1_000).to_string(), (end_ms / 1_000 - 600).to_string());
    let at = format!("--time={end}");
    let instant = run("promtool", &["query", "instant", &at, &url, "sum by (job) (up)"]);
    assert!(instant.starts_with("{job=\"api\"} => 2 @["), "{instant}");
    let range = [&format!("--start={start}")[..], &format!("--end={end}"), "--step=60s"];
    let range =
        [&["query", "range"][..], &range, &[&url, "increase(requests_total{instance=\"1\"}[5m])"]].concat();
    assert_eq!(run("promtool", &range).matches("@[").count(), 11);
    let series = run("promtool", &["query", "series", &url, "--match=up"]);
    assert_eq!(series.lines().filter(|line| line.contains("instance=")).count(), 2, "{series}");
    assert_eq!(run("promtool", &["query", "labels", &url, "instance"]), "1\n2\n");
    run("promtool", &["check", "healthy", &format!("--url={url}")]);
    run("promtool", &["check", "ready", &format!("--url={url}")]);
    check_metrics(server);
}

/// Checks names, types and helps of the server's own metrics with promtool.
fn check_metrics(server: &Server) {
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = promtool.spawn().unwrap();
    running.stdin.take().unwrap().write_all(&text).unwrap();
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

fn own_commands(server: &Server) {
    let address = format!("http://{}", server.address);
    let sandur =
        |arguments: &[&str]| run(env!("CARGO_BIN_EXE_sandur"), &[arguments, &["--addr", &address]].concat());
    assert_eq!(sandur(&["query", "sum(up)", "--instant", "-o", "raw"]), "2\n");
    let chart = sandur(&["query", "requests_total", "--since", "30m"]);
    assert!(
        chart.contains("requests_total{instance=\"1\", job=\"api\"}") && chart.contains("last "),
        "{chart}"
    );
    assert!(chart.lines().count() > 12, "{chart}");
    assert_eq!(sandur(&["labels", "--metrics", "job"]), "api\n");
    assert_eq!(sandur(&["series", "--metrics", "up"]).lines().count(), 2);
}

fn count(server: &Server, query: &str, end_ms: i64) -> String {
    let path = format!("/api/v1/query?query={query}&time={}", end_ms / 1_000);
    let answer = server.get_json(&path);
    answer["data"]["result"][0]["value"][1].as_str().unwrap_or("nothing").to_owned()
}

#[test]
fn clients_of_prometheus_find_pushed_samples_in_memory_and_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let end_ms = now_ns() / 15_000_000_000 * 15_000;
    push(&server, end_ms);
    let has_promtool = client_is_there("promtool");
    for place in ["memory", "blocks"] {
        if place == "blocks" {
            assert!(request(server.address, "POST", "/flush", &[], b"").unwrap().0 < 300);
        }
        if has_promtool {
            promtool(&server, end_ms);
        }
        own_commands(&server);
        assert_eq!(count(&server, "count(count_over_time(up[2h]))", end_ms), "2", "{place}");
    }
    let blocks = server.get_json("/api/v1/status/tsdb/blocks");
    let samples: u64 = blocks["data"]["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["stats"]["numSamples"].as_u64().unwrap())
        .sum();
    assert_eq!(samples, 4 * SAMPLES as u64);
}

#[test]
fn deleted_samples_are_hidden_immediately_and_permanently() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let end_ms = now_ns() / 15_000_000_000 * 15_000;
    push(&server, end_ms);
    let all = "sum(count_over_time(%7B__name__=~%22.%2B%22%7D[2h]))";
    assert_eq!(count(&server, all, end_ms), (4 * SAMPLES).to_string());
    let kept = end_ms / 1_000 - 600;
    let path = format!("/api/v1/admin/tsdb/delete_series?match[]=up%7Binstance=%221%22%7D&end={kept}");
    assert_eq!(request(server.address, "POST", &path, &[], b"").unwrap().0, 204);
    // The samples of the last ten minutes are left: 40.
    let left = (3 * SAMPLES + 40).to_string();
    assert_eq!(count(&server, all, end_ms), left);
    assert!(request(server.address, "POST", "/flush", &[], b"").unwrap().0 < 300);
    assert_eq!(count(&server, all, end_ms), left, "in blocks");
    assert_eq!(server.terminate(), Some(0));
    let server = start(folder.path());
    assert_eq!(count(&server, all, end_ms), left, "after a restart");
}
