//! Goal: an OTLP client that people have works unchanged (`logcli.rs` is about logcli).
//!
//! Method: the real program against the real binary. It is built by `cargo xtask rivals` and found on PATH;
//! without it the test says that it was skipped.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::{Server, Setup, now_ns};

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
