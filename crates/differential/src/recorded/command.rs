//! The command line: `sandur-differential record LANGUAGE`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use sandur_runtime::Env;

use super::choice::Choice;
use super::file::Recording;
use super::{graphite, logql, promql};
use crate::prometheus::peers::{Peer, Server};
use crate::prometheus::series::series;
use crate::servers::Loki;

/// How many cases are drawn at most, for each one that is wanted. Most are not asked for.
const TRIES_PER_CASE: u64 = 400;

/// Returns the description of the arguments.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        text(name, "N", help).default_value(default).value_parser(value_parser!(u64))
    };
    let language = |name: &'static str, program: &'static str, version: &'static str, count: &'static str| {
        Command::new(name)
            .about(format!("Record answers of {version}"))
            .arg(text("program", "PROGRAM", "Path of the program").required(true))
            .arg(text("original", "NAME", "Name and version of the program").default_value(version))
            .arg(number("seed", "1", "Seed of data and queries"))
            .arg(number("cases", count, "Number of cases"))
            .after_help(format!("PROGRAM is {program}."))
    };
    Command::new("record")
        .about("Record answers of Prometheus, Loki or graphite-web, for the tests that run without them")
        .subcommand_required(true)
        .subcommand(language(promql::LANGUAGE, "Prometheus", "Prometheus 3.16.0", "3200"))
        .subcommand(language(logql::LANGUAGE, "Loki", "Loki 3.7.8", "1600"))
        .subcommand(language(graphite::LANGUAGE, "a Python with graphite-web", "graphite-web 1.1.10", "3200"))
}

/// Runs the command.
pub fn run(env: &Env, matches: &ArgMatches) -> Result<ExitCode> {
    let Some((language, matches)) = matches.subcommand() else { return Ok(ExitCode::FAILURE) };
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let program = matches.get_one::<String>("program").map(PathBuf::from).unwrap_or_default();
    let (seed, wanted) = (number("seed"), number("cases"));
    let (tries, wanted) = (wanted * TRIES_PER_CASE, usize::try_from(wanted)?);
    let directory = tempfile::tempdir().context("cannot make a directory")?;
    let (language, data, choice, drawn) = match language {
        promql::LANGUAGE => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
            let mut theirs = runtime.block_on(Server::prometheus(env, &program, directory.path()))?;
            theirs.push(&series(seed))?;
            let mut pair = promql::pair(Peer::Server(theirs), seed)?;
            let mut choice = Choice::new(wanted, promql::parts(), promql::LEFT_OUT);
            let drawn = promql::record(&mut pair, seed, &mut choice, tries)?;
            (promql::LANGUAGE, promql::data(seed), choice, drawn)
        }
        logql::LANGUAGE => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
            let loki = runtime.block_on(Loki::start(env, &program, directory.path()))?;
            let mut pair = logql::Pair::over(loki, seed)?;
            let mut choice = Choice::new(wanted, logql::parts(), logql::LEFT_OUT);
            let drawn = logql::record(&mut pair, seed, &mut choice, tries)?;
            (logql::LANGUAGE, logql::data(seed), choice, drawn)
        }
        _ => {
            let mut pair = graphite::pair(&program, directory.path(), seed)?;
            let mut choice = Choice::new(wanted, graphite::parts(), graphite::LEFT_OUT);
            let drawn = graphite::record(&mut pair, seed, &mut choice, tries)?;
            (graphite::LANGUAGE, graphite::data(seed), choice, drawn)
        }
    };
    let original = matches.get_one::<String>("original").cloned().unwrap_or_default();
    let recording = Recording { language, original, seed, cases: drawn.cases };
    drawn.dropped.iter().for_each(|(reason, count)| println!("  {count} dropped: {reason}"));
    drawn.explained.iter().for_each(|(rule, count)| println!("  {count} explained by rule {rule}"));
    let size = recording.write(&data)?;
    println!("{} cases of {language} in {size} bytes", recording.cases.len());
    choice.report()?;
    let is_clean = drawn.findings == 0 && choice.is_complete();
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
