//! `sandur man`: a manual page for each command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use sandur_terminal::Failed;

/// The command.
pub fn command() -> Command {
    let directory = Arg::new("directory").value_name("DIRECTORY").required(true);
    let directory = directory.value_parser(clap::value_parser!(PathBuf));
    Command::new("man")
        .about("Write manual pages, one for each command, into a directory")
        .after_help(
            "As root: sandur man /usr/local/share/man/man1. To view one: man -l DIRECTORY/sandur-query.1",
        )
        .arg(directory.help("The directory; it is created if it does not exist"))
}

/// Runs the command; `sandur` is the complete command line.
pub fn run(matches: &ArgMatches, sandur: Command) -> Result<ExitCode, Failed> {
    let Some(directory) = matches.get_one::<PathBuf>("directory") else {
        return Err(Failed::usage("name a directory"));
    };
    let shown = directory.display();
    let failed = |e: std::io::Error| Failed::new(format!("cannot write manual pages to '{shown}': {e}"));
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(sandur, directory).map_err(failed)?;
    eprintln!("wrote the manual pages to '{shown}': man -l {shown}/sandur.1");
    Ok(ExitCode::SUCCESS)
}
