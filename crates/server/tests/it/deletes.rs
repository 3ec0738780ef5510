//! Goal: a client that deletes lines as in Loki no longer sees them immediately, sees them again when it
//! cancels, and finally their blocks are replaced on disk, despite kills and on every process of a
//! bucket.
//!
//! Method: the real binary on a directory, killed in between, and two binaries on one S3 bucket.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{Server, Setup, encode, now_ns, request, s3_store};
use serde_json::{Value, json};

const SECOND_NS: i64 = 1_000_000_000;
const SELECTOR: &str = r#"{job="deletes"}"#;
const SECRET: &str = r#"{job="deletes"} |= "card=4711""#;

/// The start of a past hour.
fn earlier_hour_ns() -> i64 {
    (now_ns() / SECOND_NS / 3_600 - 2) * 3_600 * SECOND_NS
}

/// Lines one second apart; every tenth contains a secret.
fn push(server: &Server, numbers: std::ops::Range<i64>, base_ns: i64) {
    let line = |n: i64| match n % 10 {
        3 => format!("level=info order={n} card=4711-{n}"),
        _ => format!("level=info order={n} card=none"),
    };
    let values: Vec<(i64, String)> = numbers.map(|n| (base_ns + n * SECOND_NS, line(n))).collect();
    let (status, body) = server.push(&json!({"job": "deletes"}), &values).unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
}

fn call(server: &Server, method: &str, parameters: &str) -> (u16, String) {
    let path = format!("/loki/api/v1/delete?{parameters}");
    let (status, body) = request(server.address, method, &path, &[], b"").unwrap();
    (status, String::from_utf8(body).unwrap())
}

fn list(server: &Server) -> Vec<Value> {
    server.get_json("/loki/api/v1/delete").as_array().unwrap().clone()
}

/// How many lines a query finds, and how many `count_over_time` counts.
fn found(server: &Server, base_ns: i64) -> (usize, u64) {
    let end_ns = base_ns + 2_000 * SECOND_NS;
    let lines = server.lines(SELECTOR, base_ns, end_ns, 5_000).len();
    let query = encode(&format!("sum(count_over_time({SELECTOR}[40m]))"));
    let answer = server.get_json(&format!("/loki/api/v1/query?query={query}&time={end_ns}"));
    let value = answer["data"]["result"][0]["value"][1].as_str().unwrap_or("0").parse().unwrap();
    (lines, value)
}

fn metric(server: &Server, name: &str) -> u64 {
    let page = String::from_utf8(server.get("/metrics").1).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name}")).parse::<f64>().unwrap() as u64
}

fn files_below(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    let all = entries.flatten().flat_map(|entry| match entry.path() {
        path if path.is_dir() => files_below(&path),
        path => BTreeSet::from([path.to_string_lossy().into_owned()]),
    });
    all.collect()
}

fn flush(server: &Server) -> u16 {
    crate::process::request(server.address, "POST", "/flush", &[], b"").unwrap().0
}

/// Waits until `done` returns true; panics with `what` after a minute.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what} within a minute");
        std::thread::sleep(Duration::from_millis(50)); // polling another process
    }
}

