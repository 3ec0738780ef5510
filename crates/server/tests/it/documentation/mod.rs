//! Goal: the examples of the documentation work, and the names in it exist.
//!
//! Method: every block of the pages is one of these: commands of Sandur, which run against a real server
//! in a temporary folder; configurations of Sandur, with which a program is started; queries, which the
//! server answers; files of rules and of their tests, which are checked and run; or something of another
//! program, which is listed in [`OTHERS`] or [`EXPLAINED`] with what it was checked against. Names of
//! options, flags, metrics and routes are looked up in the reference pages, which are generated from the
//! tables of the program, and in the metrics of a server.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

mod names;
mod packaging;
mod pages;
mod place;
mod shell;

use std::collections::BTreeSet;

use pages::{Block, file, pages};
use place::{Place, parse};
use shell::{Call, lines, pipeline};

/// Other programs, and what their command lines were checked against.
const OTHERS: &[(&str, &str)] = &[
    ("apt", "the manual of apt 2.6"),
    ("curl", "curl's manual; the route is checked"),
    ("helm", "the help of helm 3.22; `cargo xtask helm` renders the chart with these values"),
    ("journalctl", "the manual of systemd 252"),
    ("kubectl", "the documentation of Kubernetes 1.34"),
    ("logcli", "the help of logcli 3.7, which `cargo xtask clients` builds"),
    ("lokitool", "the sources of lokitool 3.7"),
    ("mc", "the documentation of MinIO's client"),
    ("amtool", "a run of amtool 0.35, which is not among the programs of the tests"),
    ("mimirtool", "the sources of mimirtool; its client has the same options as lokitool"),
    ("oauth2-proxy", "the documentation of oauth2-proxy 7.14"),
    ("systemctl", "the manual of systemd 252"),
];

/// Blocks for other programs: page, a part of the block, and why it is right.
const EXPLAINED: &[(&str, &str, &str)] = &[
    ("docs/clients.md", "// config.alloy", "Alloy's; checked against the reference of its components"),
    ("docs/clients.md", "# otel-collector.yaml", "`cargo xtask snippets` runs a collector with it"),
    ("docs/clients.md", "# prometheus.yml", "`cargo xtask snippets` runs Prometheus with it"),
    ("docs/clients.md", "# vector.yaml", "Vector's; checked against the sources of its sinks"),
    ("docs/clients.md", "# fluent-bit.yaml", "Fluent Bit's; checked against the manual of Fluent Bit 4.2"),
    ("docs/clients.md", "# promtail.yaml", "Promtail's; checked against its reference"),
    (
        "docs/clients.md",
        "OTEL_SERVICE_NAME=shop",
        "variables of OpenTelemetry's specification; tried in Python",
    ),
    (
        "docs/production.md",
        "remote_write:",
        "Prometheus's; `packaging` reads it, and promtool where it is built",
    ),
    ("docs/production.md", "upstreams:", "carbonapi's; `cargo xtask` starts carbonapi with the same form"),
    ("docs/scraping.md", "kind: ClusterRole", "Kubernetes'; checked against its reference of RBAC"),
    ("docs/security.md", "exporters:", "the collector's; checked against the documentation of its exporter"),
    (
        "docs/security.md",
        "server_name logs.example.org",
        "nginx's; checked against oauth2-proxy's documentation",
    ),
    ("docs/security.md", "basic_auth {", "Caddy's; checked against the documentation of Caddy 2"),
    ("docs/reference/query-log.md", "caller=metrics.go", "a line of a log, without its end"),
];

#[test]
fn every_example_of_the_documentation_works() {
    let place = Place::new();
    let mut explained = BTreeSet::new();
    let mut ran = 0;
    for page in pages() {
        for block in page.blocks() {
            let reason =
                EXPLAINED.iter().position(|(name, part, _)| page.name == *name && block.text.contains(part));
            match reason {
                Some(number) => assert!(explained.insert(number), "{}: explained twice", block.place),
                None => ran += try_block(&place, &block),
            }
        }
    }
    assert_eq!(explained.len(), EXPLAINED.len(), "some explained blocks no longer exist: {explained:?}");
    println!("{ran} commands, configurations and queries");
    assert!(ran > 50, "{ran} are too few: the pages are not parsed correctly");
}

/// Number of examples in the block.
fn try_block(place: &Place, block: &Block) -> usize {
    match block.language.as_str() {
        "" | "console" | "sh" => lines(&block.text).iter().map(|line| try_line(place, block, line)).sum(),
        "text" => {
            let examples = block.text.lines().map(|line| line.trim().trim_start_matches("Example: "));
            let ours: Vec<&str> = examples.filter(|line| line.starts_with("sandur ")).collect();
            ours.iter().for_each(|line| parse(&block.place, &pipeline(line)[0]));
            ours.len()
        }
        "toml" => try_configuration(place, block),
        "carbon-c-relay" => {
            place.write("block.conf", &block.text);
            let form = block.language.as_str();
            let words = ["sandur", "relay", "--config", "block.conf", "--format", form, "--check"];
            place.run(&block.place, &call(&words));
            1
        }
        "yaml" if block.text.contains("scrape_configs:") => {
            place.write("scrapes.yml", &block.text);
            place.run(&block.place, &call(&["sandur", "serve", "--scrape-config", "scrapes.yml"]));
            1
        }
        "yaml" => {
            place.write("block.yml", &block.text);
            // A file of unit tests, or of rules.
            let command = if block.text.starts_with("rule_files:") { "test" } else { "check" };
            place.run(&block.place, &call(&["sandur", "rules", command, "block.yml"]));
            1
        }
        "logql" | "promql" => {
            let statements = statements(&block.text);
            for statement in &statements {
                let words = ["sandur", "query", &format!("--{}", block.language), statement];
                place.run(&block.place, &call(&words));
            }
            statements.len()
        }
        "json" => {
            let read = serde_json::from_str::<serde_json::Value>(&block.text);
            assert!(read.is_ok(), "{}: {read:?}", block.place);
            1
        }
        other => panic!("{}: a block of '{other}' is not checked; explain it in EXPLAINED", block.place),
    }
}

