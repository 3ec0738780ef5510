//! Repository chores, run as `cargo xtask <command>`.
//!
//! Each command is one file; `COMMANDS` registers them and makes the help. Nothing here is part of
//! the product, and nothing depends on it.

mod attack;
mod commit_titles;
mod differential;
mod doc_paths;
mod feature_set;
mod fuzz;
mod graphite_clients;
mod memcached;
mod nightly;
mod process;
mod rings;
mod rival_environments;
mod rivals;
mod s3;
mod suites;
mod test;
mod test_binaries;
mod tidy;
mod whisper_fixtures;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A chore: its name, what it takes, what it does, and the function.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        arguments: "[--quick | cargo test arguments]",
        about: "every test, the S3 suites against a real S3 server included; --quick: those beside the code",
        run: test::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "check crate edges, file and function sizes, module docs, generated docs",
        run: tidy::run,
    },
    Command {
        name: "rivals",
        arguments: "[NAME...]",
        about: "build the real peers of tests and benchmarks from the Go module registry",
        run: rivals::run,
    },
    Command {
        name: "differential",
        arguments: "loki|prometheus|graphite [--seed N] ...",
        about: "ask a real Loki, Prometheus or graphite-web and us the same and compare the answers",
        run: differential::run_differential,
    },
    Command {
        name: "graphite-clients",
        arguments: "[--carbonapi PROGRAM]",
        about: "real senders and readers of Graphite's beside our server: statsd, graphite-web, carbonapi",
        run: graphite_clients::run,
    },
    Command {
        name: "crash",
        arguments: "[--kills N] [--seed N]",
        about: "kill the real binary at random points while it ingests, on a directory and on S3",
        run: suites::crash,
    },
    Command {
        name: "clients",
        arguments: "",
        about: "build logcli, telemetrygen and promtool and use the real binary with them",
        run: suites::clients,
    },
    Command {
        name: "sim",
        arguments: "[--seeds N] [--seed N]",
        about: "seeded simulation with faults; one seed repeats one run exactly",
        run: suites::sim,
    },
    Command {
        name: "conformance",
        arguments: "logql|promql|memcached PATH...",
        about: "run query scripts over all kinds of blocks, or memcached's tests on our server",
        run: suites::conformance,
    },
    Command {
        name: "rings",
        arguments: "[--relay-ng FOLDER] [--clusters N] [--seed N]",
        about: "compare the relay's rings with carbon, carbon-c-relay and carbon-relay-ng, all positions",
        run: rings::run,
    },
    Command {
        name: "attack",
        arguments: "[--short] [--seed N] [--memory-limit MIB] [--cgroup] [NAME...]",
        about: "throw hostile input at a running release server and check that it stands",
        run: attack::run,
    },
    Command {
        name: "fuzz",
        arguments: "[--seconds N] [TARGET...]",
        about: "fuzz decoders, parsers and codecs (needs cargo-fuzz)",
        run: fuzz::run,
    },
    Command {
        name: "damage",
        arguments: "--damage N [--first SEED]",
        about: "N kinds of damage to copied stores: nothing undamaged is lost or called sound wrongly",
        run: suites::damage,
    },
    Command {
        name: "whisper-fixtures",
        arguments: "",
        about: "let whisper and go-carbon write the files of the tests of crates/whisper anew",
        run: whisper_fixtures::run,
    },
    Command {
        name: "nightly",
        arguments: "[--fuzz-seconds N]",
        about: "all long runs: properties, cache, clients, simulation, damage, kills, attacks, fuzz",
        run: nightly::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some(name) = arguments.first() else {
        help();
        return Ok(());
    };
    match COMMANDS.iter().find(|c| c.name == name) {
        Some(command) => (command.run)(&arguments[1..]),
        None if matches!(name.as_str(), "help" | "-h" | "--help") => {
            help();
            Ok(())
        }
        None => bail!("unknown command '{name}'; `cargo xtask help` lists them"),
    }
}

fn help() {
    println!("cargo xtask <command>\n");
    for command in COMMANDS {
        println!("  {:<12}{:<28}{}", command.name, command.arguments, command.about);
    }
}
