//! Goal: existing OTLP and remote-write clients work unchanged (for logcli see `logcli.rs`).
//!
//! Method: the real program against the real binary. It is built by `cargo xtask rivals` and found on
//! PATH; without it the test is skipped with a message.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandur_attack::free_address;

use crate::process::{Server, Setup, client_is_there, encode, now_ns};

/// Far longer than a first scrape and a first push take.
const PATIENCE: Duration = Duration::from_secs(60);

fn server(folder: &Path) -> Server {
    Setup::new(format!("file://{}", folder.join("data").display()), folder).start()
}

#[test]
fn telemetrygen_pushes_otlp() {
    if !client_is_there("telemetrygen") {
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

/// The value of an instant query whose answer is a single number.
fn number(server: &Server, query: &str) -> f64 {
    let answer = server.get_json(&format!("/api/v1/query?query={}", encode(query)));
    let text = answer["data"]["result"][0]["value"][1].as_str().unwrap_or("0").to_owned();
    text.parse().unwrap()
}

#[test]
fn telemetrygen_pushes_metrics_of_every_kind_over_http_and_grpc() {
    if !client_is_there("telemetrygen") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path());
    let grpc = free_address().unwrap().to_string();
    let server = setup.with(&["--otlp-grpc-listen", &grpc]).start();
    let http = server.address.to_string();
    for (kind, name) in [("Gauge", "g"), ("Sum", "s"), ("Histogram", "h"), ("ExponentialHistogram", "e")] {
        for (protocol, endpoint) in [("http", &http), ("grpc", &grpc)] {
            let mut command = Command::new("telemetrygen");
            command.args(["metrics", "--otlp-insecure", "--otlp-endpoint", endpoint, "--rate", "0"]);
            command.args(["--metrics", "3", "--metric-type", kind, "--otlp-metric-name", name]);
            command.args(["--aggregation-temporality", "cumulative", "--service", protocol]);
            if protocol == "http" {
                command.args(["--otlp-http", "--otlp-http-url-path", "/otlp/v1/metrics"]);
            }
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{kind} over {protocol}: {said}");
        }
    }
    for protocol in ["http", "grpc"] {
        let selector = format!("{{job=\"{protocol}\", __name__=~\"(g|s|h|e)(_total|_count)?\"}}");
        let names = number(&server, &format!("count(count by (__name__) ({selector}))"));
        assert!(names >= 4.0, "{protocol}: {names} names");
        assert!(number(&server, &format!("histogram_count(e{{job=\"{protocol}\"}})")) > 0.0, "{protocol}");
    }
    assert_eq!(server.terminate(), Some(0));
}

/// A Prometheus that scrapes itself and sends its samples; it is killed on drop.
struct Sender(Child);

impl Sender {
    fn start(folder: &Path, server: &Server, message: &str) -> Self {
        let listen = free_address().unwrap();
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, external_labels: {{sender: {sender:?}}}}}\n\
             scrape_configs: [{{job_name: self, static_configs: [{{targets: [{target:?}]}}]}}]\n\
             remote_write: [{{url: {url:?}, protobuf_message: {message:?}, \
             metadata_config: {{send_interval: 1s}}}}]\n",
            sender = message,
            target = listen.to_string(),
            url = format!("http://{}/api/v1/write", server.address),
        );
        std::fs::write(&config, text).unwrap();
        let log = File::create(folder.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
            .arg(format!("--web.listen-address={listen}"))
            .args(["--enable-feature=metadata-wal-records"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // It may already have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_sends_with_both_versions_of_remote_write() {
    if !client_is_there("prometheus") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    for message in ["prometheus.WriteRequest", "io.prometheus.write.v2.Request"] {
        let own = folder.path().join(message);
        std::fs::create_dir(&own).unwrap();
        let _sender = Sender::start(&own, &server, message);
        let selector = format!("{{sender=\"{message}\"}}");
        let deadline = Instant::now() + PATIENCE;
        while number(&server, &format!("count(prometheus_build_info{selector})")) < 1.0 {
            let said = || std::fs::read_to_string(own.join("prometheus.log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "{message}: {}\n{}", server.log_text(), said());
            std::thread::sleep(Duration::from_millis(50)); // polling another process
        }
        assert!(number(&server, &format!("count({{__name__=~\".+\", sender=\"{message}\"}})")) > 100.0);
        // With version 2.0 it sends metadata with series once they are in its WAL, at an unspecified
        // time.
        while message.starts_with("prometheus.") {
            let metadata = server.get_json("/api/v1/metadata?metric=prometheus_build_info");
            if metadata["data"]["prometheus_build_info"][0]["type"] == "gauge" {
                break;
            }
            assert!(Instant::now() < deadline, "{metadata}");
            std::thread::sleep(Duration::from_millis(50)); // polling another process
        }
    }
    assert_eq!(server.terminate(), Some(0));
}
