//! `sandur-bench rules`: the cost of recording and alerting rules.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{ArgAction, ArgMatches, Command};
use sandur_bench::run;
use sandur_runtime::Env;

use crate::arguments::{argument, count, number, text};

/// Returns the options of the command.
pub fn command() -> Command {
    Command::new("rules")
        .about("Measure a running server that evaluates rules over series that arrive each minute")
        .arg(text("write", "FILE", "Only write the rule file, for the server to be started with"))
        .arg(text("address", "ADDR", "HOST:PORT of remote write").default_value("127.0.0.1:3100"))
        .arg(text("evaluator", "ADDR", "HOST:PORT of what evaluates the rules; default: that of --address"))
        .arg(text("pid", "N", "A process of the server; may be repeated").action(ArgAction::Append))
        .arg(number("series", "1000000", "Series, of which each has a sample a minute"))
        .arg(number("rules", "10000", "Rules; each reads an equal part of the series"))
        .arg(number("before", "180", "Seconds before the measurement"))
        .arg(number("seconds", "180", "Seconds of the measurement"))
}

/// Runs the measurement and prints its figures.
pub async fn measure(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let rules = count(arguments, "rules");
    if let Some(path) = argument(arguments, "write") {
        return std::fs::write(path, run::rule_file(rules)).with_context(|| path.to_owned());
    }
    let address = argument(arguments, "address").unwrap_or_default().to_owned();
    let process = |text: &String| text.parse().map(run::Process).with_context(|| format!("--pid {text}"));
    let processes = arguments.get_many::<String>("pid").into_iter().flatten().map(process);
    let plan = run::Rules {
        evaluator: argument(arguments, "evaluator").unwrap_or(&address).to_owned(),
        address,
        processes: processes.collect::<Result<_>>()?,
        series: count(arguments, "series"),
        rules,
        before: Duration::from_secs(count(arguments, "before")),
        length: Duration::from_secs(count(arguments, "seconds")),
    };
    print!("{}", run::rules(env, &plan, |news| eprintln!("{news}")).await?.text());
    Ok(())
}
