//! Goal: a start of `sandur cache serve` that discards the content of flash logs this and the reason,
//! even without `-v`.
//!
//! Method: the real binary over a file, killed and stopped.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandur_attack::free_address;

/// Far longer than a start takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a cache on flash in `folder`, and waits until it listens.
fn start(folder: &Path, address: SocketAddr, megabytes: u32) -> Child {
    let log = File::create(folder.join("log")).unwrap();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let path = format!("ext_path={}:{megabytes}m", folder.join("flash").display());
    let mut process = Command::new(env!("CARGO_BIN_EXE_sandur"))
        .args(["cache", "serve", "-m", "64", "-l", &host, "-p", &port, "-o", &path])
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        let ended = process.try_wait().unwrap();
        assert!(ended.is_none() && began.elapsed() < PATIENCE, "the cache did not start: {}", said(folder));
        std::thread::sleep(Duration::from_millis(5)); // polling another process
    }
    process
}

fn said(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap()
}

/// Stops the cache; returns its output.
fn stop(folder: &Path, mut process: Child) -> String {
    assert!(Command::new("kill").args(["-s", "TERM", &process.id().to_string()]).status().unwrap().success());
    assert!(process.wait().unwrap().success());
    said(folder)
}

#[test]
fn only_a_start_of_the_cache_that_discards_flash_logs_it() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address().unwrap();
    let discards = "flash starts empty";
    let first = stop(folder.path(), start(folder.path(), address, 64));
    assert!(!first.contains(discards), "there was no content: {first}");
    let mut killed = start(folder.path(), address, 64);
    let after_stop = said(folder.path());
    assert!(!after_stop.contains(discards), "the content is found after a clean stop: {after_stop}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let after_kill = stop(folder.path(), start(folder.path(), address, 64));
    assert!(after_kill.contains(discards) && after_kill.contains("ext_warm=crash"), "{after_kill}");
    let resized = stop(folder.path(), start(folder.path(), address, 96));
    let why = "flash had 67108864 bytes and has 100663296 bytes now";
    assert!(resized.contains(discards) && resized.contains(why), "{resized}");
}
