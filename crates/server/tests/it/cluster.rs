//! Goal: processes that share a bucket answer with each other's data, including that of a killed process.
//!
//! Method: two real binaries on one S3 bucket; both accept pushes; one is killed.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{Server, Setup, now_ns, request, s3_store};
use serde_json::json;

fn push_lines(server: &Server, from: &str, count: usize, base_ns: i64) {
    let values: Vec<(i64, String)> =
        (0..count).map(|n| (base_ns + n as i64, format!("{from} wrote line {n}"))).collect();
    let (status, body) = server.push(&json!({"job": "cluster", "from": from}), &values).unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
}

fn count(server: &Server, base_ns: i64) -> usize {
    server.lines(r#"{job="cluster"}"#, base_ns - 1_000_000_000, base_ns + 10_000_000_000, 5_000).len()
}

/// How long it takes until `server` finds `expected` lines; panics after 10 s, the documented maximum.
fn until(server: &Server, base_ns: i64, expected: usize) -> Duration {
    let started = Instant::now();
    loop {
        let found = count(server, base_ns);
        if found == expected {
            return started.elapsed();
        }
        assert!(found < expected, "{found} lines, more than the {expected} that were written");
        assert!(started.elapsed() < Duration::from_secs(10), "{found} of {expected} lines after 10 s");
        std::thread::sleep(Duration::from_millis(50)); // polling another process
    }
}

#[test]
fn each_process_answers_for_both_and_for_a_killed_one() {
    let Some(store) = s3_store("cluster") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (one_folder, two_folder) = (folder.path().join("one"), folder.path().join("two"));
    std::fs::create_dir_all(&one_folder).unwrap();
    std::fs::create_dir_all(&two_folder).unwrap();
    let one = Setup::new(&store, &one_folder).start();
    let two = Setup::new(&store, &two_folder).start();
    let base_ns = now_ns();
    push_lines(&one, "one", 300, base_ns);
    push_lines(&two, "two", 200, base_ns);
    println!("one sees both after {:?}", until(&one, base_ns, 500));
    println!("two sees both after {:?}", until(&two, base_ns, 500));
    push_lines(&two, "two again", 100, base_ns);
    two.kill();
    println!("one sees the dead one's last lines after {:?}", until(&one, base_ns, 600));
    push_lines(&one, "one again", 50, base_ns);
    assert_eq!(count(&one, base_ns), 650);
    // A new process adopts nothing a second time.
    let three = Setup::new(&store, &two_folder).start();
    until(&three, base_ns, 650);
    assert_eq!(one.terminate(), Some(0));
    until(&three, base_ns, 650);
    assert_eq!(three.terminate(), Some(0));
}

/// The value of a counter with these labels; 0 if it is absent.
fn counter(server: &Server, name: &str) -> u64 {
    let (status, body) = server.get("/metrics");
    assert_eq!(status, 200);
    let text = String::from_utf8(body).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}

/// Starts a process with a secret of this letter.
fn with_secret(store: &str, home: &Path, letter: &str) -> Server {
    std::fs::create_dir_all(home).unwrap();
    let file = home.join("secret");
    std::fs::write(&file, letter.repeat(32)).unwrap();
    Setup::new(store, home).with(&["--cluster-secret-file", file.to_str().unwrap()]).start()
}

/// Processes with one secret send each other frames of their WALs and pieces of blocks. One with another
/// secret gets nothing from them and reads the bucket.
#[test]
fn processes_with_one_secret_ask_each_other_before_the_bucket() {
    let Some(store) = s3_store("peers") else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, secret: &str| with_secret(&store, &folder.path().join(name), secret);
    let (one, two, stranger) = (start("one", "s"), start("two", "s"), start("stranger", "t"));
    let base_ns = now_ns();
    let frames = r#"sandur_peer_calls_total{call="frames",outcome="ok"}"#;
    let pieces = r#"sandur_peer_calls_total{call="pieces",outcome="ok"}"#;
    // A call may be late on a busy machine. Then the bucket is read, and the next block is asked for.
    let (started, mut lines) = (Instant::now(), 0);
    while lines == 0 || counter(&two, "sandur_engine_told_segments_total") == 0 || counter(&two, pieces) == 0
    {
        push_lines(&one, &format!("one at {lines}"), 100, base_ns);
        lines += 100;
        for server in [&one, &two, &stranger] {
            until(server, base_ns, lines);
        }
        let (status, _) = request(one.address, "POST", "/flush", &[], b"").unwrap();
        assert_eq!(status, 204);
        until(&two, base_ns, lines);
        assert!(started.elapsed() < Duration::from_secs(60), "no frame or piece came from a peer");
    }
    assert!(counter(&two, frames) > 0 && counter(&one, "sandur_peer_strangers_total") > 0);
    until(&stranger, base_ns, lines);
    assert_eq!((counter(&stranger, frames), counter(&stranger, pieces)), (0, 0));
    push_lines(&one, "one again", 100, base_ns);
    one.kill();
    for server in [&two, &stranger] {
        println!("the dead one's last lines are seen after {:?}", until(server, base_ns, lines + 100));
        let (status, _) = server.get("/ready");
        assert_eq!(status, 200);
    }
    assert_eq!(two.terminate(), Some(0));
    assert_eq!(stranger.terminate(), Some(0));
}

/// Processes find each other by gossip although each knows only the bucket and the secret.
#[test]
fn processes_with_one_secret_meet_without_seeds() {
    let Some(store) = s3_store("gossip") else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, secret: &str| with_secret(&store, &folder.path().join(name), secret);
    let (one, two, stranger) = (start("one", "s"), start("two", "s"), start("stranger", "t"));
    let peers = |state: &str| format!("sandur_gossip_peers{{state=\"{state}\"}}");
    let until = |server: &Server, name: &str, least: u64| {
        let started = Instant::now();
        while counter(server, name) < least {
            assert!(started.elapsed() < Duration::from_secs(60), "{name} is {}", counter(server, name));
            std::thread::sleep(Duration::from_millis(50)); // polling another process
        }
    };
    for server in [&one, &two] {
        until(server, &peers("alive"), 1);
    }
    until(&one, r#"sandur_gossip_refused_datagrams_total{reason="key"}"#, 1);
    assert_eq!((counter(&one, &peers("alive")), counter(&stranger, &peers("alive"))), (1, 0));
    assert_eq!(two.terminate(), Some(0));
    until(&one, &peers("left"), 1);
    assert_eq!(one.terminate(), Some(0));
    assert_eq!(stranger.terminate(), Some(0));
}
