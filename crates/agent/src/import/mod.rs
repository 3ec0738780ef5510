//! `sandur import`: imports the history of other databases.

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
        .subcommand(whisper::command())
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("whisper", m)) => whisper::run(env, m).await,
        _ => unreachable!("clap requires a subcommand"),
    }
}
