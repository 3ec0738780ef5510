//! The long suites. They run tests of `cargo xtask test` with more kills or more seeds.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, run, with_tools};
use crate::rivals;
use crate::s3::TestBucket;

/// `cargo xtask crash --kills N`: kills the real binary N times on each kind of store.
pub fn crash(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments, &["--kills", "--seed"])?;
    rivals::ensure(&["versitygw"])?;
    let server = TestBucket::start()?;
    let mut command = process_tests(&["crash::"]);
    command.env("SANDUR_CRASH_KILLS", options.get("--kills").unwrap_or("500"));
    if let Some(seed) = options.get("--seed") {
        command.env("SANDUR_CRASH_SEED", seed);
    }
    server.apply(&mut command);
    run(&mut command)
}

/// Makes, kills and restores N backups with the real binary on each kind of store: `--rounds N`.
pub fn backups(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments, &["--rounds"])?;
    rivals::ensure(&["versitygw"])?;
    let server = TestBucket::start()?;
    let mut command = process_tests(&["backup::"]);
    command.env("SANDUR_BACKUP_ROUNDS", options.get("--rounds").unwrap_or("20"));
    server.apply(&mut command);
    run(&mut command)
}

/// `cargo xtask clients`: runs the real binary with common clients, including those that take long to
/// build. `cargo xtask test` runs the same tests with the clients that are installed.
pub fn clients(arguments: &[String]) -> Result<()> {
    Options::parse(arguments, &[])?;
    rivals::ensure(rivals::FOR_TESTS)?;
    rivals::ensure(rivals::LARGE_CLIENTS)?;
    let server = TestBucket::start()?;
    let mut command = process_tests(&["clients::", "documentation::", "logcli::", "promtool::"]);
    with_tools(&mut command);
    server.apply(&mut command);
    run(&mut command)
}

/// Returns a command for the tests of the real binary whose names contain one of `names`.
fn process_tests(names: &[&str]) -> Command {
    let mut command = cargo();
    command.args(["test", "--package", "sandur-server", "--test", "it", "--", "--nocapture"]);
    command.args(names);
    command
}

/// `cargo xtask sim --seeds N` or `--seed N`: runs the optimised simulation. Unless one seed is
/// repeated, it also runs the long comparison of the step cache with fresh caches.
pub fn sim(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| argument == "--backups") {
        return copies(arguments);
    }
    let options = Options::parse(arguments, &["--seeds", "--seed", "--first", "--scenario"])?;
    run_simulation(arguments)?;
    if options.get("--seed").is_some() {
        return Ok(());
    }
    let mut kept = cargo();
    kept.args(["test", "--release", "--package", "sandur-sim", "--test", "it"]);
    run(kept.args(["--", "step_cache", "--ignored"]))
}

/// `--fleet N`: runs N seeds of many nodes that are wrong about each other, with optimised code.
pub fn fleet(arguments: &[String]) -> Result<()> {
    Options::parse(arguments, &["--fleet", "--first", "--nodes"])?;
    run_simulation(arguments)
}

/// `--damage N`: applies N kinds of damage to copied stores; `--backups N`: makes and restores backups in N
/// seeds. With optimised code.
pub fn copies(arguments: &[String]) -> Result<()> {
    Options::parse(arguments, &["--damage", "--backups", "--first"])?;
    run_simulation(arguments)
}

fn run_simulation(arguments: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--release", "--package", "sandur-sim", "--"]).args(arguments);
    run(&mut command)
}

/// `cargo xtask conformance logql PATH...`: runs scripts of queries and answers on every kind of
/// storage.
pub fn conformance(arguments: &[String]) -> Result<()> {
    if arguments.first().is_some_and(|suite| suite == "memcached") {
        return crate::memcached::conformance(&arguments[1..]);
    }
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-conformance", "--"]);
    for argument in arguments {
        // Paths are relative to the caller's directory, which need not be the root.
        let absolute = std::path::absolute(argument).ok().filter(|path| path.exists());
        command.arg(absolute.unwrap_or_else(|| argument.into()));
    }
    run(&mut command)
}

/// Options of the form `--name value`.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    fn parse(arguments: &'a [String], known: &[&str]) -> Result<Self> {
        let mut pairs = Vec::new();
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            if !known.contains(&name.as_str()) {
                bail!("unknown option '{name}'; known: {}", known.join(", "));
            }
            let value = rest.next().with_context(|| format!("{name} needs a value"))?;
            pairs.push((name.as_str(), value.as_str()));
        }
        Ok(Self(pairs))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }
}
