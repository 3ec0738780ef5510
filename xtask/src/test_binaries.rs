//! Builds all test binaries, then runs several of them at a time.
//!
//! Most tests wait for timers, disks and servers more than they compute, so as many binaries run at once
//! as there are processors. The output of each binary is printed, with its time, when the binary ends,
//! so that outputs do not mix.
//!
//! Invariants: a binary that ends with an error counts as a failure even if it printed nothing. The last
//! lines of stderr of a crashed binary, which name the test that crashed, are among its failures. A binary
//! that does not end is killed after [`DEADLINE`], and the tests that did not end are named.

#![allow(clippy::disallowed_methods)] // it measures programs outside the product

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::cargo;

/// A test binary that cargo built: the unit tests of a crate or a target of its `tests` folder.
pub struct TestBinary {
    path: PathBuf,
    /// The folder of its package, which is its working directory.
    folder: PathBuf,
    /// The name that is printed for it.
    name: String,
    /// Whether it contains the unit tests of a crate.
    pub is_unit: bool,
    bytes: u64,
}

impl TestBinary {
    /// Says which tests of a binary that was killed had not ended.
    fn unfinished(&self, output: &str) -> Result<String> {
        let listed = Command::new(&self.path).args(["--list", "--format=terse"]).output()?;
        let names = String::from_utf8_lossy(&listed.stdout);
        let names = unfinished(&names, output).join("\n");
        Ok(format!("killed after {} minutes; these tests had not ended:\n{names}\n", DEADLINE.as_secs() / 60))
    }
}

/// The numbers of tests that passed and failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Number of tests that passed.
    pub passed: u64,
    /// Number of tests that failed; a binary that crashed counts as one.
    pub failed: u64,
    /// The failed tests and their output. It is printed last, where it is found in a long log.
    pub failures: String,
}

impl Results {
    /// Adds other results.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures += &other.failures;
    }

    /// Reads the output of `name`: the sums of its `test result:` lines, and its `failures:` sections.
    pub fn of_output(name: &str, output: &str) -> Self {
        let mut results = Self::default();
        let mut is_failure = false;
        for line in output.lines() {
            if let Some(result) = line.strip_prefix("test result:") {
                results.passed += number_before(result, " passed");
                results.failed += number_before(result, " failed");
                is_failure = false;
            }
            if line == "failures:" && !is_failure {
                is_failure = true;
                results.failures += &format!("failed in {name}:\n");
            } else if is_failure {
                results.failures += line;
                results.failures.push('\n');
            }
        }
        results
    }

    /// Adds the end of a process: there is at least one failure if it ended with an error. If no test
    /// failed, the process crashed in a test, which `errors`, its output to stderr, names.
    pub fn ended(mut self, name: &str, status: ExitStatus, errors: &str) -> Self {
        if !status.success() {
            self.failures += &format!("{name} ended with {status}\n");
            if self.failed == 0 {
                self.failed = 1;
                self.failures += &last_lines(errors, LAST_WORDS);
            }
        }
        self
    }
}

/// Time after which a test binary is killed. Busy machines take several times longer than quiet ones, on
/// which the longest binary takes less than ten minutes.
const DEADLINE: Duration = Duration::from_secs(40 * 60);

/// Waits for a process; kills it at the deadline. Returns how it ended and whether it was killed.
fn wait(child: &mut Child, deadline: Instant) -> std::io::Result<(ExitStatus, bool)> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            return Ok((child.wait()?, true));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The tests of a binary of whose end `output` says nothing. `names` is what the binary lists.
fn unfinished<'a>(names: &'a str, output: &str) -> Vec<&'a str> {
    let ended: HashSet<&str> = output
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.split(" ... ").next())
        .map(|name| name.trim_end_matches(" - should panic"))
        .collect();
    let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
    names.filter(|name| !ended.contains(name)).collect()
}

