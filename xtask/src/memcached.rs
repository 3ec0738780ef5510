//! `cargo xtask conformance memcached PATH`: memcached's own tests against our server.
//!
//! PATH is a checkout of memcached. Its tests start `memcached-debug` beside `t/`: our program is put
//! there, with a `timedrun` that starts it. Tests that cannot pass are listed with the reason in
//! docs/reference/memcached.md; any other failure fails the command.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{require, root, run};

/// Tests of the protocol.
const PROTOCOL: &[&str] = &[
    "bogus-commands",
    "cas",
    "expirations",
    "flags",
    "flush-all",
    "getandtouch",
    "getset",
    "incrdecr",
    "issue_3",
    "issue_14",
    "issue_22",
    "issue_29",
    "issue_41",
    "issue_42",
    "issue_61",
    "issue_67",
    "issue_68",
    "issue_70",
    "issue_104",
    "issue_108",
    "issue_140",
    "issue_152",
    "issue_163",
    "issue_192",
    "issue_260",
    "line-lengths",
    "malicious-commands",
    "metaget",
    "multiversioning",
    "noreply",
    "quit",
    "touch",
    "strtol-testing",
    "stats",
    "stats-detail",
    "64bit",
];

/// Tests of the server around it.
const SERVER: &[&str] = &[
    "00-startup",
    "ascii-auth",
    "ascii-auth2",
    "daemonize",
    "idle-timeout",
    "maxconns",
    "conn-limits",
    "item_size_max",
    "chunked-items",
    "evictions",
    "dash-M",
    "dyn-maxbytes",
    "shutdown",
    "stats-conns",
    "udp",
    "unixsocket",
    "watcher",
    "watcher_connid",
    "ssl_cert_refresh",
    "ssl_ports",
    "ssl_proto_version",
    "ssl_session_resumption",
    "ssl_settings",
    "ssl_verify_modes",
    "restart",
    "misbehave",
    "refhang",
];

/// Tests of the binary protocol.
const BINARY: &[&str] = &["binary", "binary-get", "binary-sasl", "issue_50", "issue_183", "binary-extstore"];

/// Tests of the flash tier.
const FLASH: &[&str] = &[
    "extstore",
    "extstore-buckets",
    "extstore-cas",
    "extstore-jbod",
    "extstore-overdel",
    "extstore-tiered",
    "extstore-tiered2",
    "chunked-extstore",
    "error-extstore",
    "extstore-start",
];

const GROUPS: &[(&str, &[&str])] = &[("A", PROTOCOL), ("B", SERVER), ("C", BINARY), ("E", FLASH)];

/// How long one test may take.
const TEST_TIMEOUT: Duration = Duration::from_secs(180);

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed {
        checks: usize,
    },
    /// The test says that it does not apply.
    Skipped(String),
    Failed(String),
}

/// Runs the groups or tests that are named after the path, or all of them.
pub fn conformance(arguments: &[String]) -> Result<()> {
    let Some((path, named)) = arguments.split_first() else {
        bail!("conformance memcached PATH [GROUP|TEST...]: PATH is a checkout of memcached");
    };
    let path = fs::canonicalize(path).with_context(|| format!("no checkout of memcached at {path}"))?;
    require("perl", "the tests are written in it")?;
    prepare(&path)?;
    let waivers = waivers()?;
    let mut unexpected = Vec::new();
    for (group, tests) in GROUPS {
        let mut passed = 0;
        let wanted = |test: &&&str| named.is_empty() || named.iter().any(|n| n == *group || n == **test);
        let tests: Vec<&&str> = tests.iter().filter(wanted).collect();
        for test in &tests {
            let verdict = run_test(&path, test)?;
            let waiver = waivers.get(**test);
            match (&verdict, waiver) {
                (Verdict::Failed(_), None) => unexpected.push(**test),
                (Verdict::Failed(_), Some(_)) => {}
                _ => passed += 1,
            }
            print(group, test, &verdict, waiver);
        }
        if !tests.is_empty() {
            println!("group {group}: {passed} of {}\n", tests.len());
        }
    }
    if unexpected.is_empty() { Ok(()) } else { bail!("failed without a waiver: {}", unexpected.join(", ")) }
}