#[test]
fn deleted_lines_are_hidden_then_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data");
    let setup = || Setup::new(store.to_str().unwrap(), folder.path()).with(&["--compaction-interval=200ms"]);
    let server = setup().start();
    let base_ns = earlier_hour_ns();
    push(&server, 0..100, base_ns);
    assert_eq!(flush(&server), 204);
    push(&server, 100..120, base_ns);
    assert_eq!(found(&server, base_ns), (120, 120));

    let (start, end) = (base_ns / SECOND_NS, base_ns / SECOND_NS + 105);
    let parameters = format!("query={}&start={start}&end={end}", encode(SECRET));
    assert_eq!(call(&server, "PUT", &parameters), (204, String::new()));
    assert_eq!(found(&server, base_ns), (109, 109), "10 in the block and 1 in memory, immediately");
    let requests = list(&server);
    let [shown] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((&shown["query"], &shown["status"]), (&json!(SECRET), &json!("received")));
    assert_eq!((&shown["start_time"], &shown["end_time"]), (&json!(start), &json!(end)));
    let id = shown["request_id"].as_str().unwrap().to_owned();

    let unknown = "request_id=nonsense";
    assert_eq!(
        call(&server, "DELETE", unknown),
        (404, "could not find delete request with given id\n".into())
    );
    assert_eq!(call(&server, "DELETE", &format!("request_id={id}")), (204, String::new()));
    assert_eq!((found(&server, base_ns), list(&server)), ((120, 120), vec![]));

    assert_eq!(call(&server, "POST", &parameters), (204, String::new()));
    let before = files_below(&store.join("blocks"));
    assert_eq!(before.len(), 1, "one hour, one block");
    server.kill();
    let now_due = ["--compaction-delete-request-cancel-period=0s", "--retention-delete-delay=1s"];
    let server = setup().with(&now_due).with(&["--retention-interval=200ms"]).start();
    assert_eq!(found(&server, base_ns), (109, 109), "after the kill");
    assert_eq!(flush(&server), 204);
    until("the request is processed", || list(&server)[0]["status"] == "processed");
    assert_eq!(found(&server, base_ns), (109, 109), "without the request");
    assert_eq!(metric(&server, "sandur_engine_deleted_rows_total"), 11);
    let id = list(&server)[0]["request_id"].as_str().unwrap().to_owned();
    let refused = "deletion of request which is in process or already processed is not allowed\n";
    assert_eq!(call(&server, "DELETE", &format!("request_id={id}&force=true")), (400, refused.into()));
    until("the old objects are deleted", || files_below(&store.join("blocks")).is_disjoint(&before));
    assert_eq!(found(&server, base_ns), (109, 109), "after the old objects are deleted");
    assert_eq!(server.terminate(), Some(0));
    let server = setup().start();
    assert_eq!(found(&server, base_ns), (109, 109), "after a restart");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn requests_are_refused_as_loki_refuses_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data");
    let setup = Setup::new(store.to_str().unwrap(), folder.path());
    let server = setup.start();
    let now = now_ns() / SECOND_NS;
    let query = encode(SECRET);
    let (hour_ago, tomorrow) = (now - 3_600, now + 86_400);
    for (parameters, text) in [
        (String::new(), "query not set\n"),
        (format!("query={}&start={hour_ago}", encode("rate({a=\"b\"}[1m])")), "invalid query expression\n"),
        (format!("query={query}"), "start time not set\n"),
        (format!("query={query}&start=now"), "invalid start time: require unix seconds or RFC3339 format\n"),
        (
            format!("query={query}&start={hour_ago}&end=now"),
            "invalid end time: require unix seconds or RFC3339 format\n",
        ),
        (format!("query={query}&start={hour_ago}&end={tomorrow}"), "deletes in the future are not allowed\n"),
        (
            format!("query={query}&start={hour_ago}&end={hour_ago}"),
            "start time can't be greater than or equal to end time\n",
        ),
        (
            format!("query={query}&start={hour_ago}&max_interval=1d"),
            "invalid max_interval: valid time units are 's', 'm', 'h'\n",
        ),
    ] {
        assert_eq!(call(&server, "PUT", &parameters), (400, text.to_owned()), "{parameters}");
    }
    assert_eq!(list(&server), Vec::<Value>::new());
    assert_eq!(server.terminate(), Some(0));
    let server = setup.with(&["--limits-deletion-mode=disabled"]).start();
    let refused = (403, "deletion is not available for this tenant\n".to_owned());
    for method in ["PUT", "GET", "DELETE"] {
        assert_eq!(call(&server, method, &format!("query={query}&start={hour_ago}")), refused);
    }
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn every_process_of_a_bucket_hides_the_lines() {
    let Some(store) = s3_store("deletes") else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let own = folder.path().join(name);
        std::fs::create_dir_all(&own).unwrap();
        let now_due = "--compaction-delete-request-cancel-period=0s";
        Setup::new(&store, &own).with(&["--compaction-interval=200ms", now_due]).start()
    };
    let (one, two) = (start("one"), start("two"));
    let base_ns = earlier_hour_ns();
    push(&one, 0..60, base_ns);
    push(&two, 60..120, base_ns);
    until("both see all lines", || [&one, &two].iter().all(|s| found(s, base_ns) == (120, 120)));
    let (from, to) = (base_ns / SECOND_NS, base_ns / SECOND_NS + 1_000);
    let parameters = format!("query={}&start={from}&end={to}", encode(SECRET));
    assert_eq!(call(&one, "POST", &parameters), (204, String::new()));
    assert_eq!(found(&one, base_ns), (108, 108), "immediately on the process that received it");
    until("the other hides them", || found(&two, base_ns) == (108, 108));
    // Its rows are in memory on both processes: they must be in blocks before the request can be
    // completed.
    assert_eq!((flush(&one), flush(&two)), (204, 204));
    until("the request is processed", || list(&two)[0]["status"] == "processed");
    until("both hide them", || [&one, &two].iter().all(|s| found(s, base_ns) == (108, 108)));
    two.kill();
    let three = start("three");
    assert_eq!(found(&three, base_ns), (108, 108));
    assert_eq!((one.terminate(), three.terminate()), (Some(0), Some(0)));
}

