//! Test binaries: built by one call of cargo, run several at a time.
//!
//! Most tests wait for timers, disks and servers more than they compute, so binaries overlap: as many run at
//! once as there are processors. The output of each is printed whole when it ends, so that it can be read.
//!
//! Invariant: a binary that ends badly counts as a failure even if it said nothing. What one that crashed
//! said last, which names the test it died in, is among its failures.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::root;

/// A binary that cargo built of the tests of a crate or of a folder `tests`.
pub struct TestBinary {
    path: PathBuf,
    /// The folder of its package, where it is run.
    folder: PathBuf,
    /// What people know it by.
    name: String,
    /// Whether it has the tests that stand beside the code.
    pub is_unit: bool,
    bytes: u64,
}

/// Tests that passed and failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Passed.
    pub passed: u64,
    /// Failed, binaries that crashed included.
    pub failed: u64,
    /// What failed and what it said, to be shown behind everything: the end of a long log is what is read.
    pub failures: String,
}

impl Results {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures += &other.failures;
    }

    /// The sums of the `test result:` lines of what `name` printed, and its parts `failures:`.
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

    /// The results of a process that ended so: at least one failure if it ended badly. If no test failed,
    /// then the process died in one, and `errors`, what it wrote to stderr, says in which.
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

/// How many lines of a crashed process's stderr are repeated.
const LAST_WORDS: usize = 20;

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| format!("{line}\n")).collect()
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// How a build is made that runs once: what speeds up the next one, and what a debugger reads, takes a third
/// of the compiler's time, and crates that are optimised take less of it in few parts. Its artifacts stand
/// beside those of `cargo test`.
pub const BUILT_ONCE: [(&str, &str); 3] = [
    ("CARGO_INCREMENTAL", "0"),
    ("CARGO_PROFILE_TEST_DEBUG", "none"),
    ("CARGO_PROFILE_TEST_CODEGEN_UNITS", "4"),
];
/// How a build is made that is made again after each change.
pub const BUILT_OFTEN: [(&str, &str); 0] = [];

/// A crate that is optimised because others' tests call it: its own, which are many small ones, are built
/// without in a quarter of the time, which is more than they run longer.
const OPTIMISED_FOR_OTHERS: &str = "sandur-format";

/// Builds the test binaries of the workspace; the largest first, which is about the longest first.
pub fn build(how: &[(&str, &str)]) -> Result<Vec<TestBinary>> {
    let plain = format!("profile.test.package.{OPTIMISED_FOR_OTHERS}.opt-level=0");
    let mut binaries = built(&["--workspace", "--exclude", OPTIMISED_FOR_OTHERS], how)?;
    binaries.extend(built(&["--package", OPTIMISED_FOR_OTHERS, "--config", &plain], how)?);
    binaries.sort_by_key(|binary| std::cmp::Reverse(binary.bytes));
    Ok(binaries)
}

/// Builds the test binaries of some packages.
fn built(packages: &[&str], how: &[(&str, &str)]) -> Result<Vec<TestBinary>> {
    let mut command = Command::new(env!("CARGO"));
    command.envs(how.iter().copied());
    // Examples are measurements and generators of pages: `make check` sees that they compile.
    command.current_dir(root()).args(["test", "--lib", "--bins", "--tests", "--no-run"]).args(packages);
    command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = command.output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("the tests cannot be built, see above");
    }
    let messages = String::from_utf8(output.stdout).context("cargo's messages are no text")?;
    let mut binaries = Vec::new();
    for message in messages.lines() {
        let message: Value = serde_json::from_str(message).context("a message of cargo is no JSON")?;
        binaries.extend(binary_of(&message));
    }
    if binaries.is_empty() {
        bail!("cargo built no test binary");
    }
    Ok(binaries)
}

/// The test binary that a message of cargo tells of, if it does.
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

/// Runs binaries, prints what they print, and counts; `prepare` sets what their processes need.
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
            // A file, not a pipe: a server that a crashed test left behind would hold a pipe open for ever.
            let stderr = binary.path.with_extension("stderr");
            command.stderr(File::create(&stderr).with_context(|| stderr.display().to_string())?);
            let output = command.output().with_context(|| format!("{} cannot be started", binary.name))?;
            let text = String::from_utf8_lossy(&output.stdout);
            let errors = fs::read(&stderr).with_context(|| stderr.display().to_string())?;
            let errors = String::from_utf8_lossy(&errors);
            let results = Results::of_output(&binary.name, &text).ended(&binary.name, output.status, &errors);
            let mut sum = sum.lock().map_err(|_| anyhow::anyhow!("another lane panicked"))?;
            println!("     Running {}\n{text}{errors}", binary.name);
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
    fn only_artifacts_of_tests_are_run() {
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
