//! `sandur cache`: commands about the cache.

mod advise;
mod load;
mod serve;
mod simulate;

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandur_runtime::Env;
use sandur_terminal::Failed;

/// The command.
pub fn command() -> Command {
    Command::new("cache")
        .about("Serve a cache, simulate caches and advise on their size")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve::command())
        .subcommand(simulate::command())
        .subcommand(advise::command())
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("serve", m)) => serve::run(env, m).await,
        Some(("simulate", m)) => simulate::run(m),
        Some(("advise", m)) => advise::run(m).await,
        _ => unreachable!("clap requires a subcommand"),
    }
}
