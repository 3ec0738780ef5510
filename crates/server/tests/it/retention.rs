//! Goal: the options of retention apply to the store: streams, series and paths whose period is over are
//! removed, all others remain; invalid rules are refused with file, key and reason, at the start and
//! while the server runs, and then nothing changes.
//!
//! Method: the real binary on a directory, with rows of past days.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::time::{Duration, Instant};

use crate::process::{Server, Setup, encode, now_ns, request};
use serde_json::json;

const SECOND_NS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// Waits until `done` returns true; panics with `what` and the log after a minute.
pub fn until(what: &str, server: &Server, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what} within a minute:\n{}", server.log_text());
        std::thread::sleep(Duration::from_millis(50)); // polling another process
    }
}

/// Pushes lines of apps, samples of environments and points of paths that are three days old.
fn push(server: &Server) {
    let time_s = now_ns() / SECOND_NS - 3 * DAY_S;
    for app in ["debug", "plain"] {
        let lines: Vec<(i64, String)> =
            (0..10).map(|n| ((time_s + n) * SECOND_NS, format!("line {n}"))).collect();
        assert_eq!(server.push(&json!({ "app": app }), &lines).unwrap().0, 204);
    }
    let post = |path: &str, body: String| {
        let (status, answer) = request(server.address, "POST", path, &[], body.as_bytes()).unwrap();
        assert!(status < 300, "{status} {}", String::from_utf8_lossy(&answer));
    };
    let sample = |env: &str, n: i64| format!("up{{env=\"{env}\"}} {n} {}\n", (time_s + n) * 1_000);
    let samples: String = (0..10).flat_map(|n| [sample("dev", n), sample("prod", n)]).collect();
    post("/api/v1/import/prometheus", samples);
    let point = |path: &str, n: i64| format!("{path} {n} {}\n", time_s + n);
    let points: String = (0..10).flat_map(|n| [point("short.a", n), point("other.a", n)]).collect();
    post("/graphite/carbon", points);
    post("/flush", String::new());
}

/// The existing values of labels.
fn found(server: &Server) -> String {
    let start = (now_ns() / SECOND_NS - 5 * DAY_S).to_string();
    let of = |path: &str| {
        let answer = server.get_json(&format!("{path}?start={start}"));
        let values = answer["data"].as_array().cloned().unwrap_or_default();
        values.iter().map(|value| value.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let lines = encode(r#"sum by (app) (count_over_time({app=~".+"}[5d]))"#);
    let counted = server.get_json(&format!("/loki/api/v1/query?query={lines}"));
    let counted = counted["data"]["result"].as_array().cloned().unwrap_or_default();
    let mut apps: Vec<&str> = counted.iter().map(|one| one["metric"]["app"].as_str().unwrap()).collect();
    apps.sort_unstable();
    format!("{} | {} | {}", apps.join(" "), of("/api/v1/label/env/values"), of("/api/v1/label/__g0__/values"))
}

fn setup(folder: &std::path::Path) -> Setup {
    let store = folder.join("data").to_str().unwrap().to_owned();
    Setup::new(store, folder).with(&["--compaction-interval=200ms", "--retention-change-delay=300ms"])
}

#[test]
fn series_are_removed_by_selectors_and_graphites_rules() {
    let folder = tempfile::tempdir().unwrap();
    let schemas = folder.path().join("storage-schemas.conf");
    std::fs::write(&schemas, "[short]\npattern = ^short\\.\nretentions = 10s:1h,1m:2d\n").unwrap();
    let config = folder.path().join("sandur.toml");
    let rules = r#"
        [[limits.retention_stream]]
        selector = '{app="debug"}'
        period = "2d"
        [[limits.metrics.retention_series]]
        selector = '{env="dev"}'
        period = "48h"
        [[limits.metrics.retention_series]]
        selector = '{env=~"prod|dev"}'
        priority = -1
        period = "1d"
        [graphite]
        schemas = "SCHEMAS"
        expire = true
        [tenants.other]
        retention_stream = []
    "#;
    std::fs::write(&config, rules.replace("SCHEMAS", schemas.to_str().unwrap())).unwrap();
    let server = setup(folder.path()).start();
    push(&server);
    assert_eq!(found(&server), "debug plain | dev prod | other short");
    assert_eq!(server.terminate(), Some(0));
    let server = setup(folder.path()).with(&["--config", config.to_str().unwrap()]).start();
    until("they are removed", &server, || found(&server) == "plain |  | other");
    let shown = String::from_utf8(server.get("/config/tenant/v1/limits").1).unwrap();
    assert!(shown.contains("retention_stream"), "{shown}");
    for (line, value) in [
        (r#"sandur_engine_retention_rows_total{reason="selector"} "#, "30"),
        (r#"sandur_engine_retention_rows_total{reason="labels"} "#, "10"),
        (r#"sandur_engine_retention_blocks_total{outcome="rewritten"} "#, "2"),
    ] {
        // Rows are counted after they were removed.
        until(line, &server, || {
            let page = String::from_utf8(server.get("/metrics").1).unwrap();
            page.lines().any(|of_page| of_page.strip_prefix(line) == Some(value))
        });
    }
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn wrong_rules_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let limits = folder.path().join("limits.toml");
    let of = |rule: &str| format!("[overrides.fake]\nretention_period = '1d'\nretention_stream = [{rule}]\n");
    let keeping = of(r#"{ selector = '{app=~"debug|plain"}', period = "30d" }"#);
    let arguments = ["--limits-file", limits.to_str().unwrap()];
    for (rule, reason) in [
        (r#"{ selector = '{app="debug"', period = "30d" }"#, "'{app=\"debug\"'"),
        (r#"{ selector = '{app="debug"}', period = "0s" }"#, "the period of '{app=\"debug\"}' is 0"),
        (r#"{ selector = '{app="debug"}', periode = "1d" }"#, "periode"),
    ] {
        std::fs::write(&limits, of(rule)).unwrap();
        let log = setup(folder.path()).with(&arguments).try_start().err().expect("it is refused");
        let place = format!("{}:3: retention_stream: ", limits.display());
        assert!(log.contains(&place) && log.contains(reason), "{reason}: {log}");
    }
    std::fs::write(&limits, &keeping).unwrap();
    let server = setup(folder.path()).with(&arguments).start();
    push(&server);
    let lines = || found(&server).split(" | ").next().unwrap().to_owned();
    std::fs::write(&limits, of(r#"{ selector = '{app=~"plain', period = "1d" }"#)).unwrap();
    server.prints("the old ones stay in use");
    assert_eq!(lines(), "debug plain", "the old rules apply");
    std::fs::write(&limits, of(r#"{ selector = '{app="plain"}', period = "30d" }"#)).unwrap();
    until("the rest is removed", &server, || lines() == "plain");
    assert_eq!(server.terminate(), Some(0));
}
