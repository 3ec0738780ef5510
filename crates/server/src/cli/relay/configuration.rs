//! The relay's configuration file on the command line.

use std::io::BufRead;
use std::path::Path;

use clap::{Arg, ArgMatches};
use sandur_relay::config::{Format, read};
use sandur_relay::model::Routing;
use sandur_relay::router::Router;

use crate::failed_command::Failed;

/// Options that say how a file is read.
pub(super) fn arguments() -> [Arg; 2] {
    let names = Format::NAMES.map(|(name, _)| name);
    let format = Arg::new("format").long("format").value_name("FORM").value_parser(names);
    let format = format.help("Whose form the file has; without it, the text decides");
    let section = Arg::new("section").long("section").value_name("NAME");
    let section = section.help("Section of carbon.conf; without it, relay or else aggregator");
    [format, section]
}

/// Reads a file.
pub(super) fn routing(path: &str, matches: &ArgMatches) -> Result<Routing, Failed> {
    let format = matches.get_one::<String>("format").and_then(|name| Format::named(name));
    let section = matches.get_one::<String>("section").map(String::as_str);
    read(Path::new(path), format, section).map_err(|error| Failed::new(error.to_string()))
}

/// Reads a file and makes its rings; lines that are not honoured are told on stderr.
pub(super) fn router(path: &str, matches: &ArgMatches) -> Result<Router, Failed> {
    let routing = routing(path, matches)?;
    routing.notes.iter().filter(|note| note.is_grave).for_each(|note| eprintln!("sandur: {note}"));
    Router::new(routing).map_err(|error| Failed::new(format!("{path}: {error}")))
}

/// Hands every name on: those that were given, or the lines of stdin where none or `-` was given.
pub(super) fn each_name(
    given: Option<clap::parser::ValuesRef<'_, String>>,
    mut each: impl FnMut(&str),
) -> Result<(), Failed> {
    let given: Vec<&String> = given.into_iter().flatten().collect();
    if !given.is_empty() && given != ["-"] {
        given.into_iter().for_each(|name| each(name));
        return Ok(());
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failed::new(format!("cannot read names from stdin: {error}")))?;
        // The first field of a line of carbon is its name.
        if let Some(name) = line.split_whitespace().next() {
            each(name);
        }
    }
    Ok(())
}
