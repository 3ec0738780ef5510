//! The command line: `sandur-differential prometheus`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sandur_promql::Times;
use sandur_runtime::Env;

use super::ask::{Ask, random_ask};
use super::expression::{Expression, Kind};
use super::peers::{Engine, Peer, Server};
use super::rules;
use super::run::{Pair, Report};
use super::series::{BEGIN_MS, LENGTH_MS, series};

/// Returns the description of the arguments.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        text(name, "N", help).default_value(default).value_parser(value_parser!(u64))
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("prometheus")
        .about("Send the same queries to Prometheus and Sandur and compare the answers")
        .arg(
            text("prometheus", "PROGRAM", "Path of the Prometheus program")
                .default_value(".tools/bin/prometheus"),
        )
        .arg(text(
            "sandur",
            "PROGRAM",
            "Path of our program; without it, the engine over series in this process is used",
        ))
        .arg(number("seed", "1", "Seed of series and queries"))
        .arg(number("seeds", "1", "Number of consecutive seeds"))
        .arg(number("queries", "5000", "Queries per seed"))
        .arg(text("case", "N", "Send only this query of the seed").value_parser(value_parser!(u64)))
        .arg(text(
            "query",
            "PROMQL",
            "Send only this query, over the complete time of the series or at one time",
        ))
        .arg(text("time", "MS", "Evaluate the query at this time").value_parser(value_parser!(i64)))
        .arg(
            text("step", "MS", "Step of a range query")
                .default_value("60000")
                .value_parser(value_parser!(i64)),
        )
        .arg(flag("rules", "Print the rules and exit"))
}

/// Runs the command.
pub fn run(env: &Env, matches: &ArgMatches) -> Result<ExitCode> {
    if matches.get_flag("rules") {
        print!("{}", rules::table());
        return Ok(ExitCode::SUCCESS);
    }
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut clean = true;
    for seed in number("seed")..number("seed") + number("seeds") {
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let series = series(seed);
        let path = |name: &str| matches.get_one::<String>(name).map(PathBuf::from);
        let program = path("prometheus").unwrap_or_default();
        let theirs = runtime.block_on(Server::prometheus(env, &program, directory.path()));
        let mut theirs = theirs.context("Prometheus")?;
        theirs.push(&series).context("Prometheus")?;
        let ours = match path("sandur") {
            None => Peer::Engine(Engine::over(&series)?),
            Some(program) => {
                let ours = runtime.block_on(Server::sandur(env, &program, directory.path()));
                let mut ours = ours.context("Sandur")?;
                ours.push(&series).context("Sandur")?;
                Peer::Server(ours)
            }
        };
        let mut pair = Pair { theirs: Peer::Server(theirs), ours };
        let report = ask_all(&mut pair, matches, seed, number("queries"))?;
        println!("seed {seed}, {:.0} s", env.monotonic().as_secs_f64());
        report.print();
        clean &= report.findings.is_empty();
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends half of the queries while the samples are in memory, and the rest after they were flushed.
fn ask_all(pair: &mut Pair, matches: &ArgMatches, seed: u64, queries: u64) -> Result<Report> {
    let mut report = Report::default();
    if let Some(ask) = single(matches, seed) {
        println!("{ask}\nPrometheus: {:#.4000?}\nwe: {:#.4000?}", pair.theirs.ask(&ask), pair.ours.ask(&ask));
        report.ask(pair, "command line", &ask);
        return Ok(report);
    }
    for index in 0..queries {
        if index == queries / 2
            && let Peer::Server(ours) = &mut pair.ours
        {
            ours.flush()?;
        }
        report.ask(pair, &format!("--seed {seed} --case {index}"), &random_ask(seed, index));
    }
    Ok(report)
}

fn single(matches: &ArgMatches, seed: u64) -> Option<Ask> {
    if let Some(index) = matches.get_one::<u64>("case") {
        return Some(random_ask(seed, *index));
    }
    let expression = Expression::text(Kind::Vector, matches.get_one::<String>("query")?.clone());
    let times = match matches.get_one::<i64>("time") {
        Some(&time) => Times { start: time, end: time, step: 0 },
        None => Times { start: BEGIN_MS, end: BEGIN_MS + LENGTH_MS, step: *matches.get_one::<i64>("step")? },
    };
    Some(Ask { expression, times })
}
