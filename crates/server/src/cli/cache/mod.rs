//! `sandur cache`: what belongs to the cache rather than to the database.

mod advise;
mod load;
mod simulate;

use std::process::ExitCode;

use clap::{ArgMatches, Command};

use super::failed::Failed;

/// The command.
pub fn command() -> Command {
    Command::new("cache")
        .about("Size and judge caches: simulate policies over traces, get advice on capacity")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(simulate::command())
        .subcommand(advise::command())
}

/// Runs the command.
pub async fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("simulate", m)) => simulate::run(m),
        Some(("advise", m)) => advise::run(m).await,
        _ => unreachable!("clap requires a subcommand"),
    }
}
