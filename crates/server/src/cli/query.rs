//! `sandur query`: asks a server and shows the answer.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::Env;

use super::client::{self, Client};
use super::failed::Failed;
use super::moment;
use super::paint::Paint;
use super::results::{self, OUTPUTS, Output, Printer};

/// The command.
pub fn command() -> Command {
    let query = Arg::new("query").value_name("QUERY").required(true);
    let query =
        query.help("LogQL, like '{app=\"api\"} |= \"timeout\"' or 'sum by (app) (rate({env=\"prod\"}[5m]))'");
    let limit = Arg::new("limit").long("limit").value_name("N").default_value("100");
    let limit = limit.value_parser(clap::value_parser!(u32)).help("Most entries of a log query");
    let forward = Arg::new("forward").long("forward").action(ArgAction::SetTrue).help("Oldest entries first");
    let step =
        Arg::new("step").long("step").value_name("DURATION").help("Distance of a metric query's points");
    let instant = Arg::new("instant").long("instant").action(ArgAction::SetTrue);
    let instant = instant.help("Ask a metric query at one instant (--to, by default now) instead of a range");
    let output = Arg::new("output").long("output").short('o').value_parser(OUTPUTS).default_value("text");
    let output = output.help("text for people, json for one object per line, raw for lines and values alone");
    let command = Command::new("query")
        .about("Query logs and metrics of logs")
        .after_help("Exit codes: 0 answered (also when nothing was found), 1 failed, 2 wrong usage.")
        .arg(query);
    let command = moment::arguments(command).arg(limit).arg(forward).arg(step).arg(instant).arg(output);
    client::arguments(command)
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let (start, end) = moment::range(matches, env.now_ns())?;
    let query = matches.get_one::<String>("query").cloned().unwrap_or_default();
    let limit = matches.get_one::<u32>("limit").copied().unwrap_or(100);
    let forward = matches.get_flag("forward");
    let mut pairs = vec![("query", query), ("limit", limit.to_string())];
    let path = if matches.get_flag("instant") {
        pairs.push(("time", end.to_string()));
        "/loki/api/v1/query"
    } else {
        let direction = if forward { "forward" } else { "backward" };
        pairs.extend([
            ("start", start.to_string()),
            ("end", end.to_string()),
            ("direction", direction.to_owned()),
        ]);
        if let Some(step) = matches.get_one::<String>("step") {
            pairs.push(("step", step.clone()));
        }
        "/loki/api/v1/query_range"
    };
    let body = client.get(path, &pairs).await?;
    let answer = results::read(&body)?;
    let output = Output::from_word(matches.get_one::<String>("output").map_or("text", String::as_str));
    let out = BufWriter::new(std::io::stdout().lock());
    let mut printer = Printer { out, output, paint: Paint::for_stdout() };
    let printed = printer.answer(&answer.data, !forward).and_then(|()| printer.out.flush());
    for warning in &answer.warnings {
        eprintln!("warning: {warning}");
    }
    written(printed)
}

/// A reader that closed its pipe (`| head`) has what it wanted.
pub fn written(outcome: std::io::Result<()>) -> Result<ExitCode, Failed> {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failed::new(format!("cannot write the answer: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