/// 400 requests of 45 bytes once took 1.2 GiB of compiled filters, regardless of the memory limit.
#[test]
fn a_request_that_needs_too_much_memory_is_refused_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(folder.path().join("data").to_str().unwrap(), folder.path());
    let server = setup.with(&["--memory-limit", "128MiB"]).start();
    let base_ns = earlier_hour_ns();
    push(&server, 0..20, base_ns);
    let range = format!("start={}&end={}", base_ns / SECOND_NS, base_ns / SECOND_NS + 100);
    for large in [r#"{job="deletes"} |~ "(?i)[\\pL\\pN]{1,40}""#, r#"{job=~"(?i)[\\pL\\pN]{1,40}"}"#] {
        let (status, text) = call(&server, "POST", &format!("query={}&{range}", encode(large)));
        assert_eq!(status, 400, "{text}");
        assert!(text.contains("of memory when it is compiled") && text.contains("--memory-limit"), "{text}");
    }
    let samples = encode(r#"{__name__=~"(?i)[\\pL\\pN]{1,40}"}"#);
    let path = format!("/api/v1/admin/tsdb/delete_series?match[]={samples}");
    let (status, body) = request(server.address, "POST", &path, &[], b"").unwrap();
    let text = String::from_utf8_lossy(&body);
    assert!(status == 400 && text.contains("of memory when it is compiled"), "{status} {text}");
    assert!(list(&server).is_empty());
    // Usual expressions are accepted.
    for usual in [r#"|~ "card=4711-\\d+""#, r#"|~ "(?i)CARD=4711""#, r#"| logfmt | card=~"4711.*""#] {
        let query = encode(&format!(r#"{{job="deletes"}} {usual}"#));
        assert_eq!(call(&server, "POST", &format!("query={query}&{range}")), (204, String::new()), "{usual}");
    }
    assert_eq!(found(&server, base_ns), (18, 18));
    let used = metric(&server, "sandur_memory_budget_used_bytes{budget=\"filters of delete requests\"}");
    let limit = metric(&server, "sandur_memory_budget_limit_bytes{budget=\"filters of delete requests\"}");
    assert!(0 < used && used <= limit, "{used} of {limit}");
    assert_eq!(server.terminate(), Some(0));
}
