//! Goal: a replay of rules finds which alerts would have fired in the past, stores nothing without
//! `--write`, stores the same once with it, however often it is repeated, and says what failed.
//!
//! Method: the real binary against a real server with samples of yesterday.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::{Server, Setup, encode, now_ns, request};

const RULES: &str = "groups:
- name: g
  interval: 30s
  rules:
  - {record: 'host:load:twice', expr: 2 * load}
  - {alert: Loaded, expr: load > 5, for: 1m, labels: {severity: page}, annotations: {text: 'at {{ $value }}'}}
";

struct World {
    folder: tempfile::TempDir,
    server: Server,
    /// The first sample, seconds.
    start: i64,
}

impl World {
    /// Fifteen minutes of yesterday; the load is high from minute 5 to minute 10.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
        let start = now_ns() / 1_000_000_000 / 3_600 * 3_600 - 86_400;
        let samples = (0..60).map(|n| {
            let value = if (20..40).contains(&n) { 9 } else { 1 };
            format!("load{{host=\"a\"}} {value} {}\n", (start + n * 15) * 1_000)
        });
        let body: String = samples.collect();
        let path = "/api/v1/import/prometheus";
        let pushed = request(server.address, "POST", path, &[], body.as_bytes()).unwrap();
        assert_eq!(pushed.0, 204, "{}", String::from_utf8_lossy(&pushed.1));
        fs::write(folder.path().join("rules.yml"), RULES).unwrap();
        Self { folder, server, start }
    }

    fn rules(&self) -> std::path::PathBuf {
        self.folder.path().join("rules.yml")
    }

    /// Returns the exit code, the objects on stdout, and stderr.
    fn replay(&self, file: &Path, arguments: &[&str]) -> (Option<i32>, Vec<Value>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
        command.args(["rules", "replay", "--json", "--addr", &format!("http://{}", self.server.address)]);
        command.args(["--from", &self.start.to_string(), "--to", &(self.start + 900).to_string()]);
        let output = command.args(arguments).arg("--").arg(file).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let objects = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (output.status.code(), objects, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn count(&self, selector: &str) -> u64 {
        let query = encode(&format!("sum(count_over_time({selector}[30m]))"));
        let answer =
            self.server.get_json(&format!("/api/v1/query?query={query}&time={}", self.start + 1_200));
        answer["data"]["result"][0]["value"][1].as_str().map_or(0, |text| text.parse().unwrap())
    }
}

#[test]
fn a_replay_says_what_would_have_fired_and_stores_only_if_told_to() {
    let world = World::new();
    let (code, seen, errors) = world.replay(&world.rules(), &[]);
    assert_eq!(code, Some(0), "{errors}");
    let [fired, ended] = &seen[..] else { panic!("{seen:?} {errors}") };
    assert_eq!((&fired["state"], &ended["state"]), (&"firing".into(), &"resolved".into()));
    assert_eq!(fired["labels"]["severity"], "page");
    assert_eq!((&fired["labels"]["host"], &fired["annotations"]["text"]), (&"a".into(), &"at 9".into()));
    assert!(errors.contains("host:load:twice: 30 samples not stored"), "{errors}");
    assert!(errors.contains("60 evaluations, 0 failed; alerts fired 1 times, 0 fire at the end"), "{errors}");
    assert_eq!((world.count("host:load:twice"), world.count("ALERTS")), (0, 0));

    let (code, again, errors) = world.replay(&world.rules(), &["--write"]);
    assert!(code == Some(0) && errors.contains("host:load:twice: 30 samples stored"), "{errors}");
    assert_eq!(again, seen);
    let stored = (world.count("host:load:twice"), world.count("ALERTS"));
    assert!(stored.0 == 30 && stored.1 > 9, "{stored:?}");
    let (code, again, errors) = world.replay(&world.rules(), &["--write"]);
    assert_eq!((code, again), (Some(0), seen), "{errors}");
    assert_eq!((world.count("host:load:twice"), world.count("ALERTS")), stored, "nothing is stored twice");

    // Other values for the same times are refused, and the stored ones stay.
    fs::write(world.rules(), RULES.replace("2 * load", "3 * load")).unwrap();
    let (code, seen, errors) = world.replay(&world.rules(), &["--write"]);
    assert!(code == Some(1) && errors.contains("60 evaluations, 30 failed"), "{errors}");
    assert!(seen.iter().any(|one| one["state"] == "failed" && one["rule"] == "host:load:twice"), "{seen:?}");
    assert_eq!((world.count("host:load:twice"), world.count("ALERTS")), stored);
}

#[test]
fn what_cannot_be_replayed_is_an_error_that_says_why() {
    let world = World::new();
    let long = world.replay(&world.rules(), &["--from", "2010-01-01"]);
    assert!(long.0 == Some(2), "{}", long.2);
    let broken = world.folder.path().join("broken.yml");
    fs::write(&broken, "groups:\n- name: g\n  rules:\n  - {record: a, expr: '1 +'}\n").unwrap();
    let (code, _, errors) = world.replay(&broken, &[]);
    assert!(code == Some(2) && errors.contains("broken.yml:4"), "{errors}");
    let failing = world.folder.path().join("failing.yml");
    let expr = "load * on (host) (load or label_replace(load, 'x', 'y', '', ''))";
    fs::write(&failing, format!("groups:\n- name: g\n  rules:\n  - {{record: a, expr: \"{expr}\"}}\n"))
        .unwrap();
    let (code, seen, errors) = world.replay(&failing, &[]);
    assert_eq!((code, seen.len()), (Some(1), 1), "{seen:?} {errors}");
    assert!(
        seen[0]["state"] == "failed" && errors.contains("15 evaluations, 15 failed"),
        "{seen:?} {errors}"
    );
}

#[test]
fn rules_over_lines_are_replayed() {
    let world = World::new();
    let at = |second: i64| (world.start + second) * 1_000_000_000;
    let lines = [(at(100), "an error".to_owned()), (at(400), "ok".to_owned())];
    let (status, answer) = world.server.push(&serde_json::json!({"app": "api"}), &lines).unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&answer));
    let file = world.folder.path().join("lines.yml");
    let expr = "count_over_time({app='api'} |= 'error' [2m]) > 0".replace('\'', "`");
    let expr = expr.replace("=`api`", "=\"api\"");
    fs::write(&file, format!("groups:\n- name: g\n  rules:\n  - alert: Errors\n    expr: {expr}\n")).unwrap();
    let named = format!("logql:{}", file.display());
    let (code, seen, errors) = world.replay(Path::new(&named), &[]);
    let states: Vec<&str> = seen.iter().filter_map(|one| one["state"].as_str()).collect();
    assert_eq!((code, &states[..]), (Some(0), &["firing", "resolved"][..]), "{seen:?} {errors}");
    assert_eq!(seen[0]["labels"]["app"], "api");
}

#[test]
fn targets_of_graphite_are_replayed() {
    let world = World::new();
    let file = world.folder.path().join("targets.yml");
    let expr = "currentAbove(seriesByTag('name=load', 'host=a'), 5)";
    fs::write(&file, format!("groups:\n- name: g\n  rules:\n  - alert: Loaded\n    expr: {expr}\n")).unwrap();
    let named = format!("graphite:{}", file.display());
    let (code, seen, errors) = world.replay(Path::new(&named), &[]);
    let states: Vec<&str> = seen.iter().filter_map(|one| one["state"].as_str()).collect();
    assert_eq!((code, &states[..]), (Some(0), &["firing", "resolved"][..]), "{seen:?} {errors}");
    assert_eq!((&seen[0]["labels"]["host"], &seen[0]["value"]), (&"a".into(), &"9".into()));
}
