//! Stops a memcached server with a memory file gracefully, kills it during a stop, or just kills it, and
//! starts it again.
//!
//! After a stop that completed, every key has its newest value. After any other end a key has its newest
//! value or none: never an older one, and never bytes that were not sent. With a flash tier, values that
//! had to leave memory may be missing after any end.
//!
//! `SANDUR_CACHE_SEED` sets the seed.

#![allow(clippy::unwrap_used)] // also in the functions that tests share
#![allow(clippy::disallowed_methods)] // real processes live in real time

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandur_cache::splitmix::SplitMix;
use sandur_runtime::environment::variable;
use tempfile::TempDir;

use crate::served::{self, Server};

/// The time within which a server must answer, and stop.
const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: u64 = 700;
const VALUE: usize = 20_000;
/// A kill happens after a random time below 2^n microseconds, where n is drawn first: the shortest times
/// are before the end of every stop, the longest after the end of a short one.
const MOMENT_BITS: std::ops::Range<u64> = 6..17;
const ENDS: usize = 16;

fn spawn(directory: &Path, with_flash: bool) -> Child {
    let path = |name: &str| directory.join(name).display().to_string();
    // with flash, memory is too small for all values
    let memory = if with_flash { 8 } else { 64 };
    let mut arguments = format!("-u root -m {memory} -t 2 -s {} -e {}", path("socket"), path("memory"));
    if with_flash {
        arguments += &format!(" -o ext_path={}:64M", path("flash"));
    }
    // the socket of a killed server would be mistaken for that of the new one
    let _ = std::fs::remove_file(directory.join("socket"));
    served::command(&arguments).stderr(Stdio::null()).spawn().unwrap()
}

impl Server {
    fn start_with_memory_file(directory: &Path, with_flash: bool) -> Self {
        let process = spawn(directory, with_flash);
        let mut server = Self::connect(process, &directory.join("socket"), PATIENCE);
        assert_eq!(server.ask(b"mn\r\n"), "MN");
        server
    }

    fn ask(&mut self, bytes: &[u8]) -> String {
        self.send(bytes);
        self.line()
    }

    /// Returns the version that the server has of a key, whose value must be complete.
    fn version(&mut self, key: u64) -> Option<u64> {
        let head = self.ask(format!("mg {key} v\r\n").as_bytes());
        if head == "EN" {
            return None;
        }
        let mut value = vec![0; head.strip_prefix("VA ").unwrap().parse::<usize>().unwrap() + 2];
        self.stream.read_exact(&mut value).unwrap();
        value.truncate(value.len() - 2);
        let version = String::from_utf8_lossy(&value[..20]).trim_start_matches('0').parse().unwrap();
        assert!(value == value_of(key, version), "key {key} has a value of no version");
        Some(version)
    }

    /// Requests a graceful stop and waits for it.
    fn stop(mut self) {
        self.signal_stop();
        assert!(self.process.wait().unwrap().success());
    }

    fn signal_stop(&self) {
        kill_process(Pid::from_child(&self.process), Signal::USR1).unwrap();
    }
}

fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut value = format!("{version:020}").into_bytes();
    value.extend((0..VALUE as u64).map(|at| (at.wrapping_mul(key + 7) ^ version) as u8));
    value
}

struct Random(SplitMix);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.draw() % bound
    }

    /// Waits for a random time.
    fn pass_moment(&mut self) {
        let bits = MOMENT_BITS.start + self.below(MOMENT_BITS.end - MOMENT_BITS.start);
        let (since, moment) = (Instant::now(), Duration::from_micros(self.below(1 << bits)));
        while since.elapsed() < moment {
            std::thread::yield_now();
        }
    }
}

fn course(seed: u64, with_flash: bool) {
    println!("seed {seed}");
    let directory = TempDir::new().unwrap();
    let mut random = Random(SplitMix::new(seed));
    let mut newest: Vec<Option<u64>> = vec![None; KEYS as usize];
    // whether the server was seen to have the newest value
    let mut is_there = vec![true; KEYS as usize];
    let mut version = 0;
    let (mut through, mut cut_short, mut found_again, mut kept) = (0, 0, 0, 0);
    let mut server = Server::start_with_memory_file(directory.path(), with_flash);
    for end in 0..ENDS {
        for _ in 0..random.below(2 * KEYS) {
            version += 1;
            let key = random.below(KEYS);
            let removes = random.below(8) == 0;
            newest[key as usize] = (!removes).then_some(version);
            is_there[key as usize] = true;
            if removes {
                let answer = server.ask(format!("md {key}\r\n").as_bytes());
                assert!(answer == "HD" || answer == "NF", "{answer}");
                continue;
            }
            let value = value_of(key, version);
            let mut request = format!("ms {key} {}\r\n", value.len()).into_bytes();
            request.extend_from_slice(&value);
            request.extend_from_slice(b"\r\n");
            assert_eq!(server.ask(&request), "HD");
        }
        let goes_through = match random.below(4) {
            0 | 1 => {
                server.stop();
                true
            }
            2 => {
                server.signal_stop();
                random.pass_moment();
                // The stop may have completed before the kill.
                let is_through = server.kill().success();
                cut_short += u64::from(!is_through);
                is_through
            }
            _ => {
                server.kill();
                false
            }
        };
        // some starts are killed early; the next start must not find old values either
        let is_interrupted = random.below(4) == 0;
        if is_interrupted {
            let mut process = spawn(directory.path(), with_flash);
            random.pass_moment();
            process.kill().unwrap();
            process.wait().unwrap();
        }
        server = Server::start_with_memory_file(directory.path(), with_flash);
        let is_kept = goes_through && !is_interrupted;
        for key in 0..KEYS {
            let (found, wanted) = (server.version(key), newest[key as usize]);
            let must_be_there = is_kept && is_there[key as usize];
            let is_right = found == wanted || found.is_none() && (with_flash || !must_be_there);
            assert!(is_right, "seed {seed}, end {end}: key {key} has {found:?} instead of {wanted:?}");
            kept += u64::from(must_be_there && wanted.is_some());
            found_again += u64::from(must_be_there && found.is_some());
            is_there[key as usize] = found == wanted;
        }
        through += u64::from(is_kept);
    }
    server.kill();
    println!("{found_again} of {kept} values found after {through} stops; {cut_short} were interrupted");
    assert!(through > 0 && cut_short > 0, "seed {seed}: too few events for a meaningful test");
    assert!(found_again * 2 > kept, "seed {seed}: {found_again} of {kept} values are too few");
}

fn seed() -> u64 {
    variable("SANDUR_CACHE_SEED").and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn a_memory_file_restores_the_newest_values_or_none() {
    course(seed(), false);
}

#[test]
fn a_memory_file_with_a_flash_tier_restores_the_newest_values_or_none() {
    course(seed(), true);
}
