//! `sandur import`: moves the history of other databases over.

mod whisper;

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use sandur_base::Env;

use crate::failed_command::Failed;

/// The command.
pub fn command() -> Command {
    Command::new("import")
        .about("Move history of another database over")
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
