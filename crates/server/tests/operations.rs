//! Goal: what operators ask of a running process happens: patterns come from memory and from blocks alike,
//! the log says more when it is told to, and a request to stop stops it without losing a line.
//!
//! Method: the real binary over a local directory.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

mod process;

use process::{Server, Setup, encode, now_ns, request};
use serde_json::{Value, json};

const LINES: i64 = 200;

fn push_lines(server: &Server, base_ns: i64) {
    let line = |n: i64| match n % 4 {
        0 => (base_ns + n, format!("level=error msg=\"cannot reach 10.0.0.{n}\" took={n}ms")),
        _ => (base_ns + n, format!("level=info msg=\"request done\" path=/api/v1/users/{n} took={n}ms")),
    };
    let values: Vec<(i64, String)> = (0..LINES).map(line).collect();
    let (status, body) = server.push(&json!({"app": "shop"}), &values).unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
}

fn patterns(server: &Server, base_ns: i64) -> Value {
    let range = format!("start={}&end={}", base_ns - 1_000_000_000, base_ns + 1_000_000_000);
    let query = encode("{app=\"shop\"}");
    server.get_json(&format!("/loki/api/v1/patterns?query={query}&{range}&step=60"))["data"].clone()
}

fn post(server: &Server, path: &str) -> (u16, String) {
    let (status, body) = request(server.address, "POST", path, &[], b"").unwrap();
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn patterns_are_the_same_from_memory_and_from_blocks_and_select_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let server = Setup::new(store, folder.path()).start();
    let base_ns = now_ns();
    push_lines(&server, base_ns);
    let fresh = patterns(&server, base_ns);
    let texts: Vec<(&str, &str)> = fresh
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (p["pattern"].as_str().unwrap(), p["level"].as_str().unwrap()))
        .collect();
    assert_eq!(
        texts,
        [
            ("level=info msg=\"request done\" path=/api/v1/users/<_> took=<_>", "info"),
            ("level=error msg=\"cannot reach <_>\" took=<_>", "error"),
        ]
    );
    assert_eq!(post(&server, "/ingester/flush").0, 204);
    assert_eq!(patterns(&server, base_ns), fresh);
    for (pattern, lines) in texts.iter().zip([LINES * 3 / 4, LINES / 4]) {
        let query = format!("{{app=\"shop\"}} |> `{}`", pattern.0);
        assert_eq!(server.lines(&query, base_ns - 1, base_ns + LINES, 1_000).len() as i64, lines, "{query}");
    }
}

/// Bytes by step from memory and from blocks, whatever the steps are: every line counts once.
#[test]
fn volumes_by_step_add_up_to_what_was_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let server = Setup::new(store, folder.path()).start();
    let (second, base_ns) = (1_000_000_000, now_ns() - 600_000_000_000);
    let values: Vec<(i64, String)> =
        (0..300).map(|n| (base_ns + n * second, format!("line {n:>4}"))).collect();
    let (status, _) = server.push(&json!({"app": "shop"}), &values).unwrap();
    assert_eq!(status, 204);
    let volume = |step: &str| {
        let range = format!("start={}&end={}", base_ns - second / 2, base_ns + 300 * second);
        let query = encode("{app=\"shop\"}");
        let path = format!("/loki/api/v1/index/volume_range?query={query}&{range}&step={step}");
        let samples = server.get_json(&path)["data"]["result"][0]["values"].clone();
        let bytes = |sample: &Value| sample[1].as_str().unwrap().parse::<u64>().unwrap();
        samples.as_array().unwrap().iter().map(bytes).collect::<Vec<u64>>()
    };
    for flushed in [false, true] {
        for (step, most) in [("60", 540), ("14", 126), ("1", 9), ("3600", 2_700)] {
            let sums = volume(step);
            assert_eq!(sums.iter().sum::<u64>(), 2_700, "step {step}, flushed {flushed}: {sums:?}");
            assert!(sums.iter().all(|bytes| *bytes <= most), "step {step}, flushed {flushed}: {sums:?}");
        }
        assert_eq!(post(&server, "/ingester/flush").0, 204);
    }
}

#[test]
fn the_level_of_the_log_is_changed_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let server = Setup::new(store, folder.path()).with(&["--log-level", "error"]).start();
    let query = format!("/loki/api/v1/query?query={}", encode("vector(1)"));
    server.get_json(&query);
    assert!(!server.log_text().contains("query_hash"), "{}", server.log_text());
    assert_eq!(post(&server, "/log_level?log_level=info").0, 200);
    server.get_json(&query);
    assert!(server.log_text().contains("query_hash"), "{}", server.log_text());
    let shown = server.get_json("/log_level");
    assert_eq!(shown["message"], "Current log level is info");
}

#[test]
fn a_request_stops_the_process_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let setup = Setup::new(store, folder.path());
    let server = setup.start();
    let base_ns = now_ns();
    push_lines(&server, base_ns);
    assert_eq!(post(&server, "/ingester/shutdown"), (204, String::new()));
    assert_eq!(server.wait(), Some(0));
    let again = setup.start();
    let lines = again.lines("{app=\"shop\"}", base_ns - 1, base_ns + LINES, 1_000);
    assert_eq!(lines.len() as i64, LINES);
}
