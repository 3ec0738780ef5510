//! Goal: every subcommand of logcli works unchanged and its output agrees with the pushed lines.
//!
//! Method: the real program against the real binary, with two streams whose lines are known. It is built
//! by `cargo xtask rivals` and found on PATH; without it the tests are skipped with a message.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::process::{Server, Setup, now_ns};
use serde_json::{Value, json};

/// Seconds from the first line to the last one of a stream, and so their number.
const LINES: i64 = 600;

/// A server with known lines.
struct Bench {
    server: Server,
    folder: tempfile::TempDir,
    start_ns: i64,
}

/// `None` without logcli.
fn bench() -> Option<Bench> {
    let found = Command::new("logcli").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("skipped: logcli is not on PATH (`cargo xtask rivals logcli` builds it)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let server =
        Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path()).start();
    // whole minutes, so that parts of one minute have sixty lines
    let start_ns = (now_ns() / 60_000_000_000 - 20) * 60_000_000_000;
    for (app, level) in [("api", "info"), ("worker", "warn")] {
        let line = |n: i64| {
            (
                start_ns + n * 1_000_000_000,
                format!("level={level} msg=\"{app} line\" n={n} took={}ms", n % 50),
            )
        };
        let lines: Vec<(i64, String)> = (0..LINES).map(line).collect();
        assert_eq!(server.push(&json!({"app": app, "env": "test"}), &lines).unwrap().0, 204);
    }
    Some(Bench { server, folder, start_ns })
}

