//! Reads the relay's configuration file for commands.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use clap::{Arg, ArgMatches};
use sandur_relay::config::{Format, read};
use sandur_relay::model::Routing;
use sandur_relay::router::Router;
use sandur_terminal::Failed;

/// Options for reading the file.
pub(super) fn arguments() -> [Arg; 2] {
    let names = Format::NAMES.map(|(name, _)| name);
    let format = Arg::new("format").long("format").value_name("FORM").value_parser(names);
    let format = format.help("Format of the file; by default it is detected from the text");
    let section = Arg::new("section").long("section").value_name("NAME");
    let section = section.help("Section of carbon.conf; by default relay or else aggregator");
    [format, section]
}

/// Reads a file.
pub(super) fn routing(path: &str, matches: &ArgMatches) -> Result<Routing, Failed> {
    let format = matches.get_one::<String>("format").and_then(|name| Format::named(name));
    let section = matches.get_one::<String>("section").map(String::as_str);
    read(Path::new(path), format, section).map_err(|error| Failed::new(error.to_string()))
}

/// Reads a file and builds its rings. Lines that are not supported are reported on stderr.
pub(super) fn router(path: &str, matches: &ArgMatches) -> Result<Router, Failed> {
    let routing = routing(path, matches)?;
    routing.notes.iter().filter(|note| note.is_grave()).for_each(|note| eprintln!("sandur: {note}"));
    Router::new(routing).map_err(|error| Failed::new(format!("{path}: {error}")))
}

/// Passes every name to `each`: the given ones, or the lines of stdin if there are none or only `-`.
pub(super) fn each_name(
    given: Option<clap::parser::ValuesRef<'_, String>>,
    mut each: impl FnMut(&str),
) -> Result<(), Failed> {
    let given: Vec<&String> = given.into_iter().flatten().collect();
    if !given.is_empty() && given != ["-"] {
        given.into_iter().for_each(|name| each(name));
        return Ok(());
    }
    each_name_of(std::io::stdin().lock(), "stdin", each)
}

/// Passes the names in a file to `each`.
pub(super) fn each_name_in(path: &str, each: impl FnMut(&str)) -> Result<(), Failed> {
    let file = File::open(path).map_err(|error| Failed::new(format!("cannot read {path}: {error}")))?;
    each_name_of(BufReader::new(file), path, each)
}

/// The name is the first field of a carbon line.
fn each_name_of(lines: impl BufRead, shown: &str, mut each: impl FnMut(&str)) -> Result<(), Failed> {
    for line in lines.lines() {
        let line = line.map_err(|error| Failed::new(format!("cannot read names from {shown}: {error}")))?;
        if let Some(name) = line.split_whitespace().next() {
            each(name);
        }
    }
    Ok(())
}
