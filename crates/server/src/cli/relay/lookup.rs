//! `sandur relay lookup`: prints the targets of names.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_relay::lookup::{Destinations, lookup};
use sandur_relay::router::Scratch;
use sandur_terminal::Failed;
use serde_json::json;

use super::configuration;

/// The command.
pub fn command() -> Command {
    let config = Arg::new("config").long("config").value_name("FILE").required(true);
    let config =
        config.help("The relay's configuration: carbon's, carbon-c-relay's, carbon-relay-ng's or ours");
    let paths = Arg::new("path").value_name("PATH").action(ArgAction::Append);
    let paths = paths.help("Names; without any, or with -, the first field of each line of stdin");
    let json =
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print one JSON object per line");
    Command::new("lookup")
        .about("Print the targets of names while all targets are live")
        .args([config, json, paths])
        .args(configuration::arguments())
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let path = matches.get_one::<String>("config").map_or("", String::as_str);
    let router = configuration::router(path, matches)?;
    let mut scratch = Scratch::default();
    let as_json = matches.get_flag("json");
    configuration::each_name(matches.get_many("path"), |name| {
        let found = lookup(&router, name.as_bytes(), &mut scratch);
        match as_json {
            true => println!("{}", object(name, &found)),
            false => println!("{name}\t{}", text(name, &found)),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Formats targets, with the name that they receive if it differs, and other effects on the name.
pub(super) fn text(name: &str, found: &Destinations) -> String {
    let target = |(target, own): &(String, String)| match own == name {
        true => target.clone(),
        false => format!("{target} as {own}"),
    };
    let mut parts: Vec<String> = found.targets.iter().map(target).collect();
    parts.extend(found.computed.iter().map(|series| format!("computed into {series}")));
    parts.extend(found.end.filter(|_| found.targets.is_empty()).map(|end| format!("nowhere: {end}")));
    parts.join(", ")
}

fn object(name: &str, found: &Destinations) -> serde_json::Value {
    let targets: Vec<_> =
        found.targets.iter().map(|(target, name)| json!({ "target": target, "name": name })).collect();
    let end = found.end.map(|end| end.to_string());
    json!({ "name": name, "targets": targets, "computed": found.computed, "ended": end })
}
