//! `sandur completions`: prints the completion script of a shell.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use sandur_cli::outcome::written;
use sandur_terminal::Failed;

/// The command.
pub fn command() -> Command {
    let shell = Arg::new("shell").value_name("SHELL").required(true);
    let shell = shell.value_parser(clap::value_parser!(Shell));
    Command::new("completions")
        .about("Print the completions of a shell")
        .after_help(
            "bash: source <(sandur completions bash), or write it to a file of bash-completion.d\n\
             zsh: sandur completions zsh > \"${fpath[1]}/_sandur\"\n\
             fish: sandur completions fish > ~/.config/fish/completions/sandur.fish",
        )
        .arg(shell)
}

/// Runs the command; `sandur` is the complete command line.
pub fn run(matches: &ArgMatches, mut sandur: Command) -> Result<ExitCode, Failed> {
    let Some(shell) = matches.get_one::<Shell>("shell").copied() else {
        return Err(Failed::usage("name a shell"));
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut sandur, "sandur", &mut text);
    written(std::io::Write::write_all(&mut std::io::stdout().lock(), &text))
}
