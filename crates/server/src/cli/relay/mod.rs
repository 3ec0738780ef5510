//! `sandur relay`: the relay of carbon points, and commands that show what it does with a name.

mod configuration;
mod diff;
mod lookup;
mod serve;

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandur_runtime::Env;
use sandur_terminal::Failed;

/// The command.
pub fn command() -> Command {
    Command::new("relay")
        .about("Relay carbon points, with configuration files of carbon, carbon-c-relay and carbon-relay-ng")
        .args_conflicts_with_subcommands(true)
        .arg_required_else_help(true)
        .args(serve::arguments())
        .args(configuration::arguments())
        .subcommand(lookup::command())
        .subcommand(diff::command())
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("lookup", m)) => lookup::run(m),
        Some(("diff", m)) => diff::run(m),
        _ => serve::run(env, matches).await,
    }
}
