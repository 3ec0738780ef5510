//! Repository commands, run as `cargo xtask <command>`.
//!
//! Each command is one file; `COMMANDS` registers them and is the source of the help. Nothing here is
//! part of the product, and nothing depends on it.

mod attack;
mod chaos;
mod circles;
mod cluster_demo;
mod commit_titles;
mod compliance;
mod dashboards;
mod differential;
mod doc_paths;
mod feature_set;
mod floors;
mod fuzz;
mod graphite_clients;
mod helm;
mod http;
mod local_server;
mod memcached;
mod nightly;
mod package;
mod process;
mod record;
mod rings;
mod rival_environments;
mod rivals;
mod rootfs;
mod s3;
mod snippets;
mod suites;
mod test;
mod test_binaries;
mod tidy;
mod tsdb_fixtures;
mod web;
mod whisper_fixtures;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// A command: its name, its arguments, its description, and the function that runs it.
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
        about: "run all tests, also those on a real S3 server; --quick: only unit tests",
        run: test::run,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "check crate edges, circles of files, file and function sizes, module docs, generated docs",
        run: tidy::run,
    },
    Command {
        name: "rivals",
        arguments: "[NAME...]",
        about: "build the programs that tests and benchmarks run against from the Go module registry",
        run: rivals::run,
    },
    Command {
        name: "differential",
        arguments: "loki|prometheus|graphite|rules [--seed N] ...",
        about: "compare our answers and rules with those of a real Loki, Prometheus or graphite-web",
        run: differential::run_differential,
    },
    Command {
        name: "compliance",
        arguments: "PATH",
        about: "run the alert generator compliance suite of a checkout of prometheus/compliance (40 minutes)",
        run: compliance::run,
    },
    Command {
        name: "record",
        arguments: "promql|logql|graphite [--seed N] ...",
        about: "record the answers of a real Prometheus, Loki or graphite-web for the tests",
        run: record::run,
    },
    Command {
        name: "graphite-clients",
        arguments: "[--carbonapi PROGRAM]",
        about: "run senders and readers of Graphite with our server: statsd, graphite-web, carbonapi",
        run: graphite_clients::run,
    },
    Command {
        name: "cluster-demo",
        arguments: "[--short | --pause SECONDS]",
        about: "three nodes, a bucket and a load balancer: one node is killed, one stopped, nothing is lost",
        run: cluster_demo::run,
    },
    Command {
        name: "crash",
        arguments: "[--kills N] [--seed N]",
        about: "kill the real binary at random points while it ingests, on a directory and on S3",
        run: suites::crash,
    },
    Command {
        name: "chaos",
        arguments: "[--nodes N,..] [--faults N] [--seed N] ...",
        about: "run several nodes on one bucket under seeded faults, and judge every answer",
        run: chaos::run,
    },
    Command {
        name: "clients",
        arguments: "",
        about: "build logcli, telemetrygen and promtool and use the real binary with them",
        run: suites::clients,
    },
    Command {
        name: "sim",
        arguments: "[--seeds N | --seed N | --backups N]",
        about: "run the seeded simulation with faults; a seed repeats its run exactly",
        run: suites::sim,
    },
    Command {
        name: "conformance",
        arguments: "logql|promql|memcached PATH...",
        about: "run query scripts on all kinds of blocks, or memcached's tests on our server",
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
        about: "send hostile input to a running release server and check that it survives",
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
        about: "damage copied stores in N ways; check that no undamaged row is lost and all damage is found",
        run: suites::copies,
    },
    Command {
        name: "dashboards",
        arguments: "[--check] [--program FILE]",
        about: "write Grafana's dashboards of Sandur; ask a server every query of every panel",
        run: dashboards::run,
    },
    Command {
        name: "snippets",
        arguments: "[--program FILE]",
        about: "run clients with the configurations of docs/clients.md",
        run: snippets::run,
    },
    Command {
        name: "rootfs",
        arguments: "[--program FILE]",
        about: "assemble the image's root file system and start it by chroot, read-only, as user 65532",
        run: rootfs::run,
    },
    Command {
        name: "package",
        arguments: "[--program FILE] [--check]",
        about: "make the Debian package; --check: install it in a clean root, upgrade it, remove it",
        run: package::run,
    },
    Command {
        name: "helm",
        arguments: "[--program FILE]",
        about: "check the Helm chart: lint, objects as the Kubernetes API reads them, options",
        run: helm::run,
    },
    Command {
        name: "web",
        arguments: "build [--check] | test [NAME...] | speed URL...",
        about: "build the explorer, test it in a browser, compare how soon pages of servers can be used",
        run: web::run,
    },
    Command {
        name: "whisper-fixtures",
        arguments: "",
        about: "write the test files of crates/whisper again with whisper and go-carbon",
        run: whisper_fixtures::run,
    },
    Command {
        name: "tsdb-fixtures",
        arguments: "",
        about: "write the test files of crates/tsdb again with the code of Prometheus",
        run: tsdb_fixtures::run,
    },
    Command {
        name: "nightly",
        arguments: "[--fuzz-seconds N]",
        about: "run all long tests: properties, cache, clients, simulation, damage, kills, attacks, fuzz",
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
        println!("  {:<18}{:<34}{}", command.name, command.arguments, command.about);
    }
}
