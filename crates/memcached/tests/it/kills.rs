//! Kills a memcached server at random moments of its work and starts it again on the files that it left.
//!
//! Every value contains its key and version, from which all its bytes are derived. After each start, a
//! value of the server must be complete, must have been sent for its key, and must be no older than what
//! had settled before the kill. A change has settled if it was acknowledged and the server then reported
//! that no delete or overwrite waits for the journal, which writes them together every 10 ms.
//!
//! `SANDUR_CACHE_KILLS` sets the number of kills (default 12), `SANDUR_CACHE_SEED` the seed.

#![allow(clippy::unwrap_used)] // also in the functions that tests share
#![allow(clippy::disallowed_methods)] // real processes live in real time

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use sandur_cache::splitmix::SplitMix;
use sandur_runtime::environment::variable;
use tempfile::TempDir;

use crate::served::{self, Server};

/// The time within which a server must answer.
const START: Duration = Duration::from_secs(6);
/// A start recovers the contents of a small device in a fraction of this time.
const RECOVERY: Duration = Duration::from_millis(300);
const KEYS: u64 = 300;
const LONGEST: u64 = 30_000;

impl Server {
    /// Starts a server. Returns it and the time until its first answer.
    fn start_on_flash(directory: &Path) -> (Self, Duration) {
        let (socket, flash) = (directory.join("socket"), directory.join("flash"));
        let arguments = format!(
            "-u root -m 2 -t 2 -s {} -o ext_path={}:32M,ext_warm=crash",
            socket.display(),
            flash.display()
        );
        let began = Instant::now();
        let process = served::command(&arguments).spawn().unwrap();
        let mut server = Self::connect(process, &socket, START);
        server.send(b"version\r\n");
        assert!(server.line().starts_with("VERSION"));
        (server, began.elapsed())
    }

    fn get(&mut self, key: u64) -> Option<Vec<u8>> {
        self.send(format!("get {}\r\n", name(key)).as_bytes());
        self.value(key)
    }

    /// Reads the answer to a `get`.
    fn value(&mut self, key: u64) -> Option<Vec<u8>> {
        let head = self.line();
        if head == "END" {
            return None;
        }
        let mut words = head.split(' ').skip(1);
        assert_eq!(words.next().unwrap(), name(key), "the requested key");
        let length: usize = words.nth(1).unwrap().parse().unwrap();
        let mut value = vec![0; length + 2];
        self.stream.read_exact(&mut value).unwrap();
        assert_eq!(self.line(), "END");
        value.truncate(length);
        Some(value)
    }

    /// Returns the number of deletes and overwrites that a crash would undo.
    fn unsettled(&mut self) -> u64 {
        self.send(b"stats\r\n");
        let mut waiting = None;
        loop {
            let line = self.line();
            match line.strip_prefix("STAT extstore_journal_waiting ") {
                Some(number) => waiting = Some(number.parse().unwrap()),
                None if line == "END" => break waiting.expect("stats include this counter"),
                None => {}
            }
        }
    }
}

fn name(key: u64) -> String {
    format!("some/longer/prefix/of/a/key/{key:06}")
}

fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut state = key << 32 | version;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    next();
    let length = (next() >> 33) % LONGEST;
    let mut value = format!("{key}:{version}:").into_bytes();
    let end = value.len() + length as usize;
    while value.len() < end {
        value.extend_from_slice(&next().to_le_bytes());
    }
    value.truncate(end);
    value
}

/// Returns the version of a value; panics unless it is a complete value of the key.
fn version_of(seed: u64, key: u64, value: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(&value[..value.len().min(48)]).into_owned();
    let mut parts = text.split(':');
    assert_eq!(parts.next().unwrap(), key.to_string(), "seed {seed}: another key's value");
    let version = parts.next().unwrap().parse().unwrap();
    assert!(value == value_of(key, version), "seed {seed}: key {key} has a value of no version");
    version
}

/// A write or a removal.
#[derive(Clone, Copy, Debug)]
struct Event {
    version: u64,
    removes: bool,
    is_acknowledged: bool,
    /// A crash cannot undo it any more.
    is_settled: bool,
}

#[derive(Default)]
struct Model {
    /// Events by key, in the order in which they were sent.
    events: BTreeMap<u64, Vec<Event>>,
    /// The latest version of keys that were changed since the server started.
    in_this_run: BTreeMap<u64, u64>,
    next: u64,
}

impl Model {
    fn send(&mut self, key: u64, removes: bool) -> u64 {
        self.next += 1;
        let version = self.next;
        self.events.entry(key).or_default().push(Event {
            version,
            removes,
            is_acknowledged: false,
            is_settled: false,
        });
        self.in_this_run.insert(key, version);
        version
    }

    fn acknowledge(&mut self, key: u64, version: u64) {
        let events = self.events.get_mut(&key).unwrap().iter_mut();
        events.rev().find(|event| event.version == version).unwrap().is_acknowledged = true;
    }

    /// Checks a value that a running server returned.
    fn check_live(&self, seed: u64, key: u64, found: Option<u64>) {
        if let (Some(found), Some(last)) = (found, self.in_this_run.get(&key)) {
            let events = self.events[&key].iter().rev().take(3).collect::<Vec<_>>();
            assert_eq!(found, *last, "seed {seed}: key {key} is not what was written last: {events:?}");
        }
    }

