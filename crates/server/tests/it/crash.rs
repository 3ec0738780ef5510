//! Goal: what was acknowledged survives `kill -9`, once; what was not acknowledged is never there twice.
//!
//! Method: four pushers write numbered lines and note which requests were acknowledged; the server is
//! killed at random moments and started again; requests without an answer are sent again, as agents
//! do. After every few kills the newest lines are counted, now and then and at the end all of them.
//! `SANDUR_CRASH_KILLS` (14) sets the number of kills per store, `SANDUR_CRASH_SEED` repeats a run.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time, real threads

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::process::{Random, Server, Setup, now_ns, push, s3_store};
use serde_json::json;

const PUSHERS: u64 = 4;
/// Kills between two counts of the newest lines, and of all lines.
const CHECK_NEW: u64 = 10;
const CHECK_ALL: u64 = 50;
/// Lines of one pusher between two restarts; below the largest `limit` of a query.
const LINES_MAX: usize = 4_000;

/// The lines of one pusher between two restarts.
#[derive(Default)]
struct Written {
    acknowledged: Vec<String>,
    unknown: Vec<String>,
}

struct Run {
    seed: u64,
    random: Random,
    started_ns: i64,
    epochs: Vec<Vec<Written>>,
    unanswered: Vec<Request>,
}

#[test]
fn directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    run(&store, folder.path(), &[]);
}

#[test]
fn s3() {
    let Some(store) = s3_store("crash") else { return };
    let folder = tempfile::tempdir().unwrap();
    run(&store, folder.path(), &[]);
}

fn run(store: &str, folder: &std::path::Path, arguments: &[&str]) {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let kills = number("SANDUR_CRASH_KILLS", 14);
    let seed = number("SANDUR_CRASH_SEED", now_ns() as u64);
    println!("crash: seed {seed} (SANDUR_CRASH_SEED={seed} repeats the moments of the kills)");
    let setup = Setup::new(store, folder).with(arguments);
    let mut run =
        Run { seed, random: Random(seed), started_ns: now_ns(), epochs: Vec::new(), unanswered: Vec::new() };
    let mut server = setup.start();
    for kill in 1..=kills {
        run.resend(&server);
        server = run.epoch(server, &setup);
        if kill % CHECK_ALL == 0 {
            run.check(&server, 0);
            println!("crash: {kill} kills survived");
        } else if kill % CHECK_NEW == 0 {
            run.check(&server, run.epochs.len().saturating_sub(CHECK_NEW as usize));
        }
    }
    run.resend(&server);
    run.check(&server, 0);
    assert_eq!(server.terminate(), Some(0), "a clean stop after the crashes");
}

impl Run {
    /// Pushes until a random moment, kills the server, starts it again.
    fn epoch(&mut self, server: Server, setup: &Setup) -> Server {
        let epoch = self.epochs.len();
        let stop = Arc::new(AtomicBool::new(false));
        let unanswered = Arc::new(Mutex::new(Vec::new()));
        let pushers: Vec<_> = (0..PUSHERS)
            .map(|pusher| {
                let (stop, unanswered, address) =
                    (Arc::clone(&stop), Arc::clone(&unanswered), server.address);
                let seed = self.seed ^ (epoch as u64 * PUSHERS + pusher);
                std::thread::spawn(move || write(address, pusher, epoch, seed, &stop, &unanswered))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(20 + self.random.below(600)));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        self.epochs.push(pushers.into_iter().map(|p| p.join().unwrap()).collect());
        self.unanswered.append(&mut unanswered.lock().unwrap());
        setup.start()
    }

    /// Sends requests that had no answer once more: about half of them, as agents that were not killed.
    fn resend(&mut self, server: &Server) {
        for (pusher, epoch, values) in std::mem::take(&mut self.unanswered) {
            if self.random.below(2) == 0 {
                continue;
            }
            let (status, body) = server.push(&labels(pusher, epoch), &values).unwrap();
            assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
            let written = &mut self.epochs[epoch][pusher as usize];
            let lines: Vec<String> = values.into_iter().map(|(_, line)| line).collect();
            written.unknown.retain(|line| !lines.contains(line));
            written.acknowledged.extend(lines);
        }
    }

    /// Counts every line of the epochs from `first` on.
    fn check(&self, server: &Server, first: usize) {
        for (epoch, pushers) in self.epochs.iter().enumerate().skip(first) {
            for (pusher, written) in pushers.iter().enumerate() {
                let selector = format!(r#"{{job="crash", pusher="{pusher}", epoch="{epoch}"}}"#);
                let found = server.lines(&selector, self.started_ns, now_ns() + 1_000_000_000, 5_000);
                let mut counts: HashMap<&str, usize> = HashMap::new();
                for line in &found {
                    *counts.entry(line).or_default() += 1;
                }
                let seed = self.seed;
                for line in &written.acknowledged {
                    let count = counts.remove(line.as_str()).unwrap_or(0);
                    assert_eq!(count, 1, "seed {seed}: acknowledged line '{line}' was found {count} times");
                }
                for line in &written.unknown {
                    let count = counts.remove(line.as_str()).unwrap_or(0);
                    assert!(count <= 1, "seed {seed}: unacknowledged line '{line}' was found {count} times");
                }
                assert!(counts.is_empty(), "seed {seed}: lines that nobody wrote: {counts:?}");
            }
        }
    }
}

fn labels(pusher: u64, epoch: usize) -> serde_json::Value {
    json!({"job": "crash", "pusher": pusher.to_string(), "epoch": epoch.to_string()})
}

/// Pusher, epoch and lines of a request.
type Request = (u64, usize, Vec<(i64, String)>);
/// Requests that had no answer.
type Unanswered = Mutex<Vec<Request>>;

fn write(
    address: SocketAddr,
    pusher: u64,
    epoch: usize,
    seed: u64,
    stop: &AtomicBool,
    unanswered: &Unanswered,
) -> Written {
    let mut random = Random(seed);
    let mut written = Written::default();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) && number < LINES_MAX {
        let count = 1 + random.below(40) as usize;
        let values: Vec<(i64, String)> = (0..count)
            .map(|n| {
                (
                    now_ns(),
                    format!("pusher {pusher} epoch {epoch} line {} {}", number + n, random.below(1 << 40)),
                )
            })
            .collect();
        number += count;
        let lines = values.iter().map(|(_, line)| line.clone());
        match push(address, &labels(pusher, epoch), &values) {
            Ok((204, _)) => written.acknowledged.extend(lines),
            Ok((status, body)) => panic!("push answered {status}: {}", String::from_utf8_lossy(&body)),
            Err(_) => {
                written.unknown.extend(lines);
                unanswered.lock().unwrap().push((pusher, epoch, values));
                return written; // the server is gone
            }
        }
    }
    written
}
