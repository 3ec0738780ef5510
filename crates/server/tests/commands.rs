//! Goal: the commands that people type work together: serve, push with resume, query, tail, inspect,
//! check, and the exit codes and messages that scripts and people rely on.
//!
//! Method: the real binary for the server and for every command, over one directory.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

mod process;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use process::Setup;

fn sandur(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandur")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines of now, so that no limit on age matters.
fn log_file(path: &Path, from: u32, to: u32) {
    use std::io::Write;
    let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    for n in from..to {
        writeln!(file, "level=info n={n} msg=\"line number {n}\"").unwrap();
    }
}

#[test]
fn what_is_pushed_is_found_inspected_and_sound() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let server = Setup::new(store, folder.path()).start();
    let address = format!("http://{}", server.address);
    let log = folder.path().join("a.log");
    let state = folder.path().join("state.json");
    let push = || {
        let files = [log.to_str().unwrap(), "--resume", state.to_str().unwrap(), "--label", "app=a"];
        sandur(&[&["push", "--addr", &address][..], &files[..]].concat())
    };
    log_file(&log, 0, 500);
    let first = push();
    assert!(first.status.success() && err(&first).contains("acknowledged 500 lines"), "{}", err(&first));
    log_file(&log, 500, 600);
    let second = push();
    assert!(err(&second).contains("acknowledged 100 lines"), "it goes on where it stopped: {}", err(&second));

    let count = "sum(count_over_time({app=\"a\"}[1h]))";
    let counted = sandur(&["query", "--addr", &address, "--instant", "-o", "raw", count]);
    assert_eq!(out(&counted), "600\n", "{}", err(&counted));
    let found = sandur(&["query", "--addr", &address, "-o", "json", "{app=\"a\"} |= \"number 417\""]);
    assert!(out(&found).contains("\"line\":\"level=info n=417"), "{}", out(&found));

    assert_eq!(server.terminate(), Some(0));
    let listed = out(&sandur(&["inspect", "--store", store, "blocks/"]));
    let blocks: Vec<&str> = listed.lines().filter_map(|l| l.split_whitespace().nth(1)).collect();
    assert!(!blocks.is_empty(), "the stop flushed: {listed}");
    let block = out(&sandur(&["inspect", "--store", store, blocks[0]]));
    assert!(block.contains("{app=\"a\"") && block.contains("line number"), "{block}");
    let catalog = sandur(&["inspect", "--store", store, "catalog"]);
    assert!(out(&catalog).contains("blocks, 600 rows"), "{}", out(&catalog));
    let check = sandur(&["check", "--store", store]);
    assert!(check.status.success() && out(&check).contains("sound"), "{}{}", out(&check), err(&check));

    let path = Path::new(store).join(blocks[0]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[200] ^= 0x55;
    std::fs::write(&path, bytes).unwrap();
    let check = sandur(&["check", "--store", store]);
    assert_eq!(check.status.code(), Some(1));
    assert!(out(&check).contains(blocks[0]) && out(&check).contains("1 problems"), "{}", out(&check));
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nothing");
    for (arguments, code, text) in [
        (&["query", "--addr", "127.0.0.1:1", "{a=\"b\"}"][..], 1, "start one with `sandur serve`"),
        (&["query"], 2, "QUERY"),
        (&["serve", "--flush-max-age", "soon"], 1, "write it like 90s"),
        (&["serve", "--listen", "nowhere"], 1, "write it like 127.0.0.1:3100"),
        (&["serve", "--config", missing.to_str().unwrap()], 1, "cannot read the configuration file"),
        (&["check", "--store", missing.to_str().unwrap()], 1, "name the store with --store"),
        (&["push", "/no/such/file"], 1, "no such file"),
    ] {
        let output = sandur(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(text), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn a_second_server_on_the_directory_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let _first = Setup::new(store, folder.path()).start();
    let second = sandur(&["serve", "--store", store, "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(err(&second).contains("is in use by process"), "{}", err(&second));
}
