//! Goal: the running queries of all processes are listed and can be ended, each tenant sees only its own, and
//! an answer names each process that did not answer.
//!
//! Method: requests to the router with other processes that exist only in the test; two real binaries on one
//! bucket with a secret.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use sandur_base::Id;
use sandur_query::MemorySource;
use sandur_service::{ListedQueries, PROCESSES_MAX};
use serde_json::{Value, json};

use crate::harness;
use crate::harness::neighbours::{NOT_ASKED, query};
use crate::process::{Server, Setup, now_ns, request, s3_store};

fn alone() -> harness::Server {
    harness::Server::over(Arc::new(MemorySource::new(Vec::new())), |_| ())
}

async fn listed(server: &harness::Server, path: &str, tenant: &str) -> Value {
    let answer = server.get_with(path, &[], &[("x-scope-orgid", tenant)]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn texts(list: &Value) -> Vec<&str> {
    list["queries"].as_array().unwrap().iter().map(|query| query["query"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn queries_of_all_processes_are_listed_and_those_that_do_not_answer_are_named() {
    let server = alone();
    let two = ListedQueries { queries: vec![query(7, "a", 5), query(8, "b", 50)], left_out: 3 };
    server.neighbours.add(2, Ok(two));
    server.neighbours.add(3, Err("it is away".to_owned()));
    let all = listed(&server, "/sandur/queries/all", "a").await;
    assert_eq!(texts(&all), ["query 8 of b", "query 7 of a"], "the oldest first");
    assert_eq!(
        (&all["queries"][0]["node"], &all["left_out"], &all["answered"]),
        (&json!("node-2"), &json!(3), &json!(2))
    );
    let away = json!([{ "node": "node-3", "process": Id(3).to_string(), "reason": "it is away" }]);
    assert_eq!(all["unanswered"], away);
    // A process that does not filter does not make a tenant see queries of others.
    let own = listed(&server, "/sandur/queries", "a").await;
    assert_eq!(texts(&own), ["query 7 of a"]);
    assert!(texts(&listed(&server, "/sandur/queries", "c").await).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_processes_that_are_asked_and_of_listed_queries_is_bounded() {
    let server = alone();
    for number in 0..PROCESSES_MAX as u128 + 2 {
        let queries = (0..20).map(|n| query(n, "a", n)).collect();
        server.neighbours.add(100 + number, Ok(ListedQueries { queries, left_out: 0 }));
    }
    let all = listed(&server, "/sandur/queries/all", "a").await;
    assert_eq!((texts(&all).len(), &all["answered"]), (4_000, &json!(PROCESSES_MAX + 1)));
    assert_eq!(all["left_out"], json!(PROCESSES_MAX * 20 - 4_000));
    let unanswered = all["unanswered"].as_array().unwrap();
    assert_eq!(unanswered.len(), 2);
    assert!(unanswered[0]["reason"].as_str().unwrap().contains("at most 256 processes"), "{unanswered:?}");
}

/// Bug: the list failed when other queries held the memory, which is when an operator needs it.
#[tokio::test(start_paused = true)]
async fn queries_are_listed_while_memory_is_short() {
    let server = alone();
    let memory = server.app.queries.memory();
    server.neighbours.add(2, Ok(ListedQueries { queries: vec![query(7, "a", 5)], left_out: 0 }));
    for (kib, answered) in [(1_024, 2), (128, 1)] {
        let held = memory.reserve(memory.limit() - memory.used() - (kib << 10)).unwrap();
        let all = listed(&server, "/sandur/queries/all", "a").await;
        assert_eq!(all["answered"], json!(answered), "{kib} KiB: {all}");
        let unanswered = all["unanswered"].as_array().unwrap();
        assert_eq!((texts(&all).len(), unanswered.len()), (answered - 1, 2 - answered), "{all}");
        assert!(unanswered.iter().all(|one| one["reason"].as_str().unwrap().contains("memory")), "{all}");
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_of_another_process_is_ended_there_and_a_lost_answer_is_no_success() {
    let server = alone();
    server.neighbours.add(2, Ok(ListedQueries { queries: vec![query(7, "b", 5)], left_out: 0 }));
    server.neighbours.add(3, Err("it is away".to_owned()));
    server.neighbours.add(4, Err(format!("{NOT_ASKED}it has no address")));
    let end =
        async |id: String| server.carry(Method::DELETE, &format!("/sandur/queries/{id}"), &[], "").await;
    let id = |process: u128, number: u64| format!("{}-{number}", Id(process));
    assert_eq!(end(id(2, 7)).await.status, 204);
    assert_eq!(end(id(2, 8)).await.status, 404, "no such query there");
    assert_eq!(end(id(9, 7)).await.status, 404, "no such process");
    assert_eq!(end("7".to_owned()).await.status, 404, "a number without its process");
    let lost = end(id(3, 7)).await;
    assert_eq!(lost.status, 503);
    assert!(lost.body.contains("not known whether") && lost.body.contains("it is away"), "{}", lost.body);
    let unasked = end(id(4, 7)).await;
    assert_eq!(unasked.status, 503);
    assert!(unasked.body.contains("was not ended: it has no address"), "{}", unasked.body);
    let ends = [(Id(2), 7), (Id(2), 8), (Id(3), 7), (Id(4), 7)];
    assert_eq!(*server.neighbours.ends.lock().unwrap(), ends);
}

fn with_secret(store: &str, home: &Path, letter: &str) -> Server {
    std::fs::create_dir_all(home).unwrap();
    let file = home.join("secret");
    std::fs::write(&file, letter.repeat(32)).unwrap();
    let secret = ["--cluster-secret-file", file.to_str().unwrap()];
    Setup::new(store, home).with(&secret).start()
}

/// Waits until a server's answer has what is wanted.
fn until(server: &Server, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let answer = server.get_json(path);
        if is_wanted(&answer) {
            return answer;
        }
        assert!(started.elapsed() < Duration::from_secs(90), "{path}: {answer}");
        std::thread::sleep(Duration::from_millis(50)); // polling another process
    }
}

/// A query of one process is listed and ended by another one; after the process has died it is named as one
/// that does not answer, and one with another secret is never asked with success.
#[test]
fn a_process_lists_and_ends_the_queries_of_another_one() {
    let Some(store) = s3_store("running") else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, letter: &str| with_secret(&store, &folder.path().join(name), letter);
    let (one, two, stranger) = (start("one", "s"), start("two", "s"), start("stranger", "t"));
    let slow = "quantile_over_time(0.9, vector(time())[1d:1s])";
    let end = now_ns() / 1_000_000_000;
    let path = format!(
        "/api/v1/query_range?query={}&start={}&end={end}&step=1",
        slow.replace('[', "%5B").replace(']', "%5D").replace(' ', "%20"),
        end - 10_000
    );
    let address = two.address;
    let asking = std::thread::spawn(move || request(address, "GET", &path, &[], b"").unwrap());
    // The stranger is known after the next read of the catalog.
    let is_listed = |all: &Value| {
        let unanswered = all["unanswered"].as_array().unwrap().len();
        texts(all).contains(&slow) && all["answered"] == json!(2) && unanswered == 1
    };
    let all = until(&one, "/sandur/queries/all", is_listed);
    let unanswered = all["unanswered"].as_array().unwrap();
    assert!(unanswered[0]["reason"].as_str().unwrap().contains("peer"), "{all}");
    let found =
        all["queries"].as_array().unwrap().iter().find(|query| query["query"] == json!(slow)).unwrap();
    let id = found["id"].as_str().unwrap().to_owned();
    assert!(texts(&until(&one, "/sandur/queries", |all| all["answered"] == json!(2))).contains(&slow));
    let (status, _) =
        request(stranger.address, "DELETE", &format!("/sandur/queries/{id}"), &[], b"").unwrap();
    assert_eq!(status, 503, "a process with another secret cannot end it");
    let (status, body) = request(one.address, "DELETE", &format!("/sandur/queries/{id}"), &[], b"").unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
    let (status, body) = asking.join().unwrap();
    assert_eq!(status, 422);
    assert!(String::from_utf8_lossy(&body).contains("ended by an operator"));
    let (status, _) = request(one.address, "DELETE", &format!("/sandur/queries/{id}"), &[], b"").unwrap();
    assert_eq!(status, 404, "it ended");
    // The report of nodes has the costs and the freshness of the others.
    let node = |report: &Value, server: &Server| {
        let address = json!(server.address.to_string());
        report["nodes"].as_array().unwrap().iter().find(|node| node["address"] == address).unwrap().clone()
    };
    let is_complete = |report: &Value| {
        let two = node(report, &two);
        two["store_requests"].as_u64().is_some_and(|n| n > 0) && two["rows_age_ms"].is_u64()
    };
    let report = until(&one, "/sandur/cluster", is_complete);
    assert_eq!(node(&report, &stranger)["dollars"], Value::Null);
    assert!(node(&report, &stranger)["unanswered"].is_string(), "{report}");
    assert!(node(&report, &one)["dollars"].is_f64(), "{report}");
    two.kill();
    let is_named = |all: &Value| {
        let unanswered = all["unanswered"].as_array().unwrap();
        unanswered.len() == 2 || all["answered"] == json!(1)
    };
    until(&one, "/sandur/queries/all", is_named);
    assert_eq!(one.terminate(), Some(0));
    assert_eq!(stranger.terminate(), Some(0));
}
