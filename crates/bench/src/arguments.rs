//! Options of the command line: how they are declared and read, and what several commands make of them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, value_parser};
use sandur_base::units::ByteSize;
use sandur_bench::{pack, run};
use sandur_runtime::Env;

/// An option with a value.
pub fn text(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// An option with a number.
pub fn number(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    text(name, "N", help).default_value(default).value_parser(value_parser!(u64))
}

/// The value of an option, as text.
pub fn argument<'a>(arguments: &'a ArgMatches, name: &str) -> Option<&'a str> {
    arguments.get_one::<String>(name).map(String::as_str)
}

/// The value of an option that is a number.
pub fn count(arguments: &ArgMatches, name: &str) -> u64 {
    arguments.get_one::<u64>(name).copied().unwrap_or_default()
}

/// The option for the process whose CPU time and memory are measured.
pub fn pid_file() -> Arg {
    text("pid-file", "FILE", "The process id of the server, for its CPU time and memory")
}

/// Returns the process whose id is in the file of `--pid-file`.
pub fn process_of(arguments: &ArgMatches) -> Result<Option<run::Process>> {
    let Some(path) = argument(arguments, "pid-file") else { return Ok(None) };
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    let id = text.trim().parse().with_context(|| format!("{path} has no process id"))?;
    Ok(Some(run::Process(id)))
}

/// Generates a data set in a directory and reports progress on stderr.
pub fn make_data_set(env: &Env, out: &Path, wanted: pack::Wanted) -> Result<()> {
    let mut shown = env.monotonic();
    let made = pack::generate(out, wanted, |bytes| {
        if env.monotonic() - shown > Duration::from_secs(1) {
            shown = env.monotonic();
            eprintln!("generated {} of about {}", ByteSize(bytes), ByteSize(wanted.bytes));
        }
    });
    let made = made.with_context(|| format!("cannot write to {}", out.display()))?;
    eprintln!("{}: {} lines, {} of text", out.display(), made.lines, ByteSize(made.bytes));
    Ok(())
}
