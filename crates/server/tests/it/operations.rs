//! Goal: requests of operators to a running process work: patterns are the same from memory and from
//! blocks, the log level can be changed, and a request to stop stops it without losing a line.
//!
//! Method: the real binary on a local directory.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::process::{Command, Stdio};

use crate::process::{Ended, Server, Setup, encode, now_ns, request};
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

/// Bytes per step from memory and from blocks, for any step: every line counts once.
#[test]
fn volumes_by_step_add_up_to_the_pushed_bytes() {
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
fn the_log_level_can_be_changed_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let server =
        Setup::new(store, folder.path()).with(&["--log-level", "error", "--query-log", "all"]).start();
    let query = |number: u32| server.get_json(&format!("/loki/api/v1/query?query=vector%28{number}%29"));
    query(1);
    assert!(!server.log_text().contains("query_hash"), "{}", server.log_text());
    assert_eq!(post(&server, "/log_level?log_level=info").0, 200);
    query(2);
    server.prints("query=vector(2)");
    let shown = server.get_json("/log_level");
    assert_eq!(shown["message"], "Current log level is info");
}

/// Lines of queries in the log of the process.
fn query_lines(server: &Server) -> Vec<String> {
    server.log_text().lines().filter(|line| line.contains("query_hash=")).map(str::to_owned).collect()
}

/// Goal: the log does not grow with the number of queries, and says what it lacks.
#[test]
fn the_log_has_a_bounded_selection_of_queries_and_counts_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let server = Setup::new(store, folder.path()).with(&["--query-slow-threshold", "1h"]).start();
    let began = std::time::Instant::now();
    let ask = |query: &str| {
        let path = format!("/loki/api/v1/query?query={}", encode(query));
        request(server.address, "GET", &path, &[], b"").unwrap().0
    };
    for n in 0..300 {
        assert_eq!(ask(&format!("vector({n})")), 200);
        assert_eq!(ask(&format!("vector({n}")), 400);
    }
    // A window has ten seconds.
    let windows = began.elapsed().as_secs() as usize / 10 + 2;
    server.prints("status=400");
    let lines = query_lines(&server);
    let failed = lines.iter().filter(|line| line.contains("status=400")).count();
    assert!((10..=10 * windows).contains(&failed), "{failed} lines of failed queries in {windows} windows");
    assert!((1..=windows).contains(&(lines.len() - failed)), "{lines:#?}");
    let left_out = |kind: &str| {
        let (_, page) = request(server.address, "GET", "/metrics", &[], b"").unwrap();
        let page = String::from_utf8(page).unwrap();
        let name = format!("sandur_query_log_left_out_lines_total{{kind=\"{kind}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
        line.parse::<usize>().unwrap()
    };
    assert_eq!((left_out("failed"), left_out("slow")), (300 - failed, 0));
    assert_eq!(left_out("other"), 300 - (lines.len() - failed));
}

#[test]
fn a_request_stops_the_process_cleanly() {
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

/// Families of a page in Prometheus's text format: name, type, samples.
fn families(page: &str) -> Vec<(String, String, Vec<String>)> {
    let mut families: Vec<(String, String, Vec<String>)> = Vec::new();
    let mut explained = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
            assert!(help.len() > 3, "{line}");
            explained = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(explained, name, "the help comes before the type");
            families.push((name.to_owned(), kind.to_owned(), Vec::new()));
        } else {
            let (name, kind, samples) = families.last_mut().unwrap_or_else(|| panic!("no type: {line}"));
            let of = line.split(['{', ' ']).next().unwrap();
            let suffix = of.strip_prefix(name.as_str()).unwrap_or_else(|| panic!("{line} in {name}"));
            let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(suffixes.contains(&suffix), "{line} in {name}");
            samples.push(line.to_owned());
        }
    }
    families
}

