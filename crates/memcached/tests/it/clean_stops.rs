//! Fills a memcached server with a flash tier, stops it with SIGTERM at once, and starts it again: no
//! start is cold, and what was found before the stop is found after it. A failed start changes nothing.
//!
//! `SANDUR_CACHE_STOPS` sets the number of stops (default 2), `SANDUR_CACHE_BUSY` the number of
//! processes that load the CPU meanwhile (default 0).

#![allow(clippy::unwrap_used)] // also in the functions that the test shares
#![allow(clippy::disallowed_methods)] // real processes live in real time

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandur_runtime::environment::variable;
use tempfile::TempDir;

use crate::served::{self, Server};

/// The time within which a server must answer, and stop.
const PATIENCE: Duration = Duration::from_secs(120);
const KEYS: u64 = 30_000;
const VALUE: usize = 4 << 10;
/// Number of requests that are sent before their answers are read.
const BATCH: u64 = 1_000;
/// Seconds after which a busy process ends by itself, in case the test is killed.
const BUSY_SECONDS: &str = "3600";

/// Processes that load the CPU until this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn start(count: u64) -> Self {
        let start = |_| {
            let mut command = Command::new("timeout");
            command.args([BUSY_SECONDS, "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        Self((0..count).map(start).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // `timeout` terminates its child on SIGTERM, but not when it is killed.
            let _ = kill_process(Pid::from_child(process), Signal::TERM);
            let _ = process.wait();
        }
    }
}

fn arguments(directory: &Path) -> String {
    let (socket, flash) = (directory.join("socket"), directory.join("flash"));
    format!("-u root -m 64 -t 2 -s {} -o ext_path={}:512M", socket.display(), flash.display())
}

impl Server {
    fn start_warm(directory: &Path) -> Self {
        let process = served::command(&arguments(directory)).spawn().unwrap();
        let mut server = Self::connect(process, &directory.join("socket"), PATIENCE);
        while server.is_recovering() {}
        server
    }

    fn is_recovering(&mut self) -> bool {
        self.send(b"stats\r\n");
        let mut is_recovering = None;
        loop {
            let line = self.line();
            match line.strip_prefix("STAT extstore_recovering ") {
                Some(number) => is_recovering = Some(number == "1"),
                None if line == "END" => break is_recovering.expect("stats include this counter"),
                None => {}
            }
        }
    }

    fn fill(&mut self, keys: u64, round: u64) {
        for first in (0..keys).step_by(BATCH as usize) {
            let mut requests = Vec::new();
            for key in first..first + BATCH {
                requests.extend_from_slice(format!("ms {key} {VALUE}\r\n").as_bytes());
                requests.extend_from_slice(&value_of(key, round));
                requests.extend_from_slice(b"\r\n");
            }
            self.send(&requests);
            (0..BATCH).for_each(|_| assert_eq!(self.line(), "HD"));
        }
    }

    /// Returns how many keys have their value of this round. All other keys must be missing.
    fn hits(&mut self, keys: u64, round: u64) -> u64 {
        let mut hits = 0;
        for first in (0..keys).step_by(BATCH as usize) {
            let requests: String = (first..first + BATCH).map(|key| format!("mg {key} v\r\n")).collect();
            self.send(requests.as_bytes());
            for key in first..first + BATCH {
                let head = self.line();
                if head == "EN" {
                    continue;
                }
                let mut value = vec![0; head.strip_prefix("VA ").unwrap().parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut value).unwrap();
                value.truncate(value.len() - 2);
                assert!(value == value_of(key, round), "key {key} has another value");
                hits += 1;
            }
        }
        hits
    }

    fn terminate(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

fn value_of(key: u64, round: u64) -> Vec<u8> {
    [key.to_le_bytes(), round.to_le_bytes()].concat().repeat(VALUE / 16)
}

fn number(name: &str, default: u64) -> u64 {
    variable(name).and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_start_after_a_fill_and_an_immediate_stop_is_never_cold() {
    let directory = TempDir::new().unwrap();
    let _busy = Busy::start(number("SANDUR_CACHE_BUSY", 0));
    let mut server = Server::start_warm(directory.path());
    for round in 1..=number("SANDUR_CACHE_STOPS", 2) {
        server.fill(KEYS, round);
        let before = server.hits(KEYS, round);
        // Values that reads brought into memory are not on flash; after a fill, a stop has the most to
        // write.
        server.fill(KEYS, round);
        let began = Instant::now();
        server.terminate();
        let stop = began.elapsed();
        server = Server::start_warm(directory.path());
        let after = server.hits(KEYS, round);
        println!("stop {round}: {before} hits before, {after} after; the stop took {stop:?}");
        assert!(after * 100 >= before * 99, "stop {round}: {after} of {before} values were found");
        assert!(before * 100 >= KEYS * 99, "stop {round}: {before} of {KEYS} values fit");
    }
    server.kill();
}

#[test]
fn a_failed_start_leaves_the_flash_tier_intact() {
    let directory = TempDir::new().unwrap();
    let mut server = Server::start_warm(directory.path());
    server.fill(BATCH, 1);
    server.terminate();
    let nowhere = directory.path().join("no/such/folder/file");
    for option in ["-P", "-e"] {
        let arguments = format!("{} {option} {}", arguments(directory.path()), nowhere.display());
        let mut process = served::command(&arguments).stderr(Stdio::null()).spawn().unwrap();
        assert!(!process.wait().unwrap().success(), "{option}");
        let mut server = Server::start_warm(directory.path());
        assert_eq!(server.hits(BATCH, 1), BATCH, "{option}");
        server.terminate();
    }
}
