//! `cargo xtask sim`: runs many seeds, or one of them twice.
//!
//! `--seeds N` runs N seeds from `--first` (default 1) on; `--seed N` runs one seed twice and compares the
//! traces. `--damage N` does N seeded kinds of damage to copied stores, from `--first` on.

use std::process::ExitCode;

use sandur_sim::{run, run_damage};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let first = number("--first").unwrap_or(1);
    let outcome = match (number("--damage"), number("--seed")) {
        (Some(count), _) => damage(first, count),
        (None, Some(seed)) => twice(seed),
        (None, None) => many(first, number("--seeds").unwrap_or(2_000)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn damage(first: u64, count: u64) -> anyhow::Result<()> {
    let tally = run_damage(first, count)?;
    println!(
        "{count} kinds of damage from seed {first}: no undamaged row was lost, nothing was called sound \
         wrongly"
    );
    println!("{tally:?}");
    Ok(())
}

fn twice(seed: u64) -> anyhow::Result<()> {
    let (first, second) = (run(seed)?, run(seed)?);
    println!("{first:?}");
    anyhow::ensure!(first == second, "seed {seed} gave two different runs: {second:?}");
    println!("seed {seed}: twice the same trace");
    Ok(())
}

fn many(first: u64, count: u64) -> anyhow::Result<()> {
    let (mut rows, mut deleted, mut kills, mut zombies) = (0, 0, 0, 0);
    for seed in first..first + count {
        let outcome = run(seed)?;
        rows += outcome.acknowledged;
        deleted += outcome.deleted;
        kills += outcome.kills;
        zombies += outcome.zombies;
        if (seed - first + 1).is_multiple_of(100) {
            println!(
                "{} seeds: {rows} rows acknowledged, {deleted} deleted, {kills} kills, {zombies} zombies",
                seed - first + 1
            );
        }
    }
    println!("{count} seeds from {first}: every invariant held");
    println!("{rows} rows acknowledged, {deleted} deleted, {kills} kills, {zombies} zombies");
    Ok(())
}
