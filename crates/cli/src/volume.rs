//! `sandur volume`: prints which streams hold the most bytes.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;
use sandur_terminal::Failed;

use super::caret;
use super::client::{self, Client};
use super::moment;
use super::outcome::{Wanted, nothing, written};
use super::printer::text_of;
use super::results::{self, Data, VectorSeries};

/// The command.
pub fn command() -> Command {
    let query = Arg::new("query").value_name("SELECTOR").default_value("{}");
    let query = query.help("The streams, like '{app=\"api\"}'");
    let limit = Arg::new("limit").long("limit").value_name("N").default_value("30");
    let limit = limit.value_parser(clap::value_parser!(u32).range(1..)).help("Maximum number of groups");
    let by = Arg::new("by").long("by").value_name("LABELS").visible_alias("targetLabels");
    let by = by.help("Labels to group by, separated by commas [default: those of the selector]");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
    let json = json.help("Print one JSON object for each group");
    let command = Command::new("volume").about("List the streams with the most bytes");
    client::arguments(moment::arguments(command.args([query, limit, by, json])))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let window = moment::window(matches, env.now_ns())?;
    let query = matches.get_one::<String>("query").cloned().unwrap_or_default();
    let mut pairs = vec![
        ("query", query.clone()),
        ("start", window.start.to_string()),
        ("end", window.end.to_string()),
        ("limit", matches.get_one::<u32>("limit").copied().unwrap_or(30).to_string()),
    ];
    if let Some(labels) = matches.get_one::<String>("by") {
        pairs.push(("targetLabels", labels.clone()));
    }
    let body = client.get("/loki/api/v1/index/volume", &pairs).await;
    let body = body.map_err(|refusal| caret::explain(&query, refusal))?;
    let Data::Vector(groups) = results::read(&body)?.data else {
        return Err(Failed::new("the server's answer is not a volume: is it a Loki-compatible server?"));
    };
    if groups.is_empty() {
        nothing("lines", Wanted::Logs, &window);
    }
    let line = |group: &VectorSeries| {
        let bytes: u64 = group.value.1.parse().unwrap_or(0);
        if matches.get_flag("json") {
            serde_json::json!({ "labels": group.metric, "bytes": bytes }).to_string()
        } else {
            format!("{:>10}  {}", ByteSize(bytes).to_string(), text_of(&group.metric))
        }
    };
    let mut out = std::io::stdout().lock();
    written(groups.iter().try_for_each(|group| writeln!(out, "{}", line(group))))
}
