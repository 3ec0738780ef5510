//! `cargo xtask fuzz [--seconds N] [TARGET...]`: runs fuzz targets one after another.
//!
//! A target is a file in `fuzz/fuzz_targets`. The inputs in `fuzz/regressions` are run first. The corpus
//! that the fuzzer builds is stored in `fuzz/corpus`, which git ignores. A finding is written to
//! `fuzz/artifacts`: minimise it, fix the fault, and add the input to `fuzz/regressions`.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, require, root, run as run_command};

/// Default time for each target in seconds.
const SECONDS: u64 = 60;

/// Memory limit of a fuzzer in MiB. An input that exceeds it is a finding.
const MEMORY_MB: u64 = 2_048;

/// Runs the named targets, or all targets.
pub fn run(arguments: &[String]) -> Result<()> {
    require("cargo-fuzz", "install it with `cargo install cargo-fuzz`")?;
    let known = targets()?;
    let (mut seconds, mut chosen) = (SECONDS, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--seconds" {
            let value = rest.next().context("--seconds needs a number")?;
            seconds = value.parse().with_context(|| format!("--seconds {value}"))?;
        } else if known.contains(argument) {
            chosen.push(argument);
        } else {
            bail!("unknown target '{argument}'; known: {}", known.join(", "));
        }
    }
    if chosen.is_empty() {
        chosen = known.iter().collect();
    }
    for target in chosen {
        fuzz(target, seconds)?;
    }
    Ok(())
}

/// Returns the names of all targets, sorted.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let file = entry?.path();
        names.extend(file.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

fn fuzz(target: &str, seconds: u64) -> Result<()> {
    let corpus = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&corpus)?;
    let mut command = cargo();
    // Without a sanitizer, a stable compiler is sufficient. Overflow checks and assertions are enabled.
    command.args(["fuzz", "run", "--sanitizer", "none", target]).arg(corpus);
    command.arg(root().join("fuzz/regressions").join(target));
    command.args(["--", &format!("-max_total_time={seconds}"), &format!("-rss_limit_mb={MEMORY_MB}")]);
    command.args(["-timeout=10", "-print_final_stats=1", "-max_len=4096"]);
    run_command(&mut command)
}