/// Number of lines of a crashed process's stderr that are repeated.
const LAST_WORDS: usize = 20;

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| format!("{line}\n")).collect()
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Settings of a build that is used once. Files for incremental builds and debug information take a
/// third of the compiler's time, and optimised crates compile faster in few codegen units. The artifacts
/// are separate from those of `cargo test`.
pub const BUILT_ONCE: [(&str, &str); 3] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_TEST_DEBUG", "none"),
    ("CARGO_PROFILE_TEST_CODEGEN_UNITS", "4"),
];
/// Settings of a build that is repeated after each change.
pub const BUILT_OFTEN: [(&str, &str); 0] = [];

/// Binaries that run longest, in this order. Most other large binaries run longer than small ones.
const LONGEST: [&str; 7] = [
    "server it",
    "engine sandur_engine",
    "conformance it",
    "sim it",
    "conformance sandur_conformance",
    "format sandur_format",
    "cache-sim it",
];

/// A binary whose tests mostly wait for processes and intervals: it has two threads for each processor.
const WAITING: &str = "server it";

/// Builds the test binaries of the workspace. Those that run longest are first, so that at the end all
/// processors are busy until the last binaries end.
pub fn build(how: &[(&str, &str)]) -> Result<Vec<TestBinary>> {
    let mut binaries = built(how)?;
    binaries.sort_by_key(|binary| (place(&binary.name), Reverse(binary.bytes)));
    for name in LONGEST {
        if !binaries.iter().any(|binary| binary.name == name) {
            bail!("there is no test binary `{name}`: correct LONGEST in xtask/src/test_binaries.rs");
        }
    }
    Ok(binaries)
}

/// The place of a binary in [`LONGEST`].
fn place(name: &str) -> usize {
    LONGEST.iter().position(|known| *known == name).unwrap_or(LONGEST.len())
}

/// Builds the test binaries of the workspace, in no order.
fn built(how: &[(&str, &str)]) -> Result<Vec<TestBinary>> {
    let mut command = cargo();
    command.envs(how.iter().copied());
    // Examples are benchmarks and generators of pages; `make check` checks that they compile.
    command.args(["test", "--workspace", "--lib", "--bins", "--tests"]);
    command.arg("--no-run").arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("the tests cannot be built, see above");
    }
    let messages = String::from_utf8(output.stdout).context("cargo's messages are not UTF-8")?;
    let mut binaries = Vec::new();
    for message in messages.lines() {
        let message: Value = serde_json::from_str(message).context("a message of cargo is not JSON")?;
        binaries.extend(binary_of(&message));
    }
    if binaries.is_empty() {
        bail!("cargo built no test binary");
    }
    Ok(binaries)
}

/// Returns the test binary that a message of cargo announces, if any.
fn binary_of(message: &Value) -> Option<TestBinary> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let is_unit = message["target"]["kind"].as_array().is_none_or(|kinds| kinds.iter().all(|k| k != "test"));
    let target = message["target"]["name"].as_str().unwrap_or_default();
    let name = format!("{} {target}", folder.file_name()?.to_string_lossy());
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    Some(TestBinary { path, folder, name, is_unit, bytes })
}

