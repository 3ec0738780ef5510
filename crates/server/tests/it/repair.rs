//! Goal: the binary detects a lost catalog, reports the remedy, and the remedy works.
//!
//! Method: the real binary with a directory whose catalog is damaged between and during runs.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Server, Setup, now_ns};
use serde_json::json;

fn push_lines(server: &Server, from: usize, base_ns: i64) -> u16 {
    let values: Vec<(i64, String)> =
        (from..from + 50).map(|n| (base_ns + n as i64, format!("line number {n}"))).collect();
    server.push(&json!({"job": "repair"}), &values).unwrap().0
}

fn count_lines(server: &Server, base_ns: i64) -> usize {
    server.lines(r#"{job="repair"}"#, base_ns, base_ns + 10_000_000_000, 5_000).len()
}

pub fn sandur(command: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sandur")).args(command).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), format!("{out}{err}"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    // A start may remove the directory if it is empty.
    let Ok(listed) = fs::read_dir(folder.join("data/catalog")) else { return Vec::new() };
    let listed = listed.map(|entry| entry.unwrap().path());
    let mut entries: Vec<PathBuf> = listed.filter(|path| path.is_file()).collect();
    entries.sort();
    entries
}

#[test]
fn a_lost_catalog_is_detected_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let setup = Setup::new(store.clone(), folder.path());
    let base_ns = now_ns() - 1_000_000_000;
    let server = setup.start();
    assert_eq!(push_lines(&server, 0, base_ns), 204);
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(sandur(&["repair", "--store", &store, "--dry-run"]).0, Some(0), "nothing to do");
    let server = setup.start();
    assert_eq!(push_lines(&server, 50, base_ns), 204);
    let (code, text) = sandur(&["repair", "--store", &store]);
    assert!(code == Some(1) && text.contains("in use by process"), "{text}");
    server.kill();

    // Everything below catalog/ except the newest entry, then also that one.
    for keep in [1, 0] {
        let entries = entries(folder.path());
        entries[..entries.len() - keep].iter().for_each(|path| fs::remove_file(path).unwrap());
        let _ = fs::remove_dir_all(folder.path().join("data/catalog/checkpoints"));
        let refusal = setup.try_start().err().unwrap();
        assert!(refusal.contains("sandur repair") && refusal.contains("incomplete"), "{refusal}");
        let (code, text) = sandur(&["check", "--store", &store]);
        assert!(code == Some(1) && text.contains("sandur repair") && !text.contains("sound\n"), "{text}");
        let before = self::entries(folder.path());
        let (code, text) = sandur(&["repair", "--store", &store, "--dry-run"]);
        assert!(code == Some(1) && text.contains("blocks are added"), "{text}");
        assert_eq!(self::entries(folder.path()), before, "a dry run changes nothing");
        let (code, text) = sandur(&["repair", "--store", &store]);
        assert!(code == Some(0) && text.contains("repaired"), "{text}");
        let server = setup.start();
        assert_eq!(count_lines(&server, base_ns), 100);
        server.kill();
    }
    let (code, text) = sandur(&["check", "--store", &store]);
    assert!(code == Some(0) && text.contains("no damage found") && text.contains("cannot tell"), "{text}");
}

/// The log contains the reason, `/ready` reports it, a push fails with it, and a query is still answered.
#[test]
fn a_running_server_stops_acknowledging_when_its_catalog_is_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let setup = Setup::new(store, folder.path());
    let base_ns = now_ns() - 1_000_000_000;
    let server = setup.start();
    assert_eq!(push_lines(&server, 0, base_ns), 204);
    assert_eq!(server.get("/ready").0, 200);
    entries(folder.path()).iter().for_each(|path| fs::remove_file(path).unwrap());
    // A flush commits, and so checks the catalog immediately.
    let _ = crate::process::request(server.address, "POST", "/flush", &[], b"");
    let (status, body) = server.get("/ready");
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(status == 503 && text.contains("sandur repair"), "{status} {text}");
    assert_eq!(push_lines(&server, 50, base_ns), 503);
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new(), "no entry is written after the gap");
    assert_eq!(count_lines(&server, base_ns), 50);
    server.kill();
}
