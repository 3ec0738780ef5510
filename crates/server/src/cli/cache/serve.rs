//! `sandur cache serve`: the cache as a server that speaks memcached's protocols.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use sandur_base::Env;
use sandur_cache::memcached;

use crate::cli::failed::Failed;

/// The command.
pub fn command() -> Command {
    let arguments = Arg::new("arguments")
        .num_args(0..)
        .allow_hyphen_values(true)
        .trailing_var_arg(true)
        .help("memcached's arguments; -h lists them");
    Command::new("serve")
        .about("Serve a cache in memory and on flash by memcached's protocols")
        // -h and -V are memcached's own
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(arguments)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let arguments = matches.get_many::<String>("arguments").unwrap_or_default();
    let arguments: Vec<String> = arguments.cloned().collect();
    // memcached's clients and operators know its exit codes
    match memcached::run(&env, &arguments, |line| eprintln!("{line}")).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("{error}");
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}
