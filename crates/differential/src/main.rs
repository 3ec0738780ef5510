//! `sandur-differential`: the command line. `cargo xtask differential` builds everything and runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sandur_differential::ask::{Ask, Shape, random_query};
use sandur_differential::corpus::{HALF_NS, MIDDLE_NS, SECOND_NS};
use sandur_differential::endpoints::random_endpoint;
use sandur_differential::grammar::Query;
use sandur_differential::run::Report;
use sandur_differential::servers::{self, Programs, Servers};
use sandur_differential::{graphite, prometheus, recorded, rules, templates};
use sandur_runtime::Env;

fn main() -> Result<ExitCode> {
    let matches = command().get_matches();
    if let Some(("prometheus", matches)) = matches.subcommand() {
        return prometheus::command::run(&Env::system(1), matches);
    }
    if let Some(("graphite", matches)) = matches.subcommand() {
        return graphite::command::run(&Env::system(1), matches);
    }
    if let Some(("record", matches)) = matches.subcommand() {
        return recorded::command::run(&Env::system(1), matches);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    if matches.get_flag("rules") {
        print!("{}", rules::table());
        return Ok(ExitCode::SUCCESS);
    }
    runtime.block_on(whole(&Env::system(1), &matches))
}

fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        text(name, "N", help).default_value(default).value_parser(value_parser!(u64))
    };
    Command::new("sandur-differential")
        .about("Send the same requests to Loki and Sandur and compare the answers")
        .subcommand(prometheus::command::command())
        .subcommand(graphite::command::command())
        .subcommand(recorded::command::command())
        .arg(text("loki", "PROGRAM", "Path of the Loki program").default_value(".tools/bin/loki"))
        .arg(text("sandur", "PROGRAM", "Path of our program").default_value("target/debug/sandur"))
        .arg(text("templates", "PATH", "Folder pkg/logql/bench/queries of Loki's sources"))
        .arg(number("seed", "1", "Seed of logs and queries"))
        .arg(number("seeds", "1", "Number of consecutive seeds"))
        .arg(number("queries", "5000", "Random queries per seed"))
        .arg(number("endpoints", "600", "Random requests to other endpoints per seed"))
        .arg(text("case", "N", "Send only this random query of the seed").value_parser(value_parser!(u64)))
        .arg(text("query", "LOGQL", "Send only this query"))
        .arg(text("time", "NS", "Evaluate the query at this time instead of over a range"))
        .arg(text("step", "STEP", "Step of the query").default_value("60"))
        .arg(
            Arg::new("blocks")
                .long("blocks")
                .action(ArgAction::SetTrue)
                .help("Compare Sandur over memory with Sandur over blocks, without Loki"),
        )
        .arg(Arg::new("serve").long("serve").action(ArgAction::SetTrue).help(
            "Send no requests: print the addresses of both servers and keep them running until interrupted",
        ))
        .arg(Arg::new("rules").long("rules").action(ArgAction::SetTrue).help("Print the rules and exit"))
}

async fn whole(env: &Env, matches: &ArgMatches) -> Result<ExitCode> {
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or_default();
    let path = |name: &str| matches.get_one::<String>(name).map(PathBuf::from);
    let (loki, sandur) = (path("loki"), path("sandur").unwrap_or_default());
    let loki = loki.filter(|_| !matches.get_flag("blocks"));
    let templates = path("templates").map(|folder| templates::read(&folder)).transpose()?;
    let mut clean = true;
    for seed in number("seed")..number("seed") + number("seeds") {
        let directory = tempfile::tempdir().context("cannot make a directory")?;
        let programs = Programs { loki: loki.as_deref(), sandur: &sandur, directory: directory.path() };
        let mut servers = start(env, &programs, seed).await?;
        if matches.get_flag("serve") {
            println!("Loki at {}, we at {}", servers.loki.address(), servers.ours.address());
            std::future::pending::<()>().await;
        }
        let mut report = Report::default();
        if let Some(ask) = single(matches, seed) {
            print_both(&mut servers, &ask);
            report.ask(&mut servers, "command line".to_owned(), &ask);
        } else {
            let first = if seed == number("seed") { templates.as_deref() } else { None };
            all(&mut servers, &mut report, seed, first, &number)?;
        }
        println!("seed {seed}, {:.0} s", env.monotonic().as_secs_f64());
        report.print();
        clean &= report.findings.is_empty();
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn start(env: &Env, programs: &Programs<'_>, seed: u64) -> Result<Servers> {
    let mut servers = servers::start(env, programs).await?;
    servers.push(seed)?;
    Ok(servers)
}

/// Sends the templates and half of the random requests while the rows are in memory, and the rest after
/// they were flushed.
fn all(
    servers: &mut Servers,
    report: &mut Report,
    seed: u64,
    templates: Option<&[templates::Template]>,
    number: &dyn Fn(&str) -> u64,
) -> Result<()> {
    for template in templates.unwrap_or_default() {
        for ask in template.asks() {
            report.ask(servers, template.name.clone(), &ask);
        }
    }
    let (queries, endpoints) = (number("queries"), number("endpoints"));
    for half in 0..2 {
        for index in half * queries / 2..(half + 1) * queries / 2 {
            report.ask(servers, format!("--seed {seed} --case {index}"), &random_query(seed, index));
        }
        for index in half * endpoints / 2..(half + 1) * endpoints / 2 {
            report.ask(
                servers,
                format!("seed {seed}, endpoint {index}"),
                &random_endpoint(seed, index, half == 1),
            );
        }
        servers.ours.flush()?;
        servers.loki.flush()?;
    }
    Ok(())
}

fn single(matches: &ArgMatches, seed: u64) -> Option<Ask> {
    if let Some(index) = matches.get_one::<u64>("case") {
        return Some(random_query(seed, *index));
    }
    let query = Query::Text(matches.get_one::<String>("query")?.clone());
    let ask = match matches.get_one::<String>("time") {
        Some(time) => Ask::new("query", Shape::Query).with("time", time),
        None => Ask::new("query_range", Shape::Query)
            .with("start", MIDDLE_NS - HALF_NS - 60 * SECOND_NS)
            .with("end", MIDDLE_NS + HALF_NS + 60 * SECOND_NS)
            .with("step", matches.get_one::<String>("step")?),
    };
    Some(ask.with_query(query))
}

fn print_both(servers: &mut Servers, ask: &Ask) {
    println!("{ask}");
    for (name, answer) in [("Loki", servers.loki.ask(ask)), ("we", servers.ours.ask(ask))] {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        println!("{name}: {} {}", answer.status, text.chars().take(3000).collect::<String>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
