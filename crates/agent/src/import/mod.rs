//! `sandur import`: imports the history of other databases.
//!
//! Each database is a module. [`state`], [`sending`], [`progress`] and [`stored`] are what all of
//! them use: the state file of `--resume`, requests with retries and `--rate`, what is shown, and what
//! `--verify` asks. [`series`] is what imports of series have in common.

mod progress;
mod prometheus;
mod sending;
mod series;
mod state;
mod stored;
mod victoria_metrics;
mod whisper;

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandur_runtime::Env;
use sandur_terminal::Failed;

/// The command.
pub fn command() -> Command {
    Command::new("import")
        .about("Import the history of another database")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(prometheus::command())
        .subcommand(victoria_metrics::command())
        .subcommand(whisper::command())
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("prometheus", m)) => prometheus::run(env, m).await,
        Some(("victoria-metrics", m)) => victoria_metrics::run(env, m).await,
        Some(("whisper", m)) => whisper::run(env, m).await,
        _ => unreachable!("clap requires a subcommand"),
    }
}
