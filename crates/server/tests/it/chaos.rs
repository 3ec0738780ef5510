//! Goal: with several nodes on one bucket every acknowledged row is found exactly once, and no answer is
//! silently stale, whatever happens to processes, clocks and connections.
//!
//! Method: the real binary, three nodes on a real S3 server behind proxies, ten faults of a seeded plan,
//! while rows of all signals are pushed and all languages are asked. `SANDUR_CHAOS_SEED` repeats a plan;
//! `cargo xtask chaos` runs longer ones over more nodes.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test

use std::path::PathBuf;

use sandur_chaos::{Options, run};

use crate::process::{now_ns, s3_store};

#[test]
fn ten_faults_over_three_nodes_lose_and_double_nothing_and_no_answer_is_silently_stale() {
    let Some(store) = s3_store("chaos") else { return };
    let seed = std::env::var("SANDUR_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(now_ns() as u64);
    let (url, query) = store.split_once('?').unwrap();
    let endpoint = query.split('&').find_map(|pair| pair.strip_prefix("endpoint=http://")).unwrap();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{seed}"));
    let options = Options {
        program: PathBuf::from(env!("CARGO_BIN_EXE_sandur")),
        bucket: endpoint.parse().unwrap(),
        bucket_folder: url.strip_prefix("s3://sandur/").unwrap().to_owned(),
        nodes: 3,
        faults: 10,
        seed,
        has_secret: seed.is_multiple_of(2),
        folder: folder.clone(),
    };
    println!("chaos: seed {seed} (SANDUR_CHAOS_SEED={seed} repeats the plan)");
    let verdict = run(&options).unwrap_or_else(|error| panic!("seed {seed}, {folder:?}: {error:#}"));
    println!("{}", verdict.table());
    let findings = verdict.findings.join("\n");
    assert!(verdict.findings.is_empty(), "seed {seed}, logs in {}:\n{findings}", folder.display());
    assert!(verdict.acknowledged > 0 && verdict.queries > 0, "the run did something");
}

#[test]
fn a_wrong_offset_of_the_clock_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data").display().to_string();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sandur"));
    command.args(["serve", "--store", &store]).env("SANDUR_TEST_CLOCK_OFFSET_MS", "soon");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("no number of milliseconds"), "{text}");
}
