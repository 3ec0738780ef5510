//! `sandur labels`: lists names of labels, or the values of one.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_runtime::Env;
use sandur_terminal::Failed;
use serde::Deserialize;

use super::caret;
use super::client::{self, Client};
use super::escape::escaped;
use super::moment;
use super::outcome::written;
use super::samples;

/// The command.
pub fn command() -> Command {
    let name = Arg::new("name").value_name("NAME").help("List the values of this label");
    let query = Arg::new("query").long("query").value_name("SELECTOR");
    let query = query.help("Only of matching streams, like '{app=\"api\"}'");
    let command = Command::new("labels").about("List names of labels, or the values of one");
    client::arguments(moment::arguments(command.arg(name).arg(query).arg(metrics_argument())))
}

/// The argument `--metrics`.
pub fn metrics_argument() -> Arg {
    let metrics = Arg::new("metrics").long("metrics").action(ArgAction::SetTrue);
    metrics.help("For metrics instead of logs; selectors are PromQL")
}

/// The start and end of a window in the format of the API.
pub fn bounds(window: &moment::Window, is_metrics: bool) -> [(&'static str, String); 2] {
    let show = |ns: i64| match is_metrics {
        true => format!("{}.{:03}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) / 1_000_000),
        false => ns.to_string(),
    };
    [("start", show(window.start)), ("end", show(window.end))]
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
    let is_metrics = matches.get_flag("metrics");
    let mut pairs = bounds(&window, is_metrics).to_vec();
    let query = matches.get_one::<String>("query");
    pairs.extend(query.map(|query| (if is_metrics { "match[]" } else { "query" }, query.clone())));
    let base = if is_metrics { "/api/v1" } else { "/loki/api/v1" };
    let name = matches.get_one::<String>("name");
    let path = match name {
        None => format!("{base}/labels"),
        Some(name) => {
            let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
            format!("{base}/label/{}/values", name.replace('+', "%20"))
        }
    };
    let body = client.get(&path, &pairs).await;
    let body = body.map_err(|refusal| match is_metrics {
        true => samples::refused(refusal),
        false => caret::explain_any(query.map(String::as_str), refusal),
    })?;
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