    /// Checks a value that a just started server returned.
    fn check_restarted(&self, seed: u64, key: u64, found: u64) {
        let events = &self.events[&key];
        let was_sent = events.iter().any(|event| event.version == found && !event.removes);
        assert!(was_sent, "seed {seed}: key {key} has version {found}, which was never sent");
        let Some(settled) = events.iter().rfind(|event| event.is_settled) else { return };
        let is_new_enough = found > settled.version || found == settled.version && !settled.removes;
        assert!(is_new_enough, "seed {seed}: key {key} has version {found}, older than {settled:?}");
    }

    /// Records that nothing waits for the journal.
    fn settle(&mut self) {
        let acknowledged = self.events.values_mut().flatten().filter(|event| event.is_acknowledged);
        acknowledged.for_each(|event| event.is_settled = true);
    }

    /// Records a kill, which may permanently undo what had not settled.
    fn killed(&mut self) {
        self.events.values_mut().flatten().for_each(|event| event.is_acknowledged = event.is_settled);
        self.in_this_run.clear();
    }
}

struct Random(SplitMix);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.draw() % bound
    }
}

/// A command whose answer was not read yet.
enum Sent {
    Set(u64, u64),
    Delete(u64, u64),
    Get(u64),
}

/// Sends some commands at once and reads their answers; unless `whole`, only a random number of the
/// first ones.
fn send_some(server: &mut Server, model: &mut Model, random: &mut Random, seed: u64, whole: bool) {
    let count = 1 + random.below(24);
    let (mut bytes, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let key = random.below(KEYS);
        match random.below(10) {
            0..=5 => {
                let version = model.send(key, false);
                let value = value_of(key, version);
                bytes.extend(format!("set {} 0 0 {}\r\n", name(key), value.len()).bytes());
                bytes.extend(value);
                bytes.extend(b"\r\n");
                sent.push(Sent::Set(key, version));
            }
            6 => {
                bytes.extend(format!("delete {}\r\n", name(key)).bytes());
                sent.push(Sent::Delete(key, model.send(key, true)));
            }
            _ => {
                bytes.extend(format!("get {}\r\n", name(key)).bytes());
                sent.push(Sent::Get(key));
            }
        }
    }
    server.send(&bytes);
    let answers = if whole { count } else { random.below(count) };
    for (at, sent_one) in sent.iter().enumerate().take(answers as usize) {
        match *sent_one {
            Sent::Set(key, version) => {
                assert_eq!(server.line(), "STORED", "seed {seed}");
                model.acknowledge(key, version);
            }
            Sent::Delete(key, version) => {
                let answer = server.line();
                assert!(answer == "DELETED" || answer == "NOT_FOUND", "seed {seed}: {answer}");
                model.acknowledge(key, version);
            }
            Sent::Get(key) => {
                let later = |sent: &&Sent| match sent {
                    Sent::Set(k, _) | Sent::Delete(k, _) => *k == key,
                    Sent::Get(_) => false,
                };
                let found = server.value(key).map(|value| version_of(seed, key, &value));
                if !sent[at..].iter().any(|sent| later(&sent)) {
                    model.check_live(seed, key, found);
                }
            }
        }
    }
}

#[test]
fn after_a_kill_no_value_is_wrong_or_outdated() {
    let number = |name: &str| variable(name).and_then(|text| text.parse::<u64>().ok());
    let seed = number("SANDUR_CACHE_SEED").unwrap_or(1);
    let kills = number("SANDUR_CACHE_KILLS").unwrap_or(12);
    println!("seed {seed}, {kills} kills");
    let directory = TempDir::new().unwrap();
    let (mut random, mut model) = (Random(SplitMix::new(seed)), Model::default());
    let (mut asked, mut found, mut settled, mut slowest) = (0_u64, 0_u64, 0_u64, Duration::ZERO);
    let mut server = Server::start_on_flash(directory.path()).0;
    for _ in 0..kills {
        for _ in 0..random.below(60) {
            send_some(&mut server, &mut model, &mut random, seed, true);
            if random.below(4) == 0 && server.unsettled() == 0 {
                model.settle();
                settled += 1;
            }
        }
        if random.below(16) == 0 {
            let versions: Vec<(u64, u64)> = (0..KEYS).map(|key| (key, model.send(key, true))).collect();
            server.send(b"flush_all\r\n");
            assert_eq!(server.line(), "OK");
            versions.into_iter().for_each(|(key, version)| model.acknowledge(key, version));
        }
        if random.below(3) == 0 {
            // Sends only reads until everything has settled.
            let since = Instant::now();
            while server.unsettled() > 0 {
                assert!(since.elapsed() < START, "seed {seed}: the journal is not written");
                let key = random.below(KEYS);
                let found = server.get(key).map(|value| version_of(seed, key, &value));
                model.check_live(seed, key, found);
            }
            model.settle();
            settled += 1;
        } else {
            send_some(&mut server, &mut model, &mut random, seed, false);
        }
        model.killed();
        server.kill();
        let waited;
        (server, waited) = Server::start_on_flash(directory.path());
        slowest = slowest.max(waited);
        // First while the server still recovers its contents, then afterwards.
        let since = Instant::now();
        loop {
            let is_over = since.elapsed() >= RECOVERY;
            let held = (0..KEYS).filter(|&key| {
                let version = server.get(key).map(|value| version_of(seed, key, &value));
                version.inspect(|version| model.check_restarted(seed, key, *version)).is_some()
            });
            let held = held.count() as u64;
            if is_over {
                (found, asked) = (found + held, asked + KEYS);
                break;
            }
        }
    }
    server.kill();
    println!("{found} of {asked} keys found after kills; first answer after {slowest:?} at most");
    assert!(settled > 0, "seed {seed}: nothing ever settled, so nothing had to survive");
    assert!(found * 20 > asked, "seed {seed}: {found} of {asked} keys are too few for a meaningful test");
}