fn print(group: &str, test: &str, verdict: &Verdict, waiver: Option<&String>) {
    match (verdict, waiver) {
        (Verdict::Passed { checks }, _) => println!("{group} {test:<24} passed ({checks} checks)"),
        (Verdict::Skipped(why), _) => println!("{group} {test:<24} does not apply: {why}"),
        (Verdict::Failed(_), Some(why)) => println!("{group} {test:<24} waived: {why}"),
        (Verdict::Failed(why), None) => println!("{group} {test:<24} FAILED: {why}"),
    }
}

/// Puts our program where the tests look for theirs.
fn prepare(path: &Path) -> Result<()> {
    if !path.join("t/lib/MemcachedTest.pm").is_file() {
        bail!("{} has no t/lib/MemcachedTest.pm: it is no checkout of memcached", path.display());
    }
    let mut build = Command::new(env!("CARGO"));
    build.current_dir(root()).args([
        "build",
        "-p",
        "sandur-cache",
        "--example",
        "memcached",
        "--features",
        "tls",
    ]);
    run(&mut build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let program = path.join("memcached-debug");
    // a running program cannot be written to, but its name can be given to another
    let _ = fs::remove_file(&program);
    fs::copy(target.join("debug/examples/memcached"), &program)?;
    let timedrun = path.join("timedrun");
    let _ = fs::remove_file(&timedrun);
    fs::write(&timedrun, "#!/bin/sh\nshift\nexec \"$@\"\n")?;
    fs::set_permissions(&timedrun, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The table of waivers: rows of `| NAME.t | why |`.
fn waivers() -> Result<BTreeMap<String, String>> {
    let page = fs::read_to_string(root().join("docs/reference/memcached.md"))?;
    let rows = page.lines().filter_map(|line| {
        let (name, why) = line.strip_prefix("| `")?.split_once(".t` | ")?;
        Some((name.to_owned(), why.trim_end_matches([' ', '|']).to_owned()))
    });
    Ok(rows.collect())
}

#[allow(clippy::disallowed_methods)] // waiting for another program, outside the product
fn run_test(path: &Path, test: &str) -> Result<Verdict> {
    if !path.join(format!("t/{test}.t")).is_file() {
        return Ok(Verdict::Skipped("this version of memcached does not have it".to_owned()));
    }
    let log = log_file(test);
    let mut command = Command::new("perl");
    command.current_dir(path).args(["-It/lib", &format!("t/{test}.t")]);
    if test.starts_with("ssl_") {
        command.env("SSL_TEST", "1");
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(fs::File::create(&log)?)
        .stderr(Stdio::null())
        .spawn()
        .context("perl cannot be started")?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > TEST_TIMEOUT {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = fs::read(&log)?;
    let _ = fs::remove_file(&log);
    let Some(status) = status else {
        return Ok(Verdict::Failed(format!("not done after {} s", TEST_TIMEOUT.as_secs())));
    };
    Ok(judge(&String::from_utf8_lossy(&text), status.success()))
}

fn log_file(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("conformance-{}-{test}", std::process::id()))
}

/// Reads what a test printed (the Test Anything Protocol).
fn judge(text: &str, ended_well: bool) -> Verdict {
    if let Some(line) = text.lines().find(|line| line.starts_with("1..0")) {
        let why = line.split_once('#').map_or("", |(_, why)| why);
        return Verdict::Skipped(why.trim().trim_start_matches("SKIP").trim().to_owned());
    }
    let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("not ok")).collect();
    let checks = text.lines().filter(|line| line.starts_with("ok ")).count();
    match failed.first() {
        Some(first) => Verdict::Failed(format!("{} of {}: {first}", failed.len(), failed.len() + checks)),
        None if !ended_well => Verdict::Failed(format!("it ended early, after {checks} checks")),
        None => Verdict::Passed { checks },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_what_was_printed() {
        assert_eq!(judge("1..2\nok 1\nok 2 - fine\n", true), Verdict::Passed { checks: 2 });
        assert_eq!(judge("1..0 # SKIP flaky\n", true), Verdict::Skipped("flaky".to_owned()));
        assert!(matches!(judge("ok 1\nnot ok 2 - bad\n", false), Verdict::Failed(_)));
        assert!(matches!(judge("ok 1\n", false), Verdict::Failed(_)));
    }
}
