//! `sandur relay`: what belongs to the relay of carbon points.

mod configuration;
mod diff;
mod lookup;

use std::process::ExitCode;

use clap::{ArgMatches, Command};

use crate::failed_command::Failed;

/// The command.
pub fn command() -> Command {
    Command::new("relay")
        .about("Say where carbon points go, by configuration files of carbon, carbon-c-relay and others")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(lookup::command())
        .subcommand(diff::command())
}

/// Runs the command.
pub async fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("lookup", m)) => lookup::run(m),
        Some(("diff", m)) => diff::run(m),
        _ => unreachable!("clap requires a subcommand"),
    }
}
