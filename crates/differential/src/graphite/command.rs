//! The command line: `sandur-differential graphite`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sandur_runtime::Env;

use super::ask::{Ask, random_ask};
use super::expression::Expression;
use super::oracle::Oracle;
use super::ours::Ours;
use super::rules;
use super::run::{Pair, Report};
use super::series::Known;

/// Returns the description of the arguments.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        text(name, "N", help).default_value(default).value_parser(value_parser!(u64))
    };
    Command::new("graphite")
        .about("Send the same requests to graphite-web and Sandur and compare the answers")
        .arg(
            text("python", "PROGRAM", "Path of a Python with graphite-web")
                .default_value(".tools/graphite-web/bin/python"),
        )
        .arg(number("seed", "1", "Seed of series and requests"))
        .arg(number("seeds", "1", "Number of consecutive seeds"))
        .arg(number("queries", "5000", "Requests per seed"))
        .arg(text("case", "N", "Send only this request of the seed").value_parser(value_parser!(u64)))
        .arg(text("query", "TARGET", "Send only this target"))
        .arg(text("from", "TIME", "Start of its time range").default_value("-1h"))
        .arg(Arg::new("rules").long("rules").action(ArgAction::SetTrue).help("Print the rules and exit"))
}

/// Runs the command.
pub fn run(env: &Env, matches: &ArgMatches) -> Result<ExitCode> {
    if matches.get_flag("rules") {
        print!("{}", rules::table());
        return Ok(ExitCode::SUCCESS);
    }
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let python = matches.get_one::<String>("python").map(PathBuf::from).unwrap_or_default();
    let mut clean = true;
    for seed in number("seed")..number("seed") + number("seeds") {
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let known = Known::random(seed);
        let theirs = Oracle::start(&python, directory.path(), &known)?;
        let mut pair = Pair { theirs, ours: Ours::over(known)? };
        let mut report = Report::default();
        match single(matches, seed) {
            Some(ask) => {
                println!("{ask}\ngraphite-web: {:.3000?}", pair.theirs.ask(&ask, false)?);
                println!("we: {:.3000?}", pair.ours.ask(&ask));
                report.ask(&mut pair, "command line", &ask)?;
            }
            None => {
                for index in 0..number("queries") {
                    let origin = format!("--seed {seed} --case {index}");
                    report.ask(&mut pair, &origin, &random_ask(seed, index))?;
                }
            }
        }
        println!("seed {seed}, {:.0} s", env.monotonic().as_secs_f64());
        report.print();
        clean &= report.findings.is_empty();
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn single(matches: &ArgMatches, seed: u64) -> Option<Ask> {
    if let Some(index) = matches.get_one::<u64>("case") {
        return Some(random_ask(seed, *index));
    }
    let target = Expression::text(matches.get_one::<String>("query")?.clone());
    Some(Ask { targets: vec![target], others: vec![("from", matches.get_one::<String>("from")?.clone())] })
}
