//! Goal: the commands work together: serve, push with resume, query, tail, inspect, check, and the exit
//! codes and messages that scripts and users rely on.
//!
//! Method: the real binary for the server and for every command, with one directory.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use crate::process::{Ended, Server, Setup, now_ns};
use serde_json::json;

fn sandur(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandur")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines with current timestamps, so that no age limit applies.
fn log_file(path: &Path, from: u32, to: u32) {
    let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
    for n in from..to {
        writeln!(file, "level=info n={n} msg=\"line number {n}\"").unwrap();
    }
}

#[test]
fn a_block_of_samples_is_shown_and_an_unknown_object_is_reported() {
    let block = concat!(env!("CARGO_MANIFEST_DIR"), "/../format/fixtures/sample-block-v4.bin");
    let shown = sandur(&["inspect", block, "--rows", "3"]);
    let text = out(&shown);
    assert!(shown.status.success(), "{}", err(&shown));
    for expected in
        ["metrics, format version 4", "rows     300", "series: 5", "first samples:", "le=\"+Inf\""]
    {
        assert!(text.contains(expected), "no '{expected}' in {text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let unknown = folder.path().join("unknown");
    std::fs::write(&unknown, b"WHAT is this?").unwrap();
    let shown = sandur(&["inspect", unknown.to_str().unwrap()]);
    assert!(
        !shown.status.success() && err(&shown).contains("begins with [57, 48, 41, 54]"),
        "{}",
        err(&shown)
    );
}

#[test]
fn pushed_lines_are_found_inspected_and_sound() {
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
    assert!(
        err(&second).contains("acknowledged 100 lines"),
        "it continues where it stopped: {}",
        err(&second)
    );

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
fn files_of_the_relay_are_checked_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = |last: &str| {
        format!(
            "cluster ring carbon_ch h1:1 h2:1 {last};\ncluster rest forward h9:1;\n\
             match ^servers\\. send to ring stop;\nmatch * send to rest;\n"
        )
    };
    let (one, other) = (file("one.conf", &text("h3:1")), file("other.conf", &text("h4:1")));
    let check = |path: &str, more: &[&str]| {
        let output = sandur(&[&["relay", "--config", path, "--check"], more].concat());
        (output.status.code(), out(&output), err(&output))
    };
    assert_eq!(check(&one, &[]), (Some(0), "valid: 2 clusters, 2 routes\n".to_owned(), String::new()));
    let wrong = file("wrong.conf", "cluster a useall h1:1;\ncluster b forward h1:1\nmatch * send to b;\n");
    for more in [&[][..], &["--lenient"]] {
        let (code, printed, errors) = check(&wrong, more);
        assert_eq!((code, printed.as_str()), (Some(1), ""));
        let has_both = errors.contains(":1: 'useall'") && errors.contains(":3: 'match' is a keyword");
        assert!(has_both, "{errors}");
    }
    let diff = |more: &[&str]| {
        let output = sandur(&[&["relay", "diff", "--summary", &one, &other], more].concat());
        (output.status.code(), err(&output))
    };
    let (code, errors) = diff(&[]);
    assert!(code == Some(1) && !errors.contains("give --names"), "{errors}");
    let (code, errors) = diff(&["--names", &file("names", "a.b\nc.d\n")]);
    assert!(code == Some(0) && errors.contains("0 of 2 names have other targets"), "{errors}");
    assert!(errors.contains("only 0 of 2 names reach cluster ring, which differs"), "{errors}");
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nothing");
    for (arguments, code, text) in [
        (&["query", "--addr", "127.0.0.1:1", "{a=\"b\"}"][..], 1, "start one with `sandur serve`"),
        (&["query"], 2, "QUERY"),
        (&["serve", "--flush-max-age", "soon"], 2, "write it like 90s"),
        (&["query", "--since", "5", "{a=\"b\"}"], 2, "write 5m for minutes"),
        (&["query", "--from", "someday", "{a=\"b\"}"], 2, "write it like now-1h, yesterday"),
        (&["query", "--timezone", "Europe/Berln", "{a=\"b\"}"], 2, "did you mean Europe/Berlin?"),
        (&["tail", "--delay-for", "9", "{a=\"b\"}"], 2, "9 is not in"),
        (&["serve", "--retention", "7d"], 2, "it is --limits-retention-period"),
        (&["-config.file=loki.yaml", "-target=all"], 2, "`sandur serve`: --config"),
        (&["delete", "create", "{a=\"b\"}"], 2, "give the start of the range"),
        (&["qeury"], 2, "'query'"),
        (&[], 2, "Usage: sandur"),
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
fn a_configuration_is_checked_without_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let rules = |text: &str| std::fs::write(at("rules.yml"), text).unwrap();
    rules("groups: [{name: a, rules: [{record: r, expr: up}]}]");
    let (store, file) = (at("store"), at("rules.yml"));
    let check = |more: &[&str]| {
        let arguments = ["serve", "--check-config", "--store", &store, "--rules", &file];
        sandur(&[&arguments[..], more].concat())
    };
    let valid = check(&[]);
    assert!(valid.status.success() && err(&valid).contains("is valid"), "{}", err(&valid));
    assert!(!folder.path().join("store").exists(), "nothing is written");
    rules("groups: [{name: a, rules: [{record: r, expr: 'up{'}]}]");
    let wrong = check(&["--listen", "0.0.0.0:3100", "--relay-config", &file]);
    let text = err(&wrong);
    assert_eq!(wrong.status.code(), Some(1), "{text}");
    for expected in ["--insecure-listen", "relay_config", "rules.yml", "3 errors"] {
        assert!(text.contains(expected), "no '{expected}' in {text}");
    }
    let missing = check(&["--cluster-zone", "rack 1", "--auth-file", &at("missing")]);
    let text = err(&missing);
    assert!(text.contains("cluster.zone") && text.contains("auth.file"), "{text}");
}

/// A minimal installation without ca-certificates did not start, although it connected to nobody.
#[test]
fn a_server_needs_no_certificate_authorities() {
    let folder = tempfile::tempdir().unwrap();
    let (store, none) = (folder.path().join("store"), folder.path().join("none"));
    let mut check = Command::new(env!("CARGO_BIN_EXE_sandur"));
    check.args(["serve", "--check-config", "--store"]).arg(store).args(["--scrape", "127.0.0.1:1"]);
    check.env("SSL_CERT_FILE", &none).env("SSL_CERT_DIR", &none);
    let output = check.output().unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let mut query = Command::new(env!("CARGO_BIN_EXE_sandur"));
    query.args(["labels", "--addr", "https://127.0.0.1:1"]);
    let output = query.env("SSL_CERT_FILE", &none).env("SSL_CERT_DIR", &none).output().unwrap();
    assert!(!output.status.success() && err(&output).contains("certificate authorities"), "{}", err(&output));
}

#[test]
fn a_second_server_on_the_directory_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let _first = Setup::new(store, folder.path()).start();
    let second = sandur(&["serve", "--store", store, "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(err(&second).contains("is in use by process"), "{}", err(&second));
}

#[test]
fn a_configuration_of_loki_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loki.yaml");
    std::fs::write(&path, "auth_enabled: false\nschema_config:\n  configs:\n    - from: 2024-01-01\n")
        .unwrap();
    let output = sandur(&["serve", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    for text in
        ["is YAML, but Sandur reads TOML", "auth_enabled -> auth.require_tenant", "not needed: blocks"]
    {
        assert!(err(&output).contains(text), "{text}: {}", err(&output));
    }
}

/// A server with lines, and commands that query it.
struct Asked {
    server: Server,
    _folder: tempfile::TempDir,
}

/// Number of timestamps of the lines of [`Asked`].
const INSTANTS: i64 = 50;

impl Asked {
    /// Two streams; ten lines of each at each of 50 timestamps of the last minutes.
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let server = Setup::new(store.to_str().unwrap(), folder.path()).with(arguments).start();
        let first = now_ns() - 300_000_000_000;
        for app in ["api", "web"] {
            let line = |n: i64| (first + n / 10 * 1_000_000_000, format!("{app} line {n}"));
            let lines: Vec<(i64, String)> = (0..INSTANTS * 10).map(line).collect();
            assert_eq!(server.push(&json!({"app": app, "env": "test"}), &lines).unwrap().0, 204);
        }
        Self { server, _folder: folder }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let address = format!("http://{}", self.server.address);
        let words: Vec<&str> = arguments.to_vec();
        let (command, rest) = words.split_at(if words[0] == "delete" { 2 } else { 1 });
        sandur(&[command, &["--addr", &address], rest].concat())
    }
}

#[test]
fn query_pages_beyond_the_servers_limit_and_reports_its_own() {
    let asked = Asked::start(&["--limits-max-entries-limit-per-query", "60"]);
    for batch in ["7", "45", "1000"] {
        for direction in [&[][..], &["--forward"]] {
            let all = ["query", "{env=\"test\"}", "--limit", "0", "--batch", batch, "-o", "raw"];
            let output = asked.run(&[&all[..], direction].concat());
            let text = out(&output);
            let different: BTreeSet<&str> = text.lines().collect();
            assert_eq!((text.lines().count(), different.len()), (1_000, 1_000), "{batch}: {}", err(&output));
            assert!(!err(&output).contains("limit"), "{}", err(&output));
        }
    }
    let some = asked.run(&["query", "{env=\"test\"}", "-o", "raw"]);
    assert_eq!(out(&some).lines().count(), 100);
    assert!(err(&some).contains("reached the limit of 100; --limit N shows more"), "{}", err(&some));
    let none = asked.run(&["query", "{env=\"test\"} |= \"nowhere\"", "--timezone", "UTC"]);
    assert_eq!((out(&none).as_str(), none.status.code()), ("", Some(0)));
    assert!(
        err(&none).contains("no lines from ") && err(&none).contains("Z: look further back"),
        "{}",
        err(&none)
    );
    let instant = asked.run(&["query", "absent_metric", "--instant"]);
    assert_eq!(instant.status.code(), Some(0));
    assert!(err(&instant).contains("--instant reads the last five minutes before it"), "{}", err(&instant));
    let range = asked.run(&["query", "absent_metric"]);
    assert!(err(&range).contains("`sandur labels --metrics` lists what exists"), "{}", err(&range));
    let few = Asked::start(&["--limits-max-entries-limit-per-query", "15"]);
    let stuck = few.run(&["query", "{env=\"test\"}", "--limit", "0"]);
    assert_eq!(stuck.status.code(), Some(1));
    assert!(err(&stuck).contains("more than 15 lines have the same timestamp"), "{}", err(&stuck));
}

#[test]
fn errors_of_logql_show_the_query_with_a_caret() {
    let asked = Asked::start(&[]);
    let output = asked.run(&["query", "sum(rat({app=\"api\"}[5m]))"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        err(&output),
        "sandur: the server refused (400): parse error at line 1, col 5: syntax error: unexpected \
         IDENTIFIER\n\n  \
         sum(rat({app=\"api\"}[5m]))\n      ^^^\n  help: did you mean `rate`?\n"
    );
    for (arguments, help) in [
        (&["tail", "{app=\"api\"} | jsn"][..], "did you mean `json`?"),
        (&["series", "{app=\"api\"}", "{app=api}"], "text must be in quotes: \"api\""),
        (&["stats", "{app=\"api\""], "`}` is missing"),
        (&["tail", "rate({app=\"api\"}[5m])"], "`sandur query` answers queries of metrics"),
        (&["query", "--instant", "{app=\"api\"}"], "omit --instant"),
        (&["delete", "cancel", "nothing", "--yes"], "`sandur delete list` shows the requests"),
    ] {
        let output = asked.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(help), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn labels_series_stats_and_volume_show_the_data() {
    let asked = Asked::start(&["--limits-discover-service-name="]);
    assert_eq!(out(&asked.run(&["labels"])), "app\nenv\n");
    assert_eq!(out(&asked.run(&["labels", "app", "--query", "{env=\"test\"}"])), "api\nweb\n");
    let nothing = asked.run(&["labels", "nope"]);
    assert!(err(&nothing).contains("no values of nope"), "{}", err(&nothing));
    let series = asked.run(&["series", "{app=\"api\"}", "{app=\"web\"}"]);
    assert_eq!(out(&series), "{app=\"api\", env=\"test\"}\n{app=\"web\", env=\"test\"}\n");
    let stats = asked.run(&["stats", "{env=\"test\"}"]);
    assert!(out(&stats).contains("streams  2\nlines    1000\n"), "{}{}", out(&stats), err(&stats));
    let stats = asked.run(&["stats", "--json", "{env=\"test\"}"]);
    assert!(out(&stats).contains("\"entries\":1000"), "{}", out(&stats));
    let volume = asked.run(&["volume", "{env=\"test\"}", "--by", "app"]);
    let text = out(&volume);
    let group = |line: &str| if line.contains("app=\"api\"") { "api" } else { "web" };
    let groups: BTreeSet<&str> = text.lines().map(group).collect();
    assert_eq!(groups, BTreeSet::from(["api", "web"]), "{}{}", out(&volume), err(&volume));
}

#[test]
fn a_delete_is_confirmed_and_cancelled() {
    let asked = Asked::start(&[]);
    let range = ["--since", "1h", "{app=\"api\"} |= \"line 4\""];
    let unasked = asked.run(&[&["delete", "create"][..], &range].concat());
    assert_eq!(unasked.status.code(), Some(2));
    assert!(err(&unasked).contains("use --yes"), "{}", err(&unasked));
    let count = || {
        let count = "sum(count_over_time({app=\"api\"}[1h]))";
        out(&asked.run(&["query", "--instant", "-o", "raw", count])).trim().to_owned()
    };
    assert_eq!(count(), "500");
    let created = asked.run(&[&["delete", "create", "--yes"][..], &range].concat());
    assert!(created.status.success() && err(&created).contains(" lines are hidden"), "{}", err(&created));
    assert_eq!(count(), "389", "4, 40 to 49 and 400 to 499 are hidden");
    let listed = out(&asked.run(&["delete", "list", "--timezone", "UTC"]));
    let id = listed.split_whitespace().next().unwrap().to_owned();
    assert!(listed.contains("received") && listed.contains("|= \"line 4\""), "{listed}");
    let cancelled = asked.run(&["delete", "cancel", &id, "--yes"]);
    assert!(cancelled.status.success(), "{}", err(&cancelled));
    assert_eq!(count(), "500");
    let again = asked.run(&["delete", "cancel", &id, "--yes"]);
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn output_has_the_formats_of_logcli() {
    let asked = Asked::start(&[]);
    let run = |form: &str, zone: &str| {
        let query = ["query", "{app=\"api\"} |= \"line 42\" | keep app", "--limit", "1"];
        out(&asked.run(&[&query[..], &["-o", form, "--timezone", zone]].concat()))
    };
    let line = run("raw", "UTC");
    assert!(line.starts_with("api line 42"), "{line}");
    let object: serde_json::Value = serde_json::from_str(&run("jsonl", "UTC")).unwrap();
    assert_eq!((&object["labels"], &object["line"]), (&json!({"app": "api"}), &json!(line.trim())));
    let time = object["timestamp"].as_str().unwrap();
    assert!(time.ends_with('Z'), "{time}");
    let table = run("csv", "UTC");
    assert_eq!(table, format!("timestamp,labels,line\n{time},\"{{app=\"\"api\"\"}}\",{line}"));
    let elsewhere = run("default", "Asia/Kolkata");
    assert!(elsewhere.contains("+05:30 {app=\"api\"} api line 42"), "{elsewhere}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let asked = Asked::start(&[]);
    let address = format!("http://{}", asked.server.address);
    for arguments in [
        &["query", "--addr", &address, "--limit", "0", "--batch", "10", "{env=\"test\"}"][..],
        &["labels", "--addr", &address],
        &["completions", "bash"],
        &["docs", "logql"],
        &["--help"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sandur"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        assert!(!err(&output).contains("panic"), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn completions_and_manual_pages_contain_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let help = out(&sandur(&["--help"]));
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.contains(&"labels") && commands.contains(&"man"), "{help}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = out(&sandur(&["completions", shell]));
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    let pages = folder.path().join("man");
    assert!(sandur(&["man", pages.to_str().unwrap()]).status.success());
    for command in commands {
        let page = std::fs::read_to_string(pages.join(format!("sandur-{command}.1"))).unwrap();
        assert!(page.contains(".TH"), "{command}");
    }
}

/// A proxy to a server, or to none.
#[derive(Clone)]
struct Proxy(Arc<Mutex<(Option<SocketAddr>, Vec<TcpStream>)>>);

impl Proxy {
    /// Starts the proxy; returns it with its address.
    fn open() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let way = Self(Arc::default());
        let own = way.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                own.lead(client.unwrap());
            }
        });
        (way, address)
    }

    fn lead(&self, client: TcpStream) {
        let mut state = self.0.lock().unwrap();
        let Some(server) = state.0.and_then(|address| TcpStream::connect(address).ok()) else { return };
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || {
                // Either side may close the connection.
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        state.1.extend([client, server]);
    }

    /// Forwards to this server from now on; existing connections break.
    fn set(&self, server: Option<SocketAddr>) {
        let mut state = self.0.lock().unwrap();
        state.0 = server;
        for connection in state.1.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn tail_reconnects_and_shows_missed_lines_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let setup = Setup::new(store.to_str().unwrap(), folder.path());
    let (way, address) = Proxy::open();
    let server = setup.start();
    way.set(Some(server.address));
    let push = |server: &Server, names: &str, count: i64| {
        let now = now_ns();
        // Ten lines per timestamp.
        let line = |n: i64| (now + n / 10, format!("{names}{n}"));
        let lines: Vec<(i64, String)> = (0..count).map(line).collect();
        assert_eq!(server.push(&json!({"app": "a"}), &lines).unwrap().0, 204);
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_sandur"))
        .args(["tail", "--addr", &address.to_string(), "--since", "1h", "-o", "raw", "{app=\"a\"}"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut child = Ended(child);
    // Lines with the same timestamp have no order.
    let mut read = |count: usize| -> Vec<String> {
        let mut read: Vec<String> = (0..count).map(|_| lines.next().unwrap().unwrap()).collect();
        read.sort_by_key(|line| line.trim_start_matches(char::is_alphabetic).parse::<i64>().unwrap());
        read
    };
    let expected =
        |names: &str, count: i64| -> Vec<String> { (0..count).map(|n| format!("{names}{n}")).collect() };
    push(&server, "before", 50);
    assert_eq!(read(50), expected("before", 50));

    // More lines than a page of the query arrive while the tail is disconnected, some with the same
    // timestamp.
    server.kill();
    way.set(None);
    let server = setup.start();
    push(&server, "missed", 2_500);
    way.set(Some(server.address));
    assert_eq!(read(2_500), expected("missed", 2_500), "no line is lost or repeated");
    let mut said: Vec<String> = Vec::new();
    while said.last().is_none_or(|note| !note.contains("connected again")) {
        said.push(notes.next().unwrap().unwrap());
    }
    assert!(said[0].contains("may be missing until it is back"), "{said:?}");
    assert!(said.last().unwrap().contains("connected again: a query returned 2500 lines from "), "{said:?}");
    push(&server, "after", 30);
    assert_eq!(read(30), expected("after", 30), "no line is repeated after that");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
}

/// Runs a command whose standard output and error are pipes without readers.
fn into_closed_pipes(arguments: &[&str]) -> std::process::ExitStatus {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    let (stdout_reader, stdout) = std::io::pipe().unwrap();
    let (stderr_reader, stderr) = std::io::pipe().unwrap();
    drop((stdout_reader, stderr_reader));
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr).status().unwrap()
}

#[test]
fn no_command_panics_or_fails_when_its_reader_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let server = Setup::new(store, folder.path()).start();
    let address = format!("http://{}", server.address);
    let log = folder.path().join("a.log");
    let log = log.to_str().unwrap();
    log_file(Path::new(log), 0, 3_000);
    let to = |rest: &[&'static str]| [rest, &["--addr"]].concat();
    let reached = |arguments: &[&'static str], more: &[&str]| {
        into_closed_pipes(&[&to(arguments)[..], &[address.as_str()], more].concat())
    };
    let ended = [
        ("push", reached(&["push", "--label", "app=a"], &[log])),
        ("query", reached(&["query", "--limit", "3000", "{app=\"a\"}"], &[])),
        ("query -o json", reached(&["query", "-o", "json", "--limit", "3000", "{app=\"a\"}"], &[])),
    ];
    for (name, status) in ended {
        assert_eq!(status.code(), Some(0), "{name}");
    }
    let failing = reached(&["query"], &["{app="]);
    assert_eq!(failing.code(), Some(1), "a failure is still a failure");
    assert_eq!(server.terminate(), Some(0));

    let listed = out(&sandur(&["inspect", "--store", store, "blocks/"]));
    let block = listed.lines().find_map(|l| l.split_whitespace().nth(1)).unwrap().to_owned();
    let wal = out(&sandur(&["inspect", "--store", store, "wal/"]));
    let mut all: Vec<Vec<&str>> = vec![
        vec!["help"],
        vec!["--version"],
        vec!["push", "--help"],
        vec!["check", "--store", store],
        vec!["inspect", "--store", store, "blocks/"],
        vec!["inspect", "--store", store, &block, "--rows", "1000"],
        vec!["inspect", "--store", store, "catalog"],
        vec!["cache", "simulate", "--help"],
    ];
    all.extend(
        wal.lines().filter_map(|l| l.split_whitespace().nth(1)).map(|w| vec!["inspect", "--store", store, w]),
    );
    let pages = ["options", "commands", "http-api", "logql", "promql", "graphite", "memcached"];
    all.extend(pages.map(|page| vec!["docs", page]));
    for arguments in all {
        let before = sandur(&arguments).status.code();
        assert_eq!(before, Some(0), "{arguments:?}");
        assert_eq!(into_closed_pipes(&arguments).code(), before, "{arguments:?}");
    }
    assert_eq!(into_closed_pipes(&["check", "--store", "/no/such"]).code(), Some(1));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    let output = command.args(["docs", "options"]).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("cannot write the output"), "{}", err(&output));
}
