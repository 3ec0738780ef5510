//! `cargo xtask nightly [--fuzz-seconds N]`: runs all tests that take too long for each change.
//!
//! Continues after a failure, so that one night finds as many faults as possible. At the end it lists
//! the parts that failed.

use anyhow::{Context, Result, bail};

use crate::process::{cargo, root, run as run_command};
use crate::{
    attack, chaos, cluster_demo, dashboards, differential, fuzz, helm, package, rootfs, snippets, suites,
};

/// Default time for each fuzz target in seconds.
const FUZZ_SECONDS: &str = "1200";
/// Number of cases of a property test. It replaces the number that a test sets.
const PROPERTY_CASES: &str = "10000";
/// With this variable, tests try all of what they try a part of at each change.
const LONG_FORMS: &str = "SANDUR_LONG_FORMS";

/// Attacks on memory that are repeated in a memory cgroup, and the number of repetitions.
const MEMORY_ATTACKS: [&str; 2] = ["thin-days", "delete-filters"];
const CGROUP_SEEDS: u64 = 20;

/// Rules that are also evaluated with the code of Prometheus: 100,000 evaluations of groups.
const RULES: &[&str] = &["rules", "--groups", "2000", "--steps", "51"];

/// A part of the nightly run and its arguments.
struct Part {
    name: &'static str,
    arguments: &'static [&'static str],
    run: fn(&[String]) -> Result<()>,
}

const PARTS: &[Part] = &[
    Part { name: "properties", arguments: &[], run: properties },
    Part { name: "cache", arguments: &[], run: cache },
    Part { name: "fields of lines", arguments: &[], run: fields },
    Part { name: "nested queries", arguments: &[], run: nested },
    Part { name: "clients", arguments: &[], run: suites::clients },
    Part { name: "many seeds", arguments: &[], run: many_seeds },
    Part { name: "rules of Prometheus", arguments: RULES, run: differential::run_differential },
    Part { name: "simulation", arguments: &["--seeds", "2000"], run: suites::sim },
    Part { name: "simulation of many nodes", arguments: &["--fleet", "500"], run: suites::fleet },
    Part { name: "damage", arguments: &["--damage", "1000"], run: suites::copies },
    Part { name: "backups", arguments: &["--backups", "200"], run: suites::copies },
    Part { name: "backups of the program", arguments: &["--rounds", "20"], run: suites::backups },
    Part { name: "kills", arguments: &["--kills", "500"], run: suites::crash },
    Part { name: "nodes under faults", arguments: &["--faults", "167"], run: chaos::run },
    Part { name: "program of the demo", arguments: &[], run: demo_program },
    Part { name: "cluster demo", arguments: &["--short"], run: cluster_demo::run },
    Part { name: "cluster demo with HAProxy", arguments: &["--short", "--haproxy"], run: demo_with_haproxy },
    Part { name: "image", arguments: &[], run: rootfs::run },
    Part { name: "Debian package", arguments: &["--check"], run: debian_package },
    Part { name: "configurations of clients", arguments: &[], run: snippets::run },
    Part { name: "Helm chart", arguments: &[], run: helm_chart },
    Part { name: "dashboards", arguments: &["--check"], run: all_dashboards },
    Part { name: "attacks", arguments: &[], run: attack::run },
    Part { name: "memory cgroups", arguments: &[], run: memory_cgroups },
];

/// Tests that are ignored by default because they take minutes: package, target and name.
const MANY_SEEDS: &[(&str, &[&str], &str)] = &[
    ("sandur-catalog", &["--test", "it"], "simulation::promises_hold_under_faults_for_many_seeds"),
    ("sandur-rules", &["--lib"], "owners_tests::take_overs_lose_and_double_nothing_for_many_seeds"),
    (
        "sandur-engine",
        &["--lib"],
        "tests::retention_seeds::rows_are_never_removed_before_their_period_is_over",
    ),
    ("sandur-engine", &["--lib"], "tests::order::values_keep_one_order_for_many_seeds"),
    ("sandur-engine", &["--lib"], "tests::freshness::twenty_nodes_of_little_memory_hold_each_others_rows"),
    ("sandur-engine", &["--lib"], "tests::freshness::an_idle_process_beside_many_sends_few_requests"),
    ("sandur-engine", &["--lib"], "tests::peers::an_idle_process_beside_a_hundred_reads_few_heartbeats"),
    (
        "sandur-engine",
        &["--test", "flush_memory"],
        "pushes_and_flushes_of_many_seeds_stay_within_memory_and_block_limits",
    ),
    ("sandur-server", &["--test", "it"], "memory::bodies_that_expand_to_much_stay_under_256_mebibytes"),
];

