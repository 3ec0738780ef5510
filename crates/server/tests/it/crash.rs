//! Goal: acknowledged data survives `kill -9`, once; data that was not acknowledged never exists twice.
//!
//! Method: four pushers write numbered lines, two numbered samples, some with exemplars, and two Carbon
//! lines of numbered points, each with a correction of one point; all record which requests were
//! acknowledged. The server is killed at random times and restarted; requests without an answer are sent
//! again, as agents do. After every few kills the newest rows are counted, and occasionally and at the
//! end all rows.
//! `SANDUR_CRASH_KILLS` (10) sets the number of kills per store, `SANDUR_CRASH_SEED` repeats a run.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time, real threads

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::process::{Random, Server, Setup, encode, now_ns, push, request, s3_store};
use serde_json::json;

const PUSHERS: u64 = 8;
/// Pushers below this number write lines, the others samples.
const LINE_PUSHERS: u64 = 4;
/// Pushers from this number on write Carbon lines.
const CARBON_FROM: u64 = 6;
/// The timestamp in seconds of the point that is repeatedly corrected: on a past day.
const CORRECTED_S: i64 = 1_760_000_000;
/// One of this many samples has an exemplar: a block keeps 1,024 per series.
const EXEMPLAR_EACH: i64 = 8;
/// Number of kills between two counts of the newest lines, and of all lines.
const CHECK_NEW: u64 = 10;
const CHECK_ALL: u64 = 50;
/// Maximum number of lines of one pusher between two restarts; less than the maximum `limit` of a query.
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
    let kills = number("SANDUR_CRASH_KILLS", 10);
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
    /// Pushes until a random time, kills the server, and restarts it.
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

    /// Sends about half of the requests without an answer again, like agents that were not killed.
    fn resend(&mut self, server: &Server) {
        for (pusher, epoch, values) in std::mem::take(&mut self.unanswered) {
            if self.random.below(2) == 0 {
                continue;
            }
            let (status, body) = send(server.address, pusher, epoch, &values).unwrap();
            assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
            let written = &mut self.epochs[epoch][pusher as usize];
            let lines = rows(pusher, &values);
            written.unknown.retain(|line| !lines.contains(line));
            written.acknowledged.extend(lines);
        }
    }

    /// The repeatedly corrected point has the last acknowledged number, or that of the following request,
    /// which had no answer.
    fn check_corrected(&self, server: &Server, pusher: usize, epoch: usize) {
        let (seed, written) = (self.seed, &self.epochs[epoch][pusher]);
        let found = points(server, &format!("{}.corrected", path(pusher as u64, epoch)));
        let last = |rows: &[String]| rows.iter().map(|row| number_of(row)).max();
        let (acknowledged, unknown) = (last(&written.acknowledged), last(&written.unknown));
        let found: Vec<Option<i64>> = found.iter().map(|row| Some(number_of(row))).collect();
        let is_right = match found.as_slice() {
            [] => acknowledged.is_none(),
            [one] => *one == acknowledged || *one == unknown.filter(|last| Some(*last) > acknowledged),
            _ => false,
        };
        assert!(
            is_right,
            "seed {seed}: found {found:?} of pusher {pusher} in epoch {epoch}, acknowledged was \
             {acknowledged:?}, without an answer {unknown:?}"
        );
    }

    /// Counts all lines of the epochs from `first` on.
    fn check(&self, server: &Server, first: usize) {
        for (epoch, pushers) in self.epochs.iter().enumerate().skip(first) {
            for (pusher, written) in pushers.iter().enumerate() {
                let found = match (pusher as u64) < LINE_PUSHERS {
                    true => {
                        let selector = format!(r#"{{job="crash", pusher="{pusher}", epoch="{epoch}"}}"#);
                        server.lines(&selector, self.started_ns, now_ns() + 1_000_000_000, 5_000)
                    }
                    false if (pusher as u64) < CARBON_FROM => samples_and_exemplars(server, pusher, epoch),
                    false => {
                        self.check_corrected(server, pusher, epoch);
                        points(server, &path(pusher as u64, epoch))
                    }
                };
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
                assert!(counts.is_empty(), "seed {seed}: lines that were never written: {counts:?}");
            }
        }
    }
}

/// The path of a pusher's points.
fn path(pusher: u64, epoch: usize) -> String {
    format!("crash.pusher{pusher}.epoch{epoch}")
}

/// Sends points as Carbon lines, and the last number as a correction of one point.
fn send_carbon(address: SocketAddr, path: &str, values: &[(i64, String)]) -> std::io::Result<(u16, Vec<u8>)> {
    let mut text = String::new();
    for (ns, number) in values {
        text.push_str(&format!("{path} {number} {}\n", ns / 1_000_000_000));
    }
    let last = values.last().map_or("", |(_, number)| number);
    text.push_str(&format!("{path}.corrected {last} {CORRECTED_S}\n"));
    request(address, "POST", "/graphite/carbon", &[], text.as_bytes())
}