fn try_line(place: &Place, block: &Block, line: &str) -> usize {
    let mut ran = 0;
    for command in pipeline(line) {
        match command.program() {
            "sandur" => {
                place.run(&block.place, &command);
                ran += 1;
            }
            "make" => {
                let target = format!("\n{}:", command.words[1]);
                assert!(file("Makefile").contains(&target), "{}: {line}", block.place);
            }
            "cargo" => assert_cargo(&block.place, &command),
            // Its commands run in `packaging`.
            "podman" => assert!(file("packaging/Containerfile").contains(line), "{}: {line}", block.place),
            program => {
                let is_known = OTHERS.iter().any(|(name, _)| *name == program);
                assert!(is_known, "{}: '{program}' is not checked: {line}", block.place);
            }
        }
    }
    ran
}

/// Checks that chores, profiles and packages exist.
fn assert_cargo(at: &str, command: &Call) {
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    if let ["cargo", "xtask", chore, ..] = words[..] {
        assert!(file("xtask/src/main.rs").contains(&format!("\"{chore}\"")), "{at}: no chore '{chore}'");
    }
    for pair in words.windows(2) {
        match pair {
            ["--profile", name] => {
                assert!(file("Cargo.toml").contains(&format!("[profile.{name}]")), "{at}: {name}")
            }
            ["-p" | "--package", name] if *name != "CRATE" => {
                let manifest = format!("crates/{}/Cargo.toml", name.trim_start_matches("sandur-"));
                assert!(file(&manifest).contains(&format!("name = \"{name}\"")), "{at}: no package {name}");
            }
            _ => {}
        }
    }
}

/// Starts the program with the configuration.
fn try_configuration(place: &Place, block: &Block) -> usize {
    let text = block.text.replace("…64 hex digits…", &"0".repeat(64));
    let text = text.replace("$2y$10$…", &place.password_hash());
    let text = text.replace("s3://logs/prod?region=eu-west-1", "./of-a-block");
    // Words in quotes, so that listen addresses get free ports.
    let words: Vec<String> = text.split('"').map(Place::adapt_address).collect();
    let text = words.join("\"");
    place.write("block.toml", &text);
    let is_relay = text.contains("[[stage]]");
    let option = match text.trim_start() {
        text if text.starts_with("[tokens.") => "--auth-file",
        text if text.starts_with("[overrides.") => "--limits-file",
        _ if is_relay && text.contains("sandur:") => "--relay-config",
        _ => "--config",
    };
    let words = match is_relay && option == "--config" {
        true => vec!["sandur", "relay", option, "block.toml", "--check"],
        false if is_relay => vec!["sandur", "serve", option, "block.toml", "--insecure-listen"],
        false => vec!["sandur", "serve", option, "block.toml"],
    };
    place.run(&block.place, &call(&words));
    1
}

/// The queries of a block: an indented line continues the one before.
fn statements(text: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match statements.last_mut().filter(|_| line.starts_with(' ')) {
            Some(statement) => *statement += line,
            None => statements.push(line.to_owned()),
        }
    }
    statements
}

fn call(words: &[&str]) -> Call {
    Call { words: words.iter().map(|&word| word.to_owned()).collect(), ..Call::default() }
}

#[test]
fn every_command_in_running_text_is_accepted_by_the_program() {
    let mut parsed = 0;
    for page in pages() {
        for (at, span) in page.spans() {
            let command = pipeline(span).into_iter().find(|call| call.program() == "sandur");
            // `sandur-store` is not a command, and neither is `sandur` alone.
            if let Some(command) = command.filter(|command| command.words.len() > 1) {
                parse(&at, &command);
                parsed += 1;
            }
        }
    }
    assert!(parsed > 30, "{parsed} are too few: the pages are not parsed correctly");
}

#[test]
fn logcli_accepts_the_options_in_the_documentation() {
    let Ok(help) = std::process::Command::new("logcli").args(["help", "query"]).output() else {
        return eprintln!("skipped: there is no logcli (`cargo xtask clients` builds it)");
    };
    let help = [help.stdout, help.stderr].concat();
    let help = String::from_utf8_lossy(&help);
    let mut looked_at = 0;
    for page in pages() {
        for block in page.blocks() {
            let calls = lines(&block.text).into_iter().flat_map(|line| pipeline(&line));
            for call in calls.filter(|call| call.program() == "logcli") {
                for flag in call.words.iter().filter(|word| word.starts_with("--")) {
                    assert!(help.contains(flag.as_str()), "{}: {flag}", block.place);
                    looked_at += 1;
                }
            }
        }
    }
    assert!(looked_at > 5, "{looked_at} are too few: the pages are not parsed correctly");
}