impl Bench {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("logcli");
        command.arg(format!("--addr=http://{}", self.server.address)).arg("--quiet").args(arguments);
        command.env("TZ", "UTC").current_dir(self.folder.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "logcli {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error message of a command that fails.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(!output.status.success(), "logcli {arguments:?} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// `--from` and `--to` around all lines.
    fn range(&self) -> [String; 2] {
        let time = |seconds: i64| {
            let output = Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%FT%TZ"]).output();
            String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
        };
        let start = self.start_ns / 1_000_000_000;
        [format!("--from={}", time(start)), format!("--to={}", time(start + LINES))]
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn queries_print_lines_and_numbers() {
    let Some(bench) = bench() else { return };
    let raw = bench.run(&["query", r#"{app="api"} |= "n=7 ""#, "--limit=10", "--output=raw"]);
    assert_eq!(raw, "level=info msg=\"api line\" n=7 took=7ms\n");
    let default = bench.run(&["query", r#"{app="api"} | logfmt | n >= 595"#, "--limit=100"]);
    assert_eq!(default.lines().count(), 5, "{default}");
    assert!(default.lines().next().unwrap().contains("n=599 "), "newest first: {default}");
    let forward = bench.run(&["query", r#"{env="test"}"#, "--forward", "--limit=3", "--output=jsonl"]);
    let first: Value = serde_json::from_str(forward.lines().next().unwrap()).unwrap();
    assert_eq!(forward.lines().count(), 3);
    assert!(first["line"].as_str().unwrap().contains("n=0 "), "{forward}");
    assert_eq!(first["labels"]["app"], "api", "labels common to all lines are omitted: {forward}");
    // more than one batch: logcli continues at the last timestamp and omits known lines
    let all = bench.run(&["query", r#"{env="test"}"#, "--limit=0", "--batch=97", "--output=raw"]);
    let different: BTreeSet<&str> = all.lines().collect();
    assert_eq!((all.lines().count(), different.len()), (1200, 1200));
    let matrix = bench.run(&["query", r#"sum by (app) (count_over_time({env="test"}[1m]))"#, "--step=1m"]);
    let matrix: Value = serde_json::from_str(&matrix).unwrap();
    let values = |row: &Value| row["values"].as_array().unwrap().iter().map(number).sum::<f64>();
    let sums: Vec<f64> = matrix.as_array().unwrap().iter().map(values).collect();
    assert_eq!(sums, [600.0, 600.0], "{matrix}");
    let instant = bench.run(&["instant-query", r#"sum by (app) (count_over_time({env="test"}[1h]))"#]);
    let instant: Value = serde_json::from_str(&instant).unwrap();
    assert_eq!(instant[0]["metric"], json!({"app": "api"}));
    assert_eq!(instant[1]["value"][1], "600", "{instant}");
    let error = bench.refused(&["query", r#"{app="api"} |= "#]);
    assert!(error.contains("parse error at line 1, col 16: syntax error: unexpected $end"), "{error}");
}

fn number(pair: &Value) -> f64 {
    pair[1].as_str().unwrap().parse().unwrap()
}

#[test]
fn labels_and_series_are_listed() {
    let Some(bench) = bench() else { return };
    assert_eq!(words(&bench.run(&["labels"])), ["app", "env", "service_name"]);
    assert_eq!(words(&bench.run(&["labels", "app"])), ["api", "worker"]);
    assert_eq!(bench.run(&["labels", "nosuch"]).trim(), "");
    let series = bench.run(&["series", r#"{env="test"}"#]);
    assert_eq!(series.lines().count(), 2, "{series}");
    assert!(series.contains(r#"{app="api", env="test", service_name="api"}"#), "{series}");
    let analysed = bench.run(&["series", "{}", "--analyze-labels"]);
    assert!(analysed.contains("Total Streams:  2") && analysed.contains("Unique Labels:  3"), "{analysed}");
    let rows: BTreeSet<Vec<&str>> = analysed.lines().skip(4).map(words).collect();
    assert_eq!(
        rows,
        BTreeSet::from([vec!["app", "2", "2"], vec!["env", "1", "2"], vec!["service_name", "2", "2"]])
    );
}

#[test]
fn sizes_are_shown() {
    let Some(bench) = bench() else { return };
    let stats = bench.run(&["stats", r#"{app="api"}"#]);
    assert!(stats.contains("streams: 1") && stats.contains("entries: 600"), "{stats}");
    let volume: Value =
        serde_json::from_str(&bench.run(&["volume", r#"{env="test"}"#, "--targetLabels=app"])).unwrap();
    let apps: BTreeSet<&str> =
        volume.as_array().unwrap().iter().map(|v| v["metric"]["app"].as_str().unwrap()).collect();
    assert_eq!(apps, BTreeSet::from(["api", "worker"]));
    let bytes = number(&volume[0]["value"]);
    assert!((20_000.0..60_000.0).contains(&bytes), "{volume}");
    let labels = bench.run(&["volume", r#"{env="test"}"#, "--aggregateByLabels"]);
    assert!(labels.contains("\"env\""), "{labels}");
    let ranged = bench.run(&["volume_range", r#"{env="test"}"#, "--targetLabels=app", "--step=5m"]);
    let ranged: Value = serde_json::from_str(&ranged).unwrap();
    let sum: f64 = ranged[0]["values"].as_array().unwrap().iter().map(number).sum();
    assert!((sum - bytes).abs() < 0.1 * bytes, "{sum} and {bytes}");
}

#[test]
fn fields_are_detected() {
    let Some(bench) = bench() else { return };
    let fields = bench.run(&["detected-fields", r#"{app="api"}"#, "--line-limit=1000"]);
    let find =
        |name: &str| fields.lines().find(|l| l.contains(&format!("label: {name}\t"))).unwrap_or(&fields);
    assert!(find("took").contains("type: duration") && find("took").contains("cardinality: 50"), "{fields}");
    assert!(find("n").contains("type: int"), "{fields}");
    let values = bench.run(&["detected-fields", r#"{app="api"}"#, "level", "--line-limit=1000"]);
    assert_eq!(words(&values), ["info"]);
}

#[test]
fn queries_are_formatted() {
    let Some(bench) = bench() else { return };
    let mut child = bench.command(&["fmt"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"sum(rate({app="api"}|="x"[5m]))"#).unwrap();
    let output = child.wait_with_output().unwrap();
    let formatted = String::from_utf8(output.stdout).unwrap();
    // logcli formats queries itself; the server must return the same
    let encoded = crate::process::encode(r#"sum(rate({app="api"}|="x"[5m]))"#);
    let ours = bench.server.get_json(&format!("/loki/api/v1/format_query?query={encoded}"));
    assert_eq!(ours["data"], formatted.trim_end());
}

#[test]
fn parallel_downloads_are_complete() {
    let Some(bench) = bench() else { return };
    let [from, to] = bench.range();
    let fixed = ["query", r#"{env="test"}"#, &from, &to, "--output=raw", "--parallel-max-workers=4"];
    let parts = ["--parallel-duration=1m", "--part-path-prefix=part", "--merge-parts", "--forward"];
    let merged = bench.run(&[&fixed[..], &parts[..]].concat());
    let different: BTreeSet<&str> = merged.lines().collect();
    assert_eq!((merged.lines().count(), different.len()), (1200, 1200));
    let first = merged.lines().next().unwrap();
    assert!(first.contains("n=0 "), "parts are merged in order: {first}");
}

/// The first line that a tail prints while lines are pushed repeatedly, since the tail may not be
/// connected yet.
fn followed(mut child: Child, server: &Server, line: impl Fn(i64) -> String + Send + 'static) -> String {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let address = server.address;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let pusher = std::thread::spawn(move || {
        for n in 0.. {
            crate::process::push(address, &json!({"app": "live"}), &[(now_ns(), line(n))]).unwrap();
            if stopped.recv_timeout(std::time::Duration::from_millis(50))
                != Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                return;
            }
        }
    });
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    drop(stop);
    pusher.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    first
}

#[test]
fn new_lines_are_followed() {
    let Some(bench) = bench() else { return };
    for flags in [&["--tail"][..], &["-f", "--delay-for=1"]] {
        let arguments = [&["query", r#"{app="live"} |= "live""#, "--output=raw"], flags].concat();
        let child = bench.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let line = followed(child, &bench.server, |n| format!("live line {n}"));
        assert!(line.starts_with("live line"), "{line}");
    }
}

#[test]
fn deletions_are_requested_listed_and_cancelled() {
    let Some(bench) = bench() else { return };
    let [from, to] = bench.range();
    let query = ["query", r#"{app="api"}"#, "--limit=1000", "--output=raw", &from, &to];
    let all = bench.run(&query);
    assert_eq!(all.lines().count() as i64, LINES);

    bench.run(&["delete", "create", r#"{app="api"} |= "took=7ms""#, &from, &to]);
    let listed = bench.run(&["delete", "list", "--output=jsonl"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["query"], r#"{app="api"} |= "took=7ms""#);
    assert_eq!(listed[0]["start_time"], bench.start_ns / 1_000_000_000);
    assert_eq!(listed[0]["status"], "received");
    let left = bench.run(&query);
    assert_eq!(left.lines().count() as i64, LINES - LINES / 50);
    assert!(!left.contains("took=7ms"), "{left}");

    // logcli does not print ids
    let requests = bench.server.get_json("/loki/api/v1/delete");
    let id = requests[0]["request_id"].as_str().unwrap();
    bench.run(&["delete", "cancel", &format!("--request-id={id}")]);
    assert_eq!(bench.run(&["delete", "list", "--output=jsonl"]).trim(), "[]");
    let back = bench.run(&query);
    assert_eq!(back, all);
    let unknown = bench.refused(&["delete", "cancel", "--request-id=nosuch"]);
    assert!(unknown.contains("could not find delete request with given id"), "{unknown}");
}

/// Goal: a token permits what its scopes allow, and requests without one are refused.
#[test]
fn tokens_are_checked() {
    let Some(bench) = bench() else { return };
    let file = bench.folder.path().join("auth.toml");
    let listed = |name: &str, scope: &str| {
        let hash = sandur_http::auth::token_hash(name);
        format!("[tokens.{name}]\nhash = '{hash}'\ntenants = ['fake']\nscopes = ['{scope}']\n")
    };
    std::fs::write(&file, listed("reader", "read") + &listed("writer", "write")).unwrap();
    let store = format!("file://{}", bench.folder.path().join("guarded").display());
    let setup = Setup::new(store, bench.folder.path()).with(&["--auth-file", file.to_str().unwrap()]);
    let bench = Bench { server: setup.start(), ..bench };
    let labels = |token: &'static str| ["labels".to_owned(), format!("--bearer-token={token}")];
    let labels_by = |token| {
        let all = labels(token);
        bench.command(&all.each_ref().map(String::as_str)).output().unwrap()
    };
    assert!(labels_by("reader").status.success());
    for (token, why) in [("writer", "no scope 'read'"), ("nobody", "unknown token")] {
        let output = labels_by(token);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{token}: {said}");
    }
    assert!(bench.refused(&["labels"]).contains("no credential"));
}
