//! Goal: a node has an id that outlives its processes, does only the work of its roles, says so, and leaves
//! when it is told to.
//!
//! Method: requests to the router with changed roles; the real binary on a directory and, if there is an S3
//! server, several of them on a bucket.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandur_model::{Role, Roles};
use sandur_query::MemorySource;
use serde_json::{Value, json};

use crate::harness;
use crate::process::{Server, Setup, now_ns, request, s3_store};

const PUSH: &str = r#"{"streams":[{"stream":{"a":"b"},"values":[["1795240900000000000","line"]]}]}"#;

fn with_roles(roles: Roles) -> harness::Server {
    harness::Server::over(Arc::new(MemorySource::new(Vec::new())), |s| s.cluster.roles = roles)
}

#[tokio::test(start_paused = true)]
async fn pushes_and_queries_are_refused_without_their_roles() {
    let query = [("query", r#"{a="b"}"#)];
    let server = with_roles(Roles::ALL.without(Role::Ingest));
    let refused = server.push_json(PUSH).await;
    assert_eq!(refused.status, 404);
    for part in ["takes no pushes", "cluster.roles", "'ingest'", "/sandur/cluster"] {
        assert!(refused.body.contains(part), "{}", refused.body);
    }
    assert!(server.intake.batches.lock().unwrap().is_empty());
    assert_eq!(server.get("/loki/api/v1/query_range", &query).await.status, 200);
    assert_eq!(server.get("/ready", &[("for", "push")]).await.status, 503);
    for wanted in [&[][..], &[("for", "query")]] {
        assert_eq!(server.get("/ready", wanted).await.status, 200);
    }

    let server = with_roles([Role::Ingest, Role::Compact].into_iter().collect());
    assert_eq!(server.push_json(PUSH).await.status, 204);
    let refused = server.get("/loki/api/v1/query_range", &query).await;
    assert_eq!(refused.status, 404);
    assert!(refused.body.contains("answers no queries"), "{}", refused.body);
    assert_eq!(server.get("/ready", &[("for", "query")]).await.status, 503);
    assert_eq!(server.get("/ready", &[]).await.status, 200);

    // A process that only merges is ready for that.
    let server = with_roles([Role::Compact].into_iter().collect());
    assert_eq!(server.get("/ready", &[]).await.status, 200);
    for path in ["/metrics", "/sandur/cluster", "/config"] {
        assert_eq!(server.get(path, &[]).await.status, 200, "{path}");
    }
}

fn sandur(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandur")).args(arguments).output().unwrap()
}

fn status_of(server: &Server) -> Value {
    server.get_json("/sandur/cluster")
}

fn only_node(server: &Server) -> Value {
    let status = status_of(server);
    let nodes = status["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 1, "{status}");
    assert_eq!(nodes[0]["id"], status["node"]);
    nodes[0].clone()
}

fn start(store: &str, folder: &Path, arguments: &[&str]) -> Server {
    std::fs::create_dir_all(folder).unwrap();
    Setup::new(store, folder).with(arguments).start()
}

#[test]
fn the_node_of_a_directory_keeps_its_id_and_drains() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data").display().to_string();
    let server = start(&store, folder.path(), &["--cluster-zone", "eu-1", "--roles", "ingest,query"]);
    let node = only_node(&server);
    assert_eq!((&node["zone"], &node["state"]), (&json!("eu-1"), &json!("serving")));
    assert_eq!(node["roles"], json!(["ingest", "query"]));
    assert_eq!(node["shares_percent"], json!({"ingest": 100.0, "query": 100.0}));
    assert_eq!(node["address"], json!(server.address.to_string()));
    let address = format!("http://{}", server.address);
    let table = sandur(&["cluster", "status", "--addr", &address]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.status.success(), "{}", String::from_utf8_lossy(&table.stderr));
    for part in ["NODE", node["id"].as_str().unwrap(), "eu-1", "serving", "ingest,query", "'compact'"] {
        assert!(text.contains(part), "{text}");
    }
    server.kill();

    // After a crash and after a clean stop it is the same node.
    let server = start(&store, folder.path(), &[]);
    until("the killed process is adopted", || status_of(&server)["nodes"].as_array().unwrap().len() == 1);
    assert_eq!(only_node(&server)["id"], node["id"]);
    let address = format!("http://{}", server.address);
    assert!(sandur(&["cluster", "drain", "--addr", &address]).status.success());
    assert_eq!(only_node(&server)["state"], "draining");
    let (status, body) = server.get("/ready");
    assert_eq!(status, 503, "{}", String::from_utf8_lossy(&body));
    assert!(String::from_utf8_lossy(&body).contains("drains"));
    let pushed = server.push(&json!({"a": "b"}), &[(now_ns(), "it still takes pushes".to_owned())]).unwrap();
    assert_eq!(pushed.0, 204);
    let unknown = sandur(&["cluster", "drain", "nobody", "--addr", &address]);
    assert!(!unknown.status.success());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no live node has this id"));
    assert!(sandur(&["cluster", "drain", "--undo", "--addr", &address]).status.success());
    assert_eq!((only_node(&server)["state"].clone(), server.get("/ready").0), (json!("serving"), 200));
    assert_eq!(server.terminate(), Some(0));
    let server = start(&store, folder.path(), &["--cluster-advertise-address", "node.example:3100"]);
    let again = only_node(&server);
    assert_eq!((&again["id"], &again["address"]), (&node["id"], &json!("node.example:3100")));
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn wrong_names_are_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data").display().to_string();
    for (option, value, expected) in [
        ("--cluster-node-id", "a b", "cluster.node_id: 'a b' is no id"),
        ("--roles", "ingest,store", "there is no role 'store'"),
        ("--cluster-advertise-address", "0.0.0.0:3100", "cluster.advertise_address"),
    ] {
        let log = Setup::new(&store, folder.path()).with(&[option, value]).try_start().err().unwrap();
        assert!(log.contains(expected), "{log}");
    }
}

/// Waits until `is_so` holds, at most a minute.
fn until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50)); // polling another process
    }
    began.elapsed()
}