#[test]
fn every_metric_has_a_valid_name_type_and_help() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let server = Setup::new(store, folder.path()).start();
    let lines: Vec<(i64, String)> = (0..100).map(|n| (now_ns() + n, format!("line {n}"))).collect();
    assert_eq!(server.push(&serde_json::json!({"job": "metrics"}), &lines).unwrap().0, 204);
    let query = encode(r#"sum(count_over_time({job="metrics"}[5m]))"#);
    server.get_json(&format!("/loki/api/v1/query?query={query}"));
    request(server.address, "POST", "/flush", &[], b"").unwrap();
    let (status, page) = server.get("/metrics");
    let page = String::from_utf8(page).unwrap();
    assert_eq!(status, 200);
    let families = families(&page);
    let mut names = std::collections::HashSet::new();
    for (name, kind, samples) in &families {
        assert!(names.insert(name.clone()), "{name} occurs twice");
        assert!(name.starts_with("sandur_") || name.starts_with("process_"), "{name}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        assert!(!["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end)), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
        if kind == "histogram" && !samples.is_empty() {
            let buckets = samples.iter().filter(|line| line.contains("_bucket{")).count();
            let counts = samples.iter().filter(|line| line.contains("_count")).count();
            let infinite = samples.iter().filter(|line| line.contains(r#"le="+Inf""#)).count();
            assert!(buckets > infinite && infinite == counts, "{name}: {samples:?}");
        }
    }
    for name in
        ["process_cpu_seconds_total", "process_open_fds", "sandur_catalog_blocks", "sandur_build_info"]
    {
        assert!(names.contains(name), "{name} is not in\n{page}");
    }
    let samples: usize = families.iter().map(|(_, _, samples)| samples.len()).sum();
    assert!(samples < 1_000, "{samples} samples of an almost idle server");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn every_line_on_stderr_is_json_if_configured() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let setup = Setup::new(store, folder.path()).with(&["--log-format", "json"]);
    let server = setup.start();
    let old = vec![(1, "a line of 1970".to_owned())];
    for _ in 0..20 {
        assert_eq!(server.push(&json!({"job": "old"}), &old).unwrap().0, 400);
    }
    server.get_json("/loki/api/v1/query?query=vector(1)");
    // The address is in use, and the option does not exist: both end before logging is started.
    let address = server.address.to_string();
    let failing: [&[&str]; 2] = [
        &["serve", "--listen", &address, "--log-format", "json"],
        &["serve", "--log-format=json", "--nonsense"],
    ];
    let mut lines = String::new();
    for arguments in failing {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_sandur")).args(arguments).output().unwrap();
        assert!(!output.status.success());
        lines += &String::from_utf8(output.stderr).unwrap();
    }
    assert_eq!(server.terminate(), Some(0));
    lines += &std::fs::read_to_string(&setup.log).unwrap();
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let with = |text: &str| -> Vec<&Value> {
        let says = |event: &&Value| event["message"].as_str().is_some_and(|m| m.contains(text));
        events.iter().filter(says).collect()
    };
    for text in ["sandur is ready", "all acknowledged data is stored", "--nonsense", "cannot listen"] {
        assert_eq!(with(text).len(), 1, "{text} in\n{lines}");
    }
    let refused = with("refused pushes");
    assert_eq!(refused.len(), 1, "one line for many refusals of one kind");
    assert_eq!(
        (&refused[0]["tenant"], &refused[0]["reason"]),
        (&json!("fake"), &json!("greater_than_max_sample_age"))
    );
}

/// The reader of a server's log may stop reading: a collector that hangs, a pager that was left open.
#[test]
fn a_server_whose_log_is_not_read_serves_and_stops() {
    let folder = tempfile::tempdir().unwrap();
    let address = sandur_attack::free_address().unwrap();
    let store = folder.path().join("store").display().to_string();
    let child = Command::new(env!("CARGO_BIN_EXE_sandur"))
        .args(["serve", "--store", &store, "--listen", &address.to_string(), "--query-log", "all"])
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn();
    let mut child = Ended(child.unwrap());
    let child = &mut child.0;
    let ask = |path: &str| request(address, "GET", path, &[], b"");
    while !matches!(ask("/ready"), Ok((200, _))) {
        assert!(child.try_wait().unwrap().is_none(), "the server exited");
        std::thread::yield_now();
    }
    // Each request logs a line with its query: a pipe holds two of them, and 1 MiB may wait.
    let long = encode(&format!("{{a=\"b\"}} |= `{}`", "x".repeat(30_000)));
    let dropped = || {
        let page = String::from_utf8(ask("/metrics").unwrap().1).unwrap();
        let line = page.lines().find(|line| line.starts_with("sandur_log_dropped_lines_total ")).unwrap();
        line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    for asked in 0.. {
        assert!(asked < 200, "nothing was dropped, so nothing waited");
        let (status, _) = ask(&format!("/loki/api/v1/query_range?query={long}")).unwrap();
        assert_eq!(status, 200);
        if asked > 30 && dropped() > 0 {
            break;
        }
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0), "it stops even if the log is not read");
}

/// Goal: the log shows which requests were refused, and what was deleted or changed, by which credential
/// and with which result.
#[test]
fn refusals_and_destructive_requests_are_in_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.toml");
    let listed = |name: &str, scopes: &str| {
        let hash = sandur_http::auth::token_hash(name);
        format!("[tokens.{name}]\nhash = '{hash}'\ntenants = ['fake']\nscopes = [{scopes}]\n")
    };
    std::fs::write(&file, listed("reader", "'read'") + &listed("chief", "'delete', 'admin'")).unwrap();
    let store = folder.path().join("store").display().to_string();
    let arguments = ["--auth-file", file.to_str().unwrap(), "--log-format", "json"];
    let server = Setup::new(store, folder.path()).with(&arguments).start();
    let ask = |token: Option<&str>, path: &str| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        request(server.address, "POST", path, &headers, b"").unwrap().0
    };
    let delete = format!("/loki/api/v1/delete?query={}&start=1700000000", encode("{app=\"shop\"}"));
    let wrong = format!("/loki/api/v1/delete?query={}&start=1700000000", encode("{app="));
    assert_eq!((ask(None, "/flush"), ask(Some("nobody"), "/flush")), (401, 401));
    assert_eq!((ask(Some("reader"), "/flush"), ask(Some("reader"), &delete)), (403, 403));
    assert_eq!((ask(Some("chief"), &delete), ask(Some("chief"), &wrong)), (204, 400));
    assert!(ask(Some("chief"), "/flush") < 300);
    assert_eq!(server.get("/ready").0, 200);
    // The line of a request is written after its response.
    server.prints("\"what\":\"/flush\",\"outcome\":\"done\"");
    let log = server.log_text();
    let audit: Vec<&str> = log.lines().filter(|line| line.contains("\"target\":\"audit\"")).collect();
    let of = |who: &str, route: &str, outcome: &str| {
        let texts = [
            format!("\"who\":\"{who}\""),
            format!("\"route\":\"POST {route}\""),
            format!("\"outcome\":\"{outcome}\""),
        ];
        audit.iter().filter(|line| texts.iter().all(|text| line.contains(text))).count()
    };
    assert_eq!(of("anonymous", "/flush", "refused"), 2, "{log}");
    assert_eq!(of("token reader", "/flush", "refused"), 1, "{log}");
    assert_eq!(of("token reader", "/loki/api/v1/delete", "refused"), 1, "{log}");
    assert_eq!(of("token chief", "/loki/api/v1/delete", "done"), 1, "{log}");
    assert_eq!(of("token chief", "/loki/api/v1/delete", "failed"), 1, "{log}");
    assert_eq!(of("token chief", "/flush", "done"), 1, "{log}");
    assert!(!log.contains("nobody"), "no secret is logged: {log}");
}
