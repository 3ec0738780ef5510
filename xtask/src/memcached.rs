//! `cargo xtask conformance memcached PATH [--program FILE] [GROUP|TEST...]`: runs memcached's own tests
//! on our server.
//!
//! PATH is a checkout of memcached, which is not changed: its `t/` and `doc/` are copied to
//! `target/conformance`, and our program is put there as the `memcached-debug` that the tests start.
//! `--program` uses another program instead: with a real memcached it shows which tests can pass on this
//! machine. Tests that cannot pass are listed with the reason in docs/reference/memcached.md; any other
//! failure makes the command fail.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, require, root, run};

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

/// Tests of the server's options and operation.
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

/// Time limit of a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Time limit of a test that has a waiver.
const WAIVED_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Passed {
        checks: usize,
    },
    /// The test reports that it does not apply.
    Skipped(String),
    Failed(String),
}

/// The program and the tests to run.
struct Plan {
    checkout: PathBuf,
    /// The program to run instead of our server.
    program: Option<PathBuf>,
    /// Names of groups and tests; all if empty.
    named: Vec<String>,
}

impl Plan {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut plan = Self { checkout: PathBuf::new(), program: None, named: Vec::new() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if word == "--program" {
                let file = words.next().context("--program needs the path of a program")?;
                plan.program = Some(fs::canonicalize(file).with_context(|| format!("no program at {file}"))?);
            } else if plan.checkout.as_os_str().is_empty() {
                plan.checkout =
                    fs::canonicalize(word).with_context(|| format!("no checkout of memcached at {word}"))?;
            } else {
                plan.named.push(word.clone());
            }
        }
        if !plan.checkout.join("t/lib/MemcachedTest.pm").is_file() {
            bail!(
                "conformance memcached PATH [--program FILE] [GROUP|TEST...]: PATH is a checkout of \
                 memcached, with its t/lib/MemcachedTest.pm"
            );
        }
        let is_known = |name: &String| {
            GROUPS.iter().any(|(group, tests)| group == name || tests.contains(&name.as_str()))
        };
        if let Some(unknown) = plan.named.iter().find(|name| !is_known(name)) {
            bail!(
                "'{unknown}' is neither a group (A, B, C, E) nor a test that a cache without slabs can pass"
            );
        }
        Ok(plan)
    }

    fn wants(&self, group: &str, test: &str) -> bool {
        self.named.is_empty() || self.named.iter().any(|name| name == group || name == test)
    }
}

/// Runs the groups or tests named after the path, or all of them.
pub fn conformance(arguments: &[String]) -> Result<()> {
    let plan = Plan::parse(arguments)?;
    require("perl", "the tests are written in it")?;
    if !ssl_for_perl() {
        println!("IO::Socket::SSL is missing (Debian: libio-socket-ssl-perl): the ssl_ tests will fail\n");
    }
    let place = prepare(&plan)?;
    // another program must pass without waivers
    let waivers = if plan.program.is_some() { BTreeMap::new() } else { waivers()? };
    let mut unexpected = Vec::new();
    let mut summary = String::new();
    for (group, tests) in GROUPS {
        let mut tally = Tally::default();
        for test in tests.iter().filter(|test| plan.wants(group, test)) {
            let waiver = waivers.get(*test);
            let verdict =
                run_test(&place, test, if waiver.is_some() { WAIVED_TIMEOUT } else { TEST_TIMEOUT })?;
            if matches!(verdict, Verdict::Failed(_)) && waiver.is_none() {
                unexpected.push(*test);
            }
            tally.count(&verdict, waiver.is_some());
            print(group, test, &verdict, waiver);
        }
        if tally.run > 0 {
            summary += &format!("group {group}: {tally}\n");
        }
    }
    println!("\n{summary}");
    if unexpected.is_empty() { Ok(()) } else { bail!("failed without a waiver: {}", unexpected.join(", ")) }
}

/// The numbers of results of a group of tests.
#[derive(Default)]
struct Tally {
    run: usize,
    passed: usize,
    skipped: usize,
    waived: usize,
}