/// The stored points of a path.
fn points(server: &Server, path: &str) -> Vec<String> {
    let query = encode(&format!("{{__name__=\"{path}\"}}[3650d]"));
    let now = now_ns() / 1_000_000_000 + 10;
    let answer = server.get_json(&format!("/api/v1/query?query={query}&time={now}"));
    let mut found = Vec::new();
    for series in answer["data"]["result"].as_array().unwrap() {
        for sample in series["values"].as_array().unwrap() {
            let ms = (sample[0].as_f64().unwrap() * 1_000.0).round() as i64;
            found.push(format!("sample {} at {ms}", sample[1].as_str().unwrap()));
        }
    }
    found
}

/// The number of a row.
fn number_of(row: &str) -> i64 {
    row.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Pushes numbered lines, or the same number of samples with these numbers.
fn send(
    address: SocketAddr,
    pusher: u64,
    epoch: usize,
    values: &[(i64, String)],
) -> std::io::Result<(u16, Vec<u8>)> {
    if pusher < LINE_PUSHERS {
        return push(address, &labels(pusher, epoch), values);
    }
    if pusher >= CARBON_FROM {
        return send_carbon(address, &path(pusher, epoch), values);
    }
    let mut text = String::new();
    for (ns, number) in values {
        let (ms, number): (i64, i64) = (ns / 1_000_000, number.parse().unwrap());
        let seconds = format!("{}.{:03}", ms / 1_000, ms % 1_000);
        text.push_str(&format!("crash{{pusher=\"{pusher}\",epoch=\"{epoch}\"}} {number} {seconds}"));
        if number % EXEMPLAR_EACH == 0 {
            text.push_str(&format!(" # {{trace_id=\"{number}\"}} {number} {seconds}"));
        }
        text.push('\n');
    }
    text.push_str("# EOF\n");
    let headers = [("Content-Type", "application/openmetrics-text")];
    request(address, "POST", "/api/v1/import/prometheus", &headers, text.as_bytes())
}

/// The rows that a push must be found as.
fn rows(pusher: u64, values: &[(i64, String)]) -> Vec<String> {
    if pusher < LINE_PUSHERS {
        return values.iter().map(|(_, line)| line.clone()).collect();
    }
    let mut rows = Vec::new();
    for (ns, number) in values {
        rows.push(format!("sample {number} at {}", ns / 1_000_000));
        if pusher < CARBON_FROM && number.parse::<i64>().unwrap() % EXEMPLAR_EACH == 0 {
            rows.push(format!("exemplar {number} at {}", ns / 1_000_000));
        }
    }
    rows
}

fn samples_and_exemplars(server: &Server, pusher: usize, epoch: usize) -> Vec<String> {
    let selector = format!(r#"crash{{pusher="{pusher}",epoch="{epoch}"}}"#);
    let ms = |seconds: &serde_json::Value| (seconds.as_f64().unwrap() * 1_000.0).round() as i64;
    let now = now_ns() / 1_000_000_000 + 10;
    let query = encode(&format!("{selector}[1d]"));
    let answer = server.get_json(&format!("/api/v1/query?query={query}&time={now}"));
    let mut found = Vec::new();
    for series in answer["data"]["result"].as_array().unwrap() {
        for sample in series["values"].as_array().unwrap() {
            found.push(format!("sample {} at {}", sample[1].as_str().unwrap(), ms(&sample[0])));
        }
    }
    let query = encode(&selector);
    let answer = server.get_json(&format!("/api/v1/query_exemplars?query={query}&start=0&end={now}"));
    for series in answer["data"].as_array().unwrap() {
        for one in series["exemplars"].as_array().unwrap() {
            let (value, at) = (one["value"].as_str().unwrap(), ms(&one["timestamp"]));
            assert_eq!(one["labels"]["trace_id"], value);
            found.push(format!("exemplar {value} at {at}"));
        }
    }
    found
}

fn labels(pusher: u64, epoch: usize) -> serde_json::Value {
    json!({"job": "crash", "pusher": pusher.to_string(), "epoch": epoch.to_string()})
}

/// Pusher, epoch and lines of a request.
type Request = (u64, usize, Vec<(i64, String)>);
/// Requests without an answer.
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
    let (mut number, began_ns) = (0, now_ns());
    while !stop.load(Ordering::Relaxed) && number < LINES_MAX {
        let count = 1 + random.below(40) as usize;
        let values: Vec<(i64, String)> = (0..count)
            .map(|n| {
                let number = number + n;
                let line = format!("pusher {pusher} epoch {epoch} line {number} {}", random.below(1 << 40));
                match pusher < LINE_PUSHERS {
                    true => (now_ns(), line),
                    // Carbon's timestamps are whole seconds; none is in the future.
                    false if pusher >= CARBON_FROM => {
                        let second = began_ns / 1_000_000_000 - LINES_MAX as i64 - 60 + number as i64;
                        (second * 1_000_000_000, number.to_string())
                    }
                    // All samples of a series have different timestamps.
                    false => (began_ns + number as i64 * 1_000_000, number.to_string()),
                }
            })
            .collect();
        number += count;
        let lines = rows(pusher, &values);
        match send(address, pusher, epoch, &values) {
            Ok((204, _)) => written.acknowledged.extend(lines),
            Ok((status, body)) => panic!("push answered {status}: {}", String::from_utf8_lossy(&body)),
            Err(_) => {
                written.unknown.extend(lines);
                unanswered.lock().unwrap().push((pusher, epoch, values));
                return written; // the server was killed
            }
        }
    }
    written
}
