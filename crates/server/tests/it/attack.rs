//! Goal: hostile input of every kind does not affect other clients: the server keeps running, answers
//! others, stays within its memory limit, and has every acknowledged line after a crash.
//!
//! Method: the short form of the attacks against the real binary. `cargo xtask attack` runs all of them
//! against a release build. The other client has a long timeout here, because a busy machine is not a
//! defect.

#![allow(clippy::unwrap_used)] // a process test

use std::path::PathBuf;
use std::time::Duration;

use sandur_attack::attacks::ATTACKS;
use sandur_attack::course::{Course, run};
use sandur_attack::ground::Size;
use sandur_attack::victim::{ARGUMENTS, Setup};
use sandur_runtime::Env;

const SEED: u64 = 1;

#[test]
fn every_attack_is_withstood() {
    let folder = tempfile::tempdir().unwrap();
    let course = Course {
        setup: Setup {
            program: PathBuf::from(env!("CARGO_BIN_EXE_sandur")),
            directory: folder.path().to_owned(),
            memory_limit: 256 << 20,
            arguments: ARGUMENTS.map(str::to_owned).to_vec(),
            open_files: None,
            cgroup: None,
        },
        attacks: ATTACKS.to_vec(),
        size: Size::Short,
        seed: SEED,
        answer_within: Duration::from_secs(60),
    };
    println!("seed {SEED}");
    let mut findings = Vec::new();
    let clean = run(&Env::system(1), &course, |verdict| {
        println!("{}: {:?}, peak {} MiB", verdict.name, verdict.took, verdict.peak_bytes >> 20);
        findings.extend(verdict.findings.iter().map(|finding| format!("{}: {finding}", verdict.name)));
    });
    assert!(clean.unwrap(), "{}", findings.join("\n"));
}