impl Tally {
    fn count(&mut self, verdict: &Verdict, is_waived: bool) {
        self.run += 1;
        match verdict {
            Verdict::Passed { .. } => self.passed += 1,
            Verdict::Skipped(_) => self.skipped += 1,
            Verdict::Failed(_) => self.waived += usize::from(is_waived),
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let failed = self.run - self.passed - self.skipped - self.waived;
        write!(f, "{} of {} passed", self.passed, self.run)?;
        for (count, what) in
            [(self.skipped, "skipped themselves"), (self.waived, "waived"), (failed, "FAILED")]
        {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

fn ssl_for_perl() -> bool {
    let mut perl = Command::new("perl");
    perl.args(["-MIO::Socket::SSL", "-e", "1"]).stderr(Stdio::null());
    perl.status().is_ok_and(|status| status.success())
}

fn print(group: &str, test: &str, verdict: &Verdict, waiver: Option<&String>) {
    match (verdict, waiver) {
        (Verdict::Passed { checks }, _) => println!("{group} {test:<24} passed ({checks} checks)"),
        (Verdict::Skipped(why), _) => println!("{group} {test:<24} does not apply: {why}"),
        (Verdict::Failed(_), Some(why)) => println!("{group} {test:<24} waived: {why}"),
        (Verdict::Failed(why), None) => println!("{group} {test:<24} FAILED: {why}"),
    }
}

/// Copies the tests to a folder of their own and puts the program there.
fn prepare(plan: &Plan) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let source = match &plan.program {
        Some(program) => program.clone(),
        None => {
            let build = ["build", "-p", "sandur-memcached", "--example", "memcached", "--features", "tls"];
            run(cargo().args(build))?;
            target.join("debug/examples/memcached")
        }
    };
    let place = target.join("conformance/memcached");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    for folder in ["t", "doc"] {
        copy_folder(&plan.checkout.join(folder), &place.join(folder))?;
    }
    fs::copy(source, place.join("memcached-debug"))?;
    // memcached's timedrun ends a server that hangs; here the time limit of the test does that
    let timedrun = place.join("timedrun");
    fs::write(&timedrun, "#!/bin/sh\nshift\nexec \"$@\"\n")?;
    fs::set_permissions(&timedrun, fs::Permissions::from_mode(0o755))?;
    Ok(place)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Reads the table of waivers: rows of `| NAME.t | why |`.
fn waivers() -> Result<BTreeMap<String, String>> {
    let page = fs::read_to_string(root().join("docs/reference/memcached.md"))?;
    let rows = page.lines().filter_map(|line| {
        let (name, why) = line.strip_prefix("| `")?.split_once(".t` | ")?;
        Some((name.to_owned(), why.trim_end_matches([' ', '|']).to_owned()))
    });
    Ok(rows.collect())
}

#[allow(clippy::disallowed_methods)] // waiting for another program, outside the product
fn run_test(path: &Path, test: &str, patience: Duration) -> Result<Verdict> {
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
        // servers that a test leaves running are ended with its process group
        .process_group(0)
        .spawn()
        .context("perl cannot be started")?;
    let group = child.id();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if started.elapsed() > patience {
            end_group(group);
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    end_group(group);
    let text = fs::read(&log)?;
    let _ = fs::remove_file(&log);
    let Some(status) = status else {
        return Ok(Verdict::Failed(format!("not done after {} s", patience.as_secs())));
    };
    Ok(judge(&String::from_utf8_lossy(&text), status.success()))
}

/// Kills all remaining processes of a group.
fn end_group(group: u32) {
    let group = format!("-{group}");
    // usually no process remains, and then kill prints an error
    let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
}

fn log_file(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("conformance-{}-{test}", std::process::id()))
}

/// Reads the output of a test (the Test Anything Protocol).
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
    fn a_tally_shows_the_tests_that_did_not_pass() {
        let mut tally = Tally::default();
        tally.count(&Verdict::Passed { checks: 3 }, false);
        assert_eq!(tally.to_string(), "1 of 1 passed");
        tally.count(&Verdict::Skipped("flaky".to_owned()), false);
        tally.count(&Verdict::Failed("1 of 2".to_owned()), true);
        tally.count(&Verdict::Failed("1 of 2".to_owned()), false);
        assert_eq!(tally.to_string(), "1 of 4 passed, 1 skipped themselves, 1 waived, 1 FAILED");
    }

    #[test]
    fn verdicts_follow_the_output() {
        assert_eq!(judge("1..2\nok 1\nok 2 - fine\n", true), Verdict::Passed { checks: 2 });
        assert_eq!(judge("1..0 # SKIP flaky\n", true), Verdict::Skipped("flaky".to_owned()));
        assert!(matches!(judge("ok 1\nnot ok 2 - bad\n", false), Verdict::Failed(_)));
        assert!(matches!(judge("ok 1\n", false), Verdict::Failed(_)));
    }
}
