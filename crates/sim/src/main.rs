//! `cargo xtask sim`: runs many seeds, or one seed twice.
//!
//! `--seeds N` runs N seeds from `--first` (default 1) on. `--seed N` runs one seed twice and compares
//! the traces. `--damage N` applies N seeded kinds of damage to copied stores, `--backups N` makes and
//! restores backups in N seeds, and `--fleet N` runs N seeds of 50 nodes that are wrong about each other
//! (`--nodes` changes their number), all from `--first` on. All other arguments are errors, so that a typing
//! mistake is not taken for a successful run.

use std::collections::BTreeMap;
use std::process::ExitCode;

use sandur_sim::{FleetSize, run, run_backups, run_damage, run_fleet};

const USAGE: &str =
    "sandur-sim [--first N] [--seeds N | --seed N | --damage N | --backups N | --fleet N [--nodes N]]";
/// Nodes of a fleet, and its rounds.
const FLEET: (u64, u64) = (50, 6);

/// Option values by option name.
type OptionValues = BTreeMap<String, u64>;

fn main() -> ExitCode {
    let outcome = given(std::env::args().skip(1)).and_then(|given| asked(&given));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn given(arguments: impl Iterator<Item = String>) -> anyhow::Result<OptionValues> {
    let (mut given, mut arguments) = (OptionValues::new(), arguments);
    while let Some(name) = arguments.next() {
        let number = arguments.next().and_then(|value| value.parse().ok());
        match (name.as_str(), number) {
            (
                "--first" | "--seeds" | "--seed" | "--damage" | "--backups" | "--fleet" | "--nodes",
                Some(number),
            ) => given.insert(name, number),
            _ => anyhow::bail!("'{name}' is not an option with a number: {USAGE}"),
        };
    }
    Ok(given)
}

fn asked(given: &OptionValues) -> anyhow::Result<()> {
    let number = |name: &str| given.get(name).copied();
    let first = number("--first").unwrap_or(1);
    let nodes = number("--nodes");
    if nodes.is_some() && number("--fleet").is_none() {
        anyhow::bail!("--nodes belongs to --fleet: {USAGE}");
    }
    let copies = (number("--damage"), number("--backups"));
    match (copies, number("--fleet"), number("--seed"), number("--seeds")) {
        ((Some(count), None), None, None, None) => damage(first, count),
        ((None, Some(count)), None, None, None) => backups(first, count),
        ((None, None), Some(count), None, None) => fleets(first, count, nodes.unwrap_or(FLEET.0)),
        ((None, None), None, Some(seed), None) => twice(seed),
        ((None, None), None, None, count) => many(first, count.unwrap_or(2_000)),
        _ => anyhow::bail!("one kind of run at a time: {USAGE}"),
    }
}

fn damage(first: u64, count: u64) -> anyhow::Result<()> {
    let tally = run_damage(first, count)?;
    println!(
        "{count} kinds of damage from seed {first}: no undamaged row was lost, no store was wrongly \
         reported as sound"
    );
    println!("{tally:?}");
    Ok(())
}

fn backups(first: u64, count: u64) -> anyhow::Result<()> {
    let (mut started, mut killed, mut complete, mut overtaken, mut copied, mut blocks) = (0, 0, 0, 0, 0, 0);
    for seed in first..first + count {
        let counts = run_backups(seed)?.backups;
        started += counts.started;
        killed += counts.killed;
        complete += counts.complete;
        overtaken += counts.overtaken;
        copied += counts.copied;
        blocks += counts.blocks;
    }
    println!("{count} seeds from {first}: every restored store was sound and had its rows");
    println!(
        "{started} backups, {killed} killed, {complete} complete, {overtaken} of them in several rounds; \
         {copied} of {blocks} blocks were copied"
    );
    Ok(())
}

fn twice(seed: u64) -> anyhow::Result<()> {
    let (first, second) = (run(seed)?, run(seed)?);
    println!("{first:?}");
    anyhow::ensure!(first == second, "seed {seed} gave two different runs: {second:?}");
    println!("seed {seed}: twice the same trace");
    Ok(())
}

fn fleets(first: u64, count: u64, nodes: u64) -> anyhow::Result<()> {
    let size = FleetSize { nodes: usize::try_from(nodes)?, rounds: FLEET.1 };
    let (mut acknowledged, mut answers, mut warned, mut kills) = (0, 0, 0, 0);
    for seed in first..first + count {
        let outcome = run_fleet(seed, size)?;
        acknowledged += outcome.rows.1;
        answers += outcome.answers.0;
        warned += outcome.answers.1;
        kills += outcome.kills;
        println!("seed {seed}: {outcome:?}");
    }
    println!("{count} seeds of {nodes} nodes from {first}: every answer was complete or warned");
    println!("{acknowledged} rows acknowledged, {answers} answers, {warned} with a warning, {kills} kills");
    Ok(())
}

fn many(first: u64, count: u64) -> anyhow::Result<()> {
    let (mut rows, mut deleted, mut rolled, mut kills, mut zombies) = (0, 0, 0, 0, 0);
    for seed in first..first + count {
        let outcome = run(seed)?;
        rows += outcome.acknowledged;
        deleted += outcome.deleted;
        rolled += outcome.rolled;
        kills += outcome.kills;
        zombies += outcome.zombies;
        if (seed - first + 1).is_multiple_of(100) {
            let seeds = seed - first + 1;
            println!("{seeds} seeds: {rows} rows acknowledged, {deleted} deleted, {rolled} steps rolled");
        }
    }
    println!("{count} seeds from {first}: every invariant held");
    println!("{rows} rows acknowledged, {deleted} deleted, {rolled} steps rolled");
    println!("{kills} kills, {zombies} zombies");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_arguments_run_nothing() {
        let refused = |text: &str| given(text.split(' ').map(str::to_owned)).and_then(|g| asked(&g)).is_err();
        for text in
            ["--help", "--seeds", "--seeds many", "--sedes 1", "7", "--seed 1 --damage 1", "--nodes 5"]
        {
            assert!(refused(text), "{text}");
        }
    }
}
