//! `cargo xtask nightly [--fuzz-seconds N]`: everything that is too long for each change.
//!
//! Goes on after a failure, so that a night finds all there is to find, and ends with what failed.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{root, run as run_command};
use crate::{attack, fuzz, suites};

/// Seconds for each fuzz target when nothing else is said.
const FUZZ_SECONDS: &str = "1200";
/// Cases of a property that names no number of its own.
const PROPERTY_CASES: &str = "10000";

/// Attacks on memory that are repeated in a memory cgroup, and how many times.
const MEMORY_ATTACKS: [&str; 2] = ["thin-days", "delete-filters"];
const CGROUP_SEEDS: u64 = 20;

/// A part of the night and what it is called with.
struct Part {
    name: &'static str,
    arguments: &'static [&'static str],
    run: fn(&[String]) -> Result<()>,
}

const PARTS: &[Part] = &[
    Part { name: "properties", arguments: &[], run: properties },
    Part { name: "cache", arguments: &[], run: cache },
    Part { name: "clients", arguments: &[], run: suites::clients },
    Part { name: "many seeds", arguments: &[], run: many_seeds },
    Part { name: "simulation", arguments: &["--seeds", "2000"], run: suites::sim },
    Part { name: "damage", arguments: &["--damage", "1000"], run: suites::damage },
    Part { name: "kills", arguments: &["--kills", "500"], run: suites::crash },
    Part { name: "attacks", arguments: &[], run: attack::run },
    Part { name: "memory cgroups", arguments: &[], run: memory_cgroups },
];

/// Tests that are ignored because they take minutes: package, target and name.
const MANY_SEEDS: &[(&str, &[&str], &str)] = &[
    ("sandur-catalog", &["--test", "it"], "simulation::promises_hold_under_faults_for_many_seeds"),
    (
        "sandur-engine",
        &["--lib"],
        "tests::retention_seeds::rows_are_never_removed_before_their_period_is_over",
    ),
    (
        "sandur-engine",
        &["--test", "flush_memory"],
        "pushes_and_flushes_of_many_seeds_stay_within_memory_and_block_limits",
    ),
];

/// Runs all parts, then the fuzz targets.
pub fn run(arguments: &[String]) -> Result<()> {
    let seconds = match arguments {
        [] => FUZZ_SECONDS,
        [name, seconds] if name == "--fuzz-seconds" => seconds,
        _ => bail!("nightly takes nothing but --fuzz-seconds N"),
    };
    let mut failed = Vec::new();
    for part in PARTS {
        let arguments: Vec<String> = part.arguments.iter().map(|&a| a.to_owned()).collect();
        failed.extend(outcome(part.name, (part.run)(&arguments)));
    }
    let fuzzed = fuzz::run(&["--seconds".to_owned(), seconds.to_owned()]);
    failed.extend(outcome("fuzz", fuzzed));
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("failed: {}", failed.join(", ")),
    }
}

/// Says how a part ended; its name if it failed.
fn outcome(name: &'static str, result: Result<()>) -> Option<&'static str> {
    match result {
        Ok(()) => {
            println!("nightly: {name} held");
            None
        }
        Err(error) => {
            eprintln!("nightly: {name} failed: {error:#}");
            Some(name)
        }
    }
}

/// Kills, stops, races and crashes of the cache, ten times as many as at each change or more.
fn cache(_: &[String]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["test", "--release", "--no-fail-fast", "--lib", "--test", "it"]);
    command.args(["--package", "sandur-cache", "--package", "sandur-memcached"]);
    command.env("SANDUR_CACHE_SEEDS", "2000").env("SANDUR_CACHE_RACES", "200");
    command.env("SANDUR_CACHE_FLASH_RACES", "300").env("SANDUR_CACHE_KILLS", "250");
    command.env("SANDUR_CACHE_STOPS", "100");
    run_command(&mut command).context("the cache under kills and races")
}

/// Simulations inside of crates, of which each change runs a few seeds.
fn many_seeds(_: &[String]) -> Result<()> {
    for (package, target, name) in MANY_SEEDS {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root()).args(["test", "--release", "--package", package]).args(*target);
        run_command(command.args(["--", "--ignored", "--exact", name])).context(*name)?;
    }
    Ok(())
}

/// Pushes and delete requests that are chosen to take the most memory, with a kernel that kills what takes
/// more than 1.1 times its limit.
fn memory_cgroups(_: &[String]) -> Result<()> {
    for seed in 1..=CGROUP_SEEDS {
        let (limit, seed) = (if seed % 2 == 0 { "256" } else { "128" }, seed.to_string());
        let confined = ["--cgroup", "--memory-limit", limit, "--answer-within", "1m", "--seed", &seed];
        let arguments = confined.iter().chain(&MEMORY_ATTACKS).map(|&argument| argument.to_owned());
        attack::run(&arguments.collect::<Vec<_>>()).with_context(|| format!("seed {seed}, {limit} MiB"))?;
    }
    Ok(())
}

fn properties(_: &[String]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["test", "--workspace", "--lib", "--no-fail-fast"]);
    command.env("PROPTEST_CASES", PROPERTY_CASES);
    run_command(&mut command).context("properties with many cases")
}
