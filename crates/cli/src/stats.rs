//! `sandur stats`: prints the size of streams, from the index.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;
use sandur_terminal::Failed;
use serde::{Deserialize, Serialize};

use super::caret;
use super::client::{self, Client};
use super::moment;
use super::outcome::{Wanted, nothing, written};

/// The command.
pub fn command() -> Command {
    let query = Arg::new("query").value_name("SELECTOR").required(true);
    let query = query.help("The streams, like '{app=\"api\"}'");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON");
    let command = Command::new("stats").about("Print the size of streams, without reading them");
    client::arguments(moment::arguments(command.arg(query).arg(json)))
}

#[derive(Deserialize, Serialize)]
struct Stats {
    streams: u64,
    chunks: u64,
    entries: u64,
    bytes: u64,
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let window = moment::window(matches, env.now_ns())?;
    let query = matches.get_one::<String>("query").cloned().unwrap_or_default();
    let pairs =
        [("query", query.clone()), ("start", window.start.to_string()), ("end", window.end.to_string())];
    let body = client.get("/loki/api/v1/index/stats", &pairs).await;
    let body = body.map_err(|refusal| caret::explain(&query, refusal))?;
    let stats: Stats = serde_json::from_slice(&body)
        .map_err(|e| Failed::new(format!("the server's answer cannot be read: {e}")))?;
    let mut out = std::io::stdout().lock();
    if matches.get_flag("json") {
        return written(writeln!(out, "{}", serde_json::json!(stats)));
    }
    let (start, end) = (window.zone.show(window.start), window.zone.show(window.end));
    if stats.entries == 0 {
        nothing("lines", Wanted::Logs, &window);
    }
    let Stats { streams, chunks, entries, bytes } = stats;
    written(writeln!(
        out,
        "range    {start} to {end}\nstreams  {streams}\nlines    {entries}\nbytes    {bytes} ({})\n\
         chunks   {chunks}",
        ByteSize(bytes)
    ))
}
