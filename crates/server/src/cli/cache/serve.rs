//! `sandur cache serve`: serves a cache with memcached's protocols.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command};
use sandur_memcached as memcached;
use sandur_runtime::Env;
use sandur_terminal::Failed;
use sandur_terminal::logging;
use sandur_terminal::logging::Log;

/// The command.
pub fn command() -> Command {
    let arguments = Arg::new("arguments")
        .num_args(0..)
        .allow_hyphen_values(true)
        .trailing_var_arg(true)
        .help("memcached's arguments; -h lists them");
    Command::new("serve")
        .about("Serve a cache in memory and on flash with memcached's protocols")
        // `-h` and `-V` are options of memcached.
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(arguments)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let arguments = matches.get_many::<String>("arguments").unwrap_or_default();
    let arguments: Vec<String> = arguments.cloned().collect();
    // The exit codes are those of memcached.
    let log = Log { format: "text".to_owned(), level: level_of(0).to_owned() };
    logging::start(&log, env.clone(), None).map_err(Failed::new)?;
    match memcached::run(&env, &arguments, Arc::new(OnStderr)).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("{error}");
            Ok(ExitCode::from(error.exit_code()))
        }
    }
}

struct OnStderr;

impl memcached::Log for OnStderr {
    fn say(&self, line: &str) {
        eprintln!("{line}");
    }

    fn set_verbosity(&self, level: u32) {
        if let Err(error) = logging::set_level(level_of(level)) {
            eprintln!("verbosity {level} has no effect: {error}");
        }
    }
}

/// The log level for memcached's verbosity; warnings are logged without `-v`, too.
fn level_of(verbosity: u32) -> &'static str {
    match verbosity {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    }
}