/// Runs binaries, prints their output, and adds up the results. `prepare` sets the environment of their
/// processes.
pub fn run_all(binaries: Vec<TestBinary>, prepare: impl Fn(&mut Command) + Sync) -> Result<Results> {
    let lanes = thread::available_parallelism().map_or(1, usize::from);
    let waiting = Mutex::new(binaries.into_iter());
    let sum = Mutex::new(Results::default());
    let lane = || -> Result<()> {
        loop {
            let next = waiting.lock().map_err(|_| anyhow::anyhow!("another lane panicked"))?.next();
            let Some(binary) = next else { return Ok(()) };
            let mut command = Command::new(&binary.path);
            command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
            prepare(&mut command);
            if binary.name == WAITING {
                command.arg("--test-threads").arg((2 * lanes).to_string());
            }
            // Files, not pipes: a server that a failed test leaves running would hold a pipe open for ever.
            let [stdout, stderr] = ["stdout", "stderr"].map(|name| binary.path.with_extension(name));
            let file = |path: &Path| File::create(path).with_context(|| path.display().to_string());
            command.stdin(Stdio::null()).stdout(file(&stdout)?).stderr(file(&stderr)?);
            let start = Instant::now();
            let child = command.spawn().with_context(|| format!("{} cannot be started", binary.name));
            let (status, was_killed) = wait(&mut child?, start + DEADLINE)?;
            let seconds = start.elapsed().as_secs();
            let [text, mut errors] = [read(&stdout)?, read(&stderr)?];
            if was_killed {
                errors += &binary.unfinished(&text)?;
            }
            let results = Results::of_output(&binary.name, &text).ended(&binary.name, status, &errors);
            let mut sum = sum.lock().map_err(|_| anyhow::anyhow!("another lane panicked"))?;
            println!("     Ran {} in {seconds} s\n{text}{errors}", binary.name);
            sum.add(results);
        }
    };
    thread::scope(|scope| -> Result<()> {
        let running: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        for thread in running {
            thread.join().map_err(|_| anyhow::anyhow!("a lane panicked"))??;
        }
        Ok(())
    })?;
    sum.into_inner().map_err(|_| anyhow::anyhow!("a lane panicked"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_summed_and_a_crash_is_a_failure() {
        let output = "x\ntest result: ok. 3 passed; 0 failed; 1 ignored\n\
                      failures:\n\n---- a stdout ----\nleft: 1\n\nfailures:\n    a\n\n\
                      test result: FAILED. 2 passed; 4 failed; 0 ignored\nfailed\n";
        let results = Results::of_output("base it", output);
        assert_eq!((results.passed, results.failed), (5, 4));
        assert_eq!(
            results.failures,
            "failed in base it:\n\n---- a stdout ----\nleft: 1\n\nfailures:\n    a\n\n"
        );
        let (well, badly) = (ExitStatus::from_raw(0), ExitStatus::from_raw(101 << 8));
        let failed = results.ended("base it", badly, "no crash\n");
        assert_eq!(failed.failed, 4);
        assert!(!failed.failures.contains("no crash"));
        let overflow = "a line\n".repeat(LAST_WORDS) + "thread 'a::test' has overflowed its stack\n";
        let crashed = Results::of_output("base it", "").ended("base it", ExitStatus::from_raw(6), &overflow);
        assert_eq!((crashed.passed, crashed.failed), (0, 1));
        assert!(crashed.failures.starts_with("base it ended with"));
        assert!(crashed.failures.ends_with("a line\nthread 'a::test' has overflowed its stack\n"));
        assert_eq!(crashed.failures.lines().count(), 1 + LAST_WORDS);
        assert_eq!(Results::default().ended("base it", well, "said"), Results::default());
    }

    #[test]
    fn a_process_that_does_not_end_is_killed_and_its_tests_are_named() {
        let mut endless = Command::new("sleep").arg("100000").spawn().unwrap();
        let (status, was_killed) = wait(&mut endless, Instant::now()).unwrap();
        assert!(was_killed && status.signal() == Some(9));
        let mut short = Command::new("true").spawn().unwrap();
        let (status, was_killed) = wait(&mut short, Instant::now() + DEADLINE).unwrap();
        assert!(status.success() && !was_killed);
        let listed = "a::one: test\na::two: test\na::three: test\nb: test\nx: benchmark\n";
        let output = "test a::two ... ok\ntest a::three - should panic ... ok\n\
                      test a::one has been running for over 60 seconds\n";
        assert_eq!(unfinished(listed, output), ["a::one", "b"]);
    }

    #[test]
    fn only_test_artifacts_are_run() {
        let message = |test: bool, kind: &str| {
            json!({"reason": "compiler-artifact", "profile": {"test": test}, "executable": "/x/it-1",
                "manifest_path": "/w/crates/base/Cargo.toml", "target": {"name": "it", "kind": [kind]}})
        };
        assert!(binary_of(&message(false, "bin")).is_none());
        assert!(binary_of(&json!({"reason": "build-finished", "success": true})).is_none());
        let it = binary_of(&message(true, "test")).unwrap();
        assert!(!it.is_unit && it.name == "base it" && it.folder == std::path::Path::new("/w/crates/base"));
        assert!(binary_of(&message(true, "lib")).unwrap().is_unit);
    }
}