#[test]
fn nodes_of_a_bucket_see_each_other_and_adopt_after_a_restart() {
    let Some(store) = s3_store("nodes") else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| {
        let cache = folder.path().join(name).join("cache").display().to_string();
        let mut arguments = vec!["--cache-dir", &cache, "--cache-size", "64MiB", "--cluster-zone", name];
        arguments.extend(more);
        start(&store, &folder.path().join(name), &arguments)
    };
    let (one, two) = (run("one", &[]), run("two", &["--roles", "ingest,query"]));
    let ids = |server: &Server| -> Vec<String> {
        let status = status_of(server);
        let nodes = status["nodes"].as_array().unwrap().clone();
        nodes.iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect()
    };
    until("both see both", || ids(&one).len() == 2 && ids(&one) == ids(&two));
    let before = status_of(&one);
    for node in before["nodes"].as_array().unwrap() {
        let compacts = node["zone"] == "one";
        assert_eq!(node["shares_percent"].get("compact").is_some(), compacts, "{before}");
    }
    // Killed with rows in its WAL, and started again: its next process adopts it without a silence.
    let base_ns = now_ns();
    let rows: Vec<(i64, String)> = (0..50).map(|n| (base_ns + n, format!("row {n}"))).collect();
    assert_eq!(two.push(&json!({"job": "nodes"}), &rows).unwrap().0, 204);
    two.kill();
    let two = run("two", &["--roles", "ingest,query"]);
    let count = |server: &Server| {
        server.lines(r#"{job="nodes"}"#, base_ns - 1_000_000_000, base_ns + 1_000_000_000, 500).len()
    };
    assert_eq!(count(&two), 50, "at once");
    let waited = until("the killed process is adopted", || ids(&one).len() == 2 && ids(&two).len() == 2);
    println!("adopted {waited:?} after the restart");
    assert_eq!(ids(&one), ids(&two));
    assert!(waited < Duration::from_secs(25), "{waited:?}: somebody waited for a silence");
    until("the other sees the rows", || count(&one) == 50);
    // One drains the other.
    let of_two = ids(&one).into_iter().find(|id| *id != status_of(&one)["node"].as_str().unwrap()).unwrap();
    let path = format!("/sandur/cluster/drain?node={of_two}");
    assert_eq!(request(one.address, "POST", &path, &[], b"").unwrap().0, 204);
    until("it knows that it drains", || two.get("/ready").0 == 503);
    assert_eq!(two.terminate(), Some(0));
    until("it has left", || ids(&one).len() == 1);
    assert_eq!(count(&one), 50);
    assert_eq!(one.terminate(), Some(0));
}
