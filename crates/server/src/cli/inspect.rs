//! Stub.
use super::failed::Failed;
use clap::{ArgMatches, Command};
use sandur_base::Env;
use std::process::ExitCode;
/// The command.
pub fn command() -> Command {
    Command::new("inspect")
}
/// Runs it.
pub async fn run(_env: Env, _matches: &ArgMatches) -> Result<ExitCode, Failed> {
    Err(Failed::new("not built yet"))
}
