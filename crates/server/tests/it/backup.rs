//! Goal: a store that is restored from a backup of a store in use has every row that was acknowledged before
//! the backup began, once; a backup or restore that was killed claims nothing and can be repeated.
//!
//! Method: the real binary. Threads push numbered lines and samples while the server flushes, merges and
//! collects, and is killed at random times. Each round makes a backup, kills it at a random time and makes it
//! again, restores it (killed too), checks the new store and counts its rows. `SANDUR_BACKUP_ROUNDS` (2) sets
//! the number of rounds, `SANDUR_BACKUP_SEED` repeats the moments of the kills.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time, real threads

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::process::{Random, Server, Setup, encode, now_ns, push, request, s3_store};
use serde_json::json;

const PUSHERS: u64 = 4;
/// Rows of one pusher in all rounds; less than the maximum `limit` of a query.
const ROWS_MAX: usize = 4_000;
/// Rows of a push.
const ROWS_OF_PUSH: usize = 10;

/// Acknowledged rows, by pusher.
type Acknowledged = Arc<Mutex<HashMap<u64, Vec<String>>>>;

fn sandur(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn succeeds(arguments: &[&str]) -> String {
    let output = sandur(arguments).output().unwrap();
    assert!(output.status.success(), "sandur {arguments:?}: {}", text_of(&output));
    text_of(&output)
}

fn fails(arguments: &[&str]) -> String {
    let output = sandur(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "sandur {arguments:?}: {}", text_of(&output));
    text_of(&output)
}

/// Starts a command and kills it after some time, unless it ends earlier.
fn killed(arguments: &[&str], after: Duration) {
    let mut child = sandur(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().unwrap();
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data").display().to_string();
    run(&store, folder.path());
}

#[test]
fn s3() {
    let Some(store) = s3_store("backup") else { return };
    let folder = tempfile::tempdir().unwrap();
    run(&store, folder.path());
}

fn run(store: &str, folder: &Path) {
    let seed = number("SANDUR_BACKUP_SEED", now_ns() as u64);
    println!("backup: seed {seed} (SANDUR_BACKUP_SEED={seed} repeats the moments of the kills)");
    let mut random = Random(seed);
    let started_ns = now_ns();
    let arguments =
        ["--flush-max-age", "1s", "--compaction-interval", "1s", "--retention-delete-delay", "1s"];
    let setup = Setup::new(store, folder).with(&arguments);
    let mut server = setup.start();
    let acknowledged = Acknowledged::default();
    let place = folder.join("backups").display().to_string();
    let rounds = number("SANDUR_BACKUP_ROUNDS", 2);
    for round in 0..rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let pushers = start_pushers(server.address, round, &stop, &acknowledged);
        std::thread::sleep(Duration::from_millis(300 + random.below(1_500)));
        let backup = ["backup", "--from", store, "--to", &place];
        killed(&backup, Duration::from_millis(random.below(700)));
        let before = acknowledged.lock().unwrap().clone();
        let is_killed = random.below(2) == 0;
        let text = match is_killed {
            false => succeeds(&backup),
            // The server dies while the backup runs.
            true => {
                let child = sandur(&backup).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
                std::thread::sleep(Duration::from_millis(random.below(500)));
                server.kill();
                let output = child.wait_with_output().unwrap();
                server = setup.start();
                assert!(output.status.success(), "{}", text_of(&output));
                text_of(&output)
            }
        };
        assert!(text.contains("is complete"), "{text}");
        stop.store(true, Ordering::Relaxed);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        restore(folder, &place, (round, started_ns), &before, &mut random);
    }
    check_place(folder, store, &place, rounds);
    assert_eq!(server.terminate(), Some(0), "a clean stop");
}

/// Restores the newest backup and counts its rows.
fn restore(
    folder: &Path,
    place: &str,
    (round, started_ns): (u64, i64),
    before: &HashMap<u64, Vec<String>>,
    random: &mut Random,
) {
    let target = folder.join(format!("restored-{round}")).display().to_string();
    let restore = ["restore", "--from", place, "--to", &target];
    killed(&restore, Duration::from_millis(random.below(400)));
    let text = sandur(&restore).output().unwrap();
    let text = text_of(&text);
    // If the first attempt was complete before it was killed, the store is there.
    let is_there = text.contains("is not empty") && Path::new(&target).join("catalog").is_dir();
    assert!(text.contains("is restored and verified") || is_there, "{text}");
    assert!(fails(&restore).contains("is not empty"));
    // It fails if there is damage.
    succeeds(&["check", "--store", &target]);
    let server = Setup::new(&target, folder).start();
    for (pusher, rows) in before {
        let found = rows_of(&server, *pusher, started_ns);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for row in &found {
            *counts.entry(row).or_default() += 1;
        }
        for row in rows {
            let count = counts.get(row.as_str()).copied().unwrap_or(0);
            assert_eq!(
                count,
                1,
                "round {round}: '{row}' of pusher {pusher} is found {count} times, and {} of {} rows of it; \
                 {text}{}",
                found.len(),
                rows.len(),
                server.log_text()
            );
        }
        assert!(counts.values().all(|count| *count == 1), "round {round}: rows are found several times");
    }
    assert_eq!(server.terminate(), Some(0));
    assert!(succeeds(&["check", "--store", &target]).trim_end().ends_with("sound"));
}

/// The other commands, and refusals that name the reason.
fn check_place(folder: &Path, store: &str, place: &str, rounds: u64) {
    let list = succeeds(&["backup", "list", "--to", place]);
    assert!(list.lines().count() as u64 >= rounds, "{list}");
    let verified = succeeds(&["backup", "verify", "--to", place]);
    assert_eq!(verified.matches("sound:").count(), list.lines().count(), "{verified}");
    let unchanged = succeeds(&["backup", "--from", store, "--to", place, "--max-rate", "100MiB"]);
    assert!(unchanged.contains("in earlier backups"), "{unchanged}");
    let removed = succeeds(&["backup", "remove", "--to", place, "--keep", "1"]);
    assert!(removed.contains("were removed"), "{removed}");
    assert_eq!(succeeds(&["backup", "list", "--to", place]).lines().count(), 1);
    assert!(succeeds(&["backup", "verify", "--to", place]).contains("sound:"));
    let other = folder.join("restored-0").display().to_string();
    let refused = fails(&["backup", "--from", &other, "--to", place]);
    assert!(refused.contains("backups of another store"), "{refused}");
    let refused = fails(&["backup", "--from", store, "--to", &other]);
    assert!(refused.contains("is not a place of backups"), "{refused}");
    let empty = folder.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let refused = fails(&["restore", "--from", empty.to_str().unwrap(), "--to", "./unused"]);
    assert!(refused.contains("has no backups"), "{refused}");
    damage(Path::new(place), folder);
}

/// A missing and a truncated object are named, and nothing is restored from them.
fn damage(place: &Path, folder: &Path) {
    let mut objects = Vec::new();
    files(&place.join("blocks"), &mut objects);
    files(&place.join("backups"), &mut objects);
    let target = folder.join("damaged").display().to_string();
    let place = place.to_str().unwrap();
    for object in objects.iter().filter(|path| !path.ends_with("boundary") && !path.ends_with("witness")) {
        let original = std::fs::read(object).unwrap();
        for kept in [None, Some(original.len() / 2)] {
            match kept {
                None => std::fs::remove_file(object).unwrap(),
                Some(length) => std::fs::write(object, &original[..length]).unwrap(),
            }
            let refused = sandur(&["restore", "--from", place, "--to", &target]).output().unwrap();
            let text = text_of(&refused);
            let name = object.strip_prefix(place).unwrap().display().to_string();
            let is_manifest = name.ends_with("manifest");
            // Copies of the WAL of earlier attempts are not used.
            let is_unused = refused.status.success();
            assert!(!is_unused || name.contains("/wal/"), "{name} is damaged, but: {text}");
            let is_named = text.contains(&name) || text.contains("blocks/");
            assert!(is_unused || is_manifest || is_named, "{name}: {text}");
            let _ = std::fs::remove_dir_all(&target);
        }
        std::fs::write(object, original).unwrap();
    }
    succeeds(&["restore", "--from", place, "--to", &target]);
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    // The writers of a bucket may not have flushed yet.
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// Threads that push lines or samples until they are stopped or the server dies.
fn start_pushers(
    address: SocketAddr,
    round: u64,
    stop: &Arc<AtomicBool>,
    acknowledged: &Acknowledged,
) -> Vec<std::thread::JoinHandle<()>> {
    let start = |pusher: u64| {
        let (stop, acknowledged) = (Arc::clone(stop), Arc::clone(acknowledged));
        std::thread::spawn(move || {
            let mut number = 0;
            let began_ms = now_ns() / 1_000_000;
            while !stop.load(Ordering::Relaxed) && number < ROWS_MAX / 20 {
                let rows: Vec<String> = (0..ROWS_OF_PUSH)
                    .map(|n| match pusher % 2 {
                        0 => format!("round {round} row {}", number + n),
                        // Times of a series are different in all rounds.
                        _ => format!("{} {}", number + n, began_ms - 600_000 + (number + n) as i64),
                    })
                    .collect();
                number += ROWS_OF_PUSH;
                match send(address, pusher, &rows) {
                    Ok((204, _)) => acknowledged.lock().unwrap().entry(pusher).or_default().extend(rows),
                    Ok((status, body)) => panic!("{status}: {}", String::from_utf8_lossy(&body)),
                    // The server was killed.
                    Err(_) => return,
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    };
    (0..PUSHERS).map(start).collect()
}

fn send(address: SocketAddr, pusher: u64, rows: &[String]) -> std::io::Result<(u16, Vec<u8>)> {
    if pusher.is_multiple_of(2) {
        let values: Vec<(i64, String)> = rows.iter().map(|row| (now_ns(), row.clone())).collect();
        return push(address, &json!({"job": "backup", "pusher": pusher.to_string()}), &values);
    }
    let mut text = String::new();
    for row in rows {
        let (value, ms) = row.split_once(' ').unwrap();
        text.push_str(&format!("backup{{pusher=\"{pusher}\"}} {value} {ms}\n"));
    }
    request(address, "POST", "/api/v1/import/prometheus", &[("Content-Type", "text/plain")], text.as_bytes())
}

/// The rows of a pusher that a server has.
fn rows_of(server: &Server, pusher: u64, started_ns: i64) -> Vec<String> {
    if pusher.is_multiple_of(2) {
        let selector = format!(r#"{{job="backup", pusher="{pusher}"}}"#);
        return server.lines(&selector, started_ns, now_ns() + 1_000_000_000, 5_000);
    }
    let query = encode(&format!("backup{{pusher=\"{pusher}\"}}[1d]"));
    let now = now_ns() / 1_000_000_000 + 10;
    let answer = server.get_json(&format!("/api/v1/query?query={query}&time={now}"));
    let mut found = Vec::new();
    for series in answer["data"]["result"].as_array().unwrap() {
        for sample in series["values"].as_array().unwrap() {
            let ms = (sample[0].as_f64().unwrap() * 1_000.0).round() as i64;
            found.push(format!("{} {ms}", sample[1].as_str().unwrap()));
        }
    }
    found
}