/// Runs all parts, then the fuzz targets.
pub fn run(arguments: &[String]) -> Result<()> {
    let seconds = match arguments {
        [] => FUZZ_SECONDS,
        [name, seconds] if name == "--fuzz-seconds" => seconds,
        _ => bail!("nightly accepts only --fuzz-seconds N"),
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

/// Prints the result of a part. Returns its name if it failed.
fn outcome(name: &'static str, result: Result<()>) -> Option<&'static str> {
    match result {
        Ok(()) => {
            println!("nightly: {name} passed");
            None
        }
        Err(error) => {
            eprintln!("nightly: {name} failed: {error:#}");
            Some(name)
        }
    }
}

/// Runs the kills, stops, races and crashes of the cache with at least ten times as many seeds as at
/// each change.
fn cache(_: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--no-fail-fast", "--lib", "--test", "it"]);
    command.args(["--package", "sandur-cache", "--package", "sandur-memcached"]);
    command.env("SANDUR_CACHE_SEEDS", "2000").env("SANDUR_CACHE_RACES", "200");
    command.env("SANDUR_CACHE_FLASH_RACES", "300").env("SANDUR_CACHE_KILLS", "250");
    command.env("SANDUR_CACHE_STOPS", "100");
    run_command(&mut command).context("the cache under kills and races")
}

/// Builds the program of `make demo`, with which the parts after it work.
fn demo_program(_: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["build", "--profile", "demo", "--package", "sandur-server"]);
    run_command(&mut command).context("the program of the demo")
}

/// Adds the option that names the program of the demo.
fn with_demo_program(arguments: &[String]) -> Vec<String> {
    let program = root().join("target/demo/sandur").display().to_string();
    arguments.iter().cloned().chain(["--program".to_owned(), program]).collect()
}

/// Runs the cluster demo behind HAProxy, if it is installed.
fn demo_with_haproxy(arguments: &[String]) -> Result<()> {
    if !cluster_demo::has_haproxy() {
        println!("SKIPPED: haproxy is not installed (Debian: apt-get install haproxy)");
        return Ok(());
    }
    cluster_demo::run(arguments)
}

fn helm_chart(arguments: &[String]) -> Result<()> {
    helm::run(&with_demo_program(arguments))
}

fn debian_package(arguments: &[String]) -> Result<()> {
    package::run(&with_demo_program(arguments))
}

fn all_dashboards(arguments: &[String]) -> Result<()> {
    dashboards::run(&with_demo_program(arguments))
}

/// Compares queries of fields with queries of complete lines: 100,000 random pipelines.
fn fields(_: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--package", "sandur-conformance"]);
    command.args(["--test", "it", "--", "fields"]).env("SANDUR_FIELDS_SEEDS", "1667");
    run_command(&mut command).context("fields of lines")
}

/// Repeats each form of the language with all lengths.
fn nested(_: &[String]) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--package", "sandur-conformance"]);
    command.args(["--test", "it", "--", "nesting"]).env(LONG_FORMS, "1");
    run_command(&mut command).context("nested queries")
}

/// Runs simulations that are tests of crates, with many seeds. Each change runs only a few of them.
fn many_seeds(_: &[String]) -> Result<()> {
    for (package, target, name) in MANY_SEEDS {
        let mut command = cargo();
        command.args(["test", "--release", "--package", package]).args(*target);
        run_command(command.args(["--", "--ignored", "--exact", name])).context(*name)?;
    }
    Ok(())
}

/// Runs the pushes and delete requests that need the most memory in a memory cgroup, in which the kernel
/// kills a server that exceeds 1.1 times its limit.
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
    let mut command = cargo();
    command.args(["test", "--workspace", "--lib", "--no-fail-fast"]);
    command.env("PROPTEST_CASES", PROPERTY_CASES).env(LONG_FORMS, "1");
    run_command(&mut command).context("properties with many cases")
}
