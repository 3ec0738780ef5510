//! Goal: connections take no descriptor that the store needs, and the server raises its limit as far as
//! permitted.
//!
//! Method: the real binary, started by a shell that sets the limit of open files.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::net::TcpStream;

use serde_json::json;

use crate::process::{Setup, now_ns, request};

fn setup(folder: &tempfile::TempDir, limit: &str) -> Setup {
    let store = format!("file://{}", folder.path().join("data").display());
    let mut setup = Setup::new(store, folder.path());
    setup.ulimit = Some(limit.to_owned());
    setup
}

/// Once as many silent connections as descriptors prevented the opening of a WAL segment, and pushes were
/// refused until a restart.
#[test]
fn silent_connections_leave_files_for_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let server = setup(&folder, "-n 256").start();
    let mut silent = Vec::new();
    for _ in 0..400 {
        silent.extend(TcpStream::connect(server.address));
    }
    assert!(silent.len() > 256, "more than the server may open: {}", silent.len());
    let push = |number: i64| {
        let (status, body) =
            server.push(&json!({"job": "files"}), &[(now_ns(), format!("line {number}"))]).unwrap();
        assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
    };
    (0..10).for_each(push);
    assert_eq!(request(server.address, "POST", "/flush", &[], b"").unwrap().0, 204, "blocks are written");
    drop(silent);
    (10..20).for_each(push);
    assert_eq!(server.get("/ready").1, b"ready\n");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_soft_limit_is_raised_to_the_hard_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = setup(&folder, "-S -n 100").start();
    let page = String::from_utf8(server.get("/metrics").1).unwrap();
    let most = page.lines().find_map(|line| line.strip_prefix("process_max_fds ")).unwrap();
    assert!(most.parse::<f64>().unwrap() > 100.0, "{most}");
    assert_eq!(server.terminate(), Some(0));
}
