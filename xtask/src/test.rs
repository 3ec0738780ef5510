//! `cargo xtask test`: runs the complete test suite, as CI does. With `--quick`, runs the tests that
//! take a minute.
//!
//! Builds the tests and, in parallel, the peers that they need; starts a real S3 server on loopback;
//! runs several test binaries at a time ([`crate::test_binaries`]) and, in parallel, the examples in the
//! documentation; then checks the explorer and runs `tidy`. The last lines of the output are the failures,
//! then the sum: `N passed, N failed`.

#![allow(clippy::disallowed_methods)] // it measures programs outside the product

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use crate::process::{cargo, root, with_tools};
use crate::s3::TestBucket;
use crate::test_binaries::{self, BUILT_OFTEN, BUILT_ONCE, Results, TestBinary};
use crate::{rivals, tidy, web};

/// Number of cases of a property test. It replaces the number that a test sets. `cargo test` alone runs that
/// number or 256, `cargo xtask nightly` thousands.
const PROPERTY_CASES: &str = "64";

/// Runs all tests. `--quick` runs only unit tests and `tidy`, without peers, simulations and examples.
/// Other arguments choose tests as they do for `cargo test`.
pub fn run(arguments: &[String]) -> Result<()> {
    let results = match arguments {
        [] => whole()?,
        [only] if only == "--quick" => quick()?,
        chosen => selected(chosen)?,
    };
    print!("{}", results.failures);
    println!("{} passed, {} failed", results.passed, results.failed);
    if results.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn whole() -> Result<Results> {
    let binaries = thread::scope(|scope| {
        let peers = scope.spawn(|| rivals::ensure(rivals::FOR_TESTS));
        let start = Instant::now();
        let binaries = test_binaries::build(&BUILT_ONCE);
        println!("Built the test binaries in {} s", start.elapsed().as_secs());
        peers.join().map_err(|_| anyhow!("building the peers panicked"))??;
        binaries
    })?;
    let server = TestBucket::start()?;
    let mut results = thread::scope(|scope| {
        let examples = scope.spawn(|| examples(&server));
        let mut results = test_binaries::run_all(binaries, |command| {
            with_tools(command);
            server.apply(command);
            command.env("PROPTEST_CASES", PROPERTY_CASES);
        })?;
        results.add(examples.join().map_err(|_| anyhow!("running the examples panicked"))??);
        anyhow::Ok(results)
    })?;
    results.add(web::tested());
    results.add(tidied());
    Ok(results)
}

/// Runs the examples in the documentation of the crates that have some. The compiler reads a complete
/// crate to find its examples, which takes seconds for a large one.
fn examples(server: &TestBucket) -> Result<Results> {
    let crates = root().join("crates");
    let mut arguments = vec!["--doc".to_owned()];
    for file in tidy::sources()? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let is_fence = |line: &str| matches!(line.trim(), "//! ```" | "/// ```");
        let folder = file.strip_prefix(&crates).ok().and_then(|path| path.iter().next());
        if let (Some(folder), true) = (folder, text.lines().any(is_fence)) {
            let package = format!("--package=sandur-{}", folder.display());
            if !arguments.contains(&package) {
                arguments.push(package);
            }
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cargo_test(&arguments, &BUILT_ONCE, server)
}

fn quick() -> Result<Results> {
    let binaries: Vec<TestBinary> = test_binaries::build(&BUILT_OFTEN)?;
    let units = binaries.into_iter().filter(|binary| binary.is_unit).collect();
    let mut results = test_binaries::run_all(units, with_tools)?;
    results.add(tidied());
    Ok(results)
}

fn selected(arguments: &[String]) -> Result<Results> {
    rivals::ensure(rivals::FOR_TESTS)?;
    let server = TestBucket::start()?;
    let mut all = vec!["--workspace"];
    all.extend(arguments.iter().map(String::as_str));
    let mut results = cargo_test(&all, &BUILT_OFTEN, &server)?;
    results.add(tidied());
    Ok(results)
}

fn tidied() -> Results {
    match tidy::run(&[]) {
        Ok(()) => Results { passed: 1, ..Results::default() },
        Err(problems) => Results { failed: 1, failures: format!("{problems:#}\n"), ..Results::default() },
    }
}

/// Runs `cargo test` and prints its output.
fn cargo_test(arguments: &[&str], how: &[(&str, &str)], server: &TestBucket) -> Result<Results> {
    let mut command = cargo();
    // cargo's own output is shown during the build.
    command.args(["test", "--no-fail-fast"]).args(arguments).stderr(Stdio::inherit());
    command.envs(how.iter().copied());
    with_tools(&mut command);
    server.apply(&mut command);
    let output = command.output().context("cargo cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let name = format!("cargo test {}", arguments.join(" "));
    Ok(Results::of_output(&name, &text).ended(&name, output.status, ""))
}
