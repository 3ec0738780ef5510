//! `sandur series`: the label sets of streams.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_runtime::Env;
use sandur_terminal::Failed;
use serde::Deserialize;

use super::caret;
use super::client::{self, Client};
use super::labels::{bounds, metrics_argument};
use super::moment;
use super::outcome::{Wanted, nothing, written};
use super::printer::text_of;
use super::results::LabelMap;
use super::samples;

/// The command.
pub fn command() -> Command {
    let matchers = Arg::new("matcher").value_name("SELECTOR").required(true).action(ArgAction::Append);
    let matchers = matchers.num_args(1..).help("Streams that match one of these, like '{app=\"api\"}'");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
    let json = json.help("Print one JSON object for each stream");
    let command = Command::new("series").about("List the label sets of streams");
    client::arguments(moment::arguments(command.arg(matchers).arg(json).arg(metrics_argument())))
}

#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    data: Vec<LabelMap>,
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let window = moment::window(matches, env.now_ns())?;
    let is_metrics = matches.get_flag("metrics");
    let mut pairs = bounds(&window, is_metrics).to_vec();
    let asked: Vec<&String> = matches.get_many("matcher").into_iter().flatten().collect();
    pairs.extend(asked.iter().map(|matcher| ("match[]", matcher.to_string())));
    let path = if is_metrics { "/api/v1/series" } else { "/loki/api/v1/series" };
    let body = client.get(path, &pairs).await.map_err(|refusal| {
        if is_metrics {
            return samples::refused(refusal);
        }
        // The mark is for the selector that is invalid.
        let wrong = asked.iter().find(|matcher| sandur_logql::diagnose(matcher).is_some());
        caret::explain(wrong.or(asked.first()).map_or("", |matcher| matcher), refusal)
    })?;
    let found: Series = serde_json::from_slice(&body)
        .map_err(|e| Failed::new(format!("the server's answer cannot be read: {e}")))?;
    if found.data.is_empty() {
        let (what, wanted) = if is_metrics { ("series", Wanted::Metrics) } else { ("streams", Wanted::Logs) };
        nothing(what, wanted, &window);
    }
    let mut shown: Vec<String> = match matches.get_flag("json") {
        true => found.data.iter().map(|labels| serde_json::json!(labels).to_string()).collect(),
        false => found.data.iter().map(text_of).collect(),
    };
    shown.sort();
    let mut out = std::io::stdout().lock();
    written(shown.iter().try_for_each(|series| writeln!(out, "{series}")))
}
