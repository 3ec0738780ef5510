//! Goal: clients that people have work unchanged: logcli's subcommands and an OTLP push.
//!
//! Method: the real programs against the real binary. They are built by `cargo xtask rivals` and found on
//! PATH; without them the tests say that they were skipped.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

mod process;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use process::{Server, Setup, now_ns};
use serde_json::json;

fn available(program: &str) -> bool {
    let found =
        Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {program} is not on PATH (`cargo xtask rivals {program}` builds it)");
    }
    found
}

fn server(folder: &Path) -> Server {
    Setup::new(format!("file://{}", folder.join("data").display()), folder).start()
}

fn push_two_streams(server: &Server) {
    let now = now_ns();
    for (app, count) in [("api", 30), ("worker", 20)] {
        let values: Vec<(i64, String)> = (0..count)
            .map(|n| (now - 60_000_000_000 + n, format!("level=info msg=\"{app} line\" n={n}")))
            .collect();
        let (status, _) = server.push(&json!({"app": app, "env": "test"}), &values).unwrap();
        assert_eq!(status, 204);
    }
}

fn logcli(server: &Server, arguments: &[&str]) -> String {
    let address = format!("--addr=http://{}", server.address);
    let output = Command::new("logcli").arg(address).args(arguments).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "logcli {arguments:?}: {stderr}");
    stdout.into_owned()
}

#[test]
fn logcli_works_unchanged() {
    if !available("logcli") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    push_two_streams(&server);
    let lines =
        logcli(&server, &["query", r#"{app="api"} |= "n=7""#, "--limit=10", "--quiet", "--output=raw"]);
    assert_eq!(lines.trim(), r#"level=info msg="api line" n=7"#);
    let counted = logcli(&server, &["query", r#"{app="api"} | logfmt | n >= 25"#, "--limit=100", "--quiet"]);
    assert_eq!(counted.lines().count(), 5, "{counted}");
    let instant = logcli(&server, &["instant-query", r#"sum by (app) (count_over_time({env="test"}[5m]))"#]);
    let vector: serde_json::Value = serde_json::from_str(&instant).unwrap();
    assert_eq!(vector.as_array().unwrap().len(), 2, "{instant}");
    assert!(instant.contains("\"30\"") && instant.contains("\"20\""), "{instant}");
    let labels = logcli(&server, &["labels", "--quiet"]);
    assert_eq!(labels.split_whitespace().collect::<Vec<_>>(), ["app", "env", "service_name"]);
    let values = logcli(&server, &["labels", "app", "--quiet"]);
    assert_eq!(values.split_whitespace().collect::<Vec<_>>(), ["api", "worker"]);
    let series = logcli(&server, &["series", r#"{env="test"}"#, "--quiet"]);
    assert_eq!(series.lines().count(), 2, "{series}");
    let stats = logcli(&server, &["stats", r#"{env="test"}"#, "--quiet"]);
    assert!(stats.contains("streams:") && stats.contains('2'), "{stats}");
    let volume = logcli(&server, &["volume", r#"{env="test"}"#, "--quiet"]);
    assert!(volume.contains("api") || volume.contains("env"), "{volume}");
    let volume_range = logcli(&server, &["volume_range", r#"{env="test"}"#, "--quiet", "--step=1h"]);
    assert!(volume_range.contains("values"), "{volume_range}");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn logcli_tails() {
    if !available("logcli") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    push_two_streams(&server);
    let address = format!("--addr=http://{}", server.address);
    let mut tail = Command::new("logcli")
        .arg(address)
        .args(["query", r#"{app="live"}"#, "--tail", "--quiet", "--output=raw"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(tail.stdout.take().unwrap());
    // The follower may not be connected yet: lines are pushed until one arrives.
    let address = server.address;
    let pusher = std::thread::spawn(move || {
        for n in 0..600 {
            let values = [(now_ns(), format!("live line {n}"))];
            if process::push(address, &json!({"app": "live"}), &values).is_err() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("live line"), "{line}");
    tail.kill().unwrap();
    tail.wait().unwrap();
    assert_eq!(server.terminate(), Some(0));
    pusher.join().unwrap();
}

#[test]
fn telemetrygen_pushes_otlp() {
    if !available("telemetrygen") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let endpoint = server.address.to_string();
    let output = Command::new("telemetrygen")
        .args(["logs", "--otlp-http", "--otlp-insecure", "--otlp-endpoint", &endpoint])
        .args(["--otlp-http-url-path", "/otlp/v1/logs", "--logs", "10", "--service", "otel-demo"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let now = now_ns();
    let lines =
        server.lines(r#"{service_name="otel-demo"}"#, now - 3_600_000_000_000, now + 60_000_000_000, 100);
    assert_eq!(lines.len(), 10, "{lines:?}");
    assert_eq!(server.terminate(), Some(0));
}
