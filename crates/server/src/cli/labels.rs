//! `sandur labels`: names of labels, or the values of one.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use sandur_base::Env;
use serde::Deserialize;

use super::caret;
use super::client::{self, Client};
use super::escape::escaped;
use super::moment;
use super::query::written;
use crate::failed_command::Failed;

/// The command.
pub fn command() -> Command {
    let name = Arg::new("name").value_name("NAME").help("List the values of this label");
    let query = Arg::new("query").long("query").value_name("SELECTOR");
    let query = query.help("Only of streams that match, like '{app=\"api\"}'");
    let command = Command::new("labels").about("List names of labels, or the values of one");
    client::arguments(moment::arguments(command.arg(name).arg(query)))
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    data: Vec<String>,
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let window = moment::window(matches, env.now_ns())?;
    let mut pairs = vec![("start", window.start.to_string()), ("end", window.end.to_string())];
    let query = matches.get_one::<String>("query");
    pairs.extend(query.map(|query| ("query", query.clone())));
    let name = matches.get_one::<String>("name");
    let path = match name {
        None => "/loki/api/v1/labels".to_owned(),
        Some(name) => {
            let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
            format!("/loki/api/v1/label/{}/values", name.replace('+', "%20"))
        }
    };
    let body = client.get(&path, &pairs).await;
    let body = body.map_err(|refusal| caret::explain_any(query.map(String::as_str), refusal))?;
    let found: Names = serde_json::from_slice(&body)
        .map_err(|e| Failed::new(format!("the server's answer cannot be read: {e}")))?;
    if found.data.is_empty() {
        let (start, end) = (window.zone.show(window.start), window.zone.show(window.end));
        match name {
            Some(name) => eprintln!("no values of {name} from {start} to {end}: `sandur labels` lists names"),
            None => eprintln!("no labels from {start} to {end}: look further back with --since 7d"),
        }
    }
    let mut out = std::io::stdout().lock();
    written(found.data.iter().try_for_each(|name| writeln!(out, "{}", escaped(name))))
}
