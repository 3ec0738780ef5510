//! `sandur-bench paths`: points and small calls of Graphite's metrics.

use anyhow::Result;
use clap::{ArgMatches, Command};
use sandur_bench::run;
use sandur_runtime::Env;

use crate::arguments::{argument, count, number, pid_file, process_of, text};

/// Returns the options of the command.
pub fn command() -> Command {
    Command::new("paths")
        .about("Measure a running server of Graphite's metrics: points of new and known paths, small calls")
        .arg(text("url", "URL", "The server of finds and renders, http://HOST:PORT").required(true))
        .arg(text("carbon", "ADDR", "Send points to this HOST:PORT first; default: they are stored already"))
        .arg(text("flush", "URL", "Post to this URL after each load of points"))
        .arg(pid_file())
        .arg(number("services", "100", "Number of services; each has 10,000 paths"))
        .arg(number("points", "20", "Points of each path while it is new"))
        .arg(number("known-points", "0", "Further points of each path, measured apart"))
        .arg(number("calls", "60", "How often each call is sent"))
        .arg(text("end", "SECOND", "The Unix time after the last point; default: the current minute"))
}

/// Runs the measurement and prints its tables.
pub async fn measure(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let owned = |name| argument(arguments, name).map(str::to_owned);
    let now_s = env.now_ns() / 1_000_000_000;
    let end_s = argument(arguments, "end").map_or(Ok(now_s), str::parse::<i64>)?;
    let plan = run::Paths {
        carbon: owned("carbon"),
        url: owned("url").unwrap_or_default(),
        flush: owned("flush"),
        process: process_of(arguments)?,
        services: count(arguments, "services").clamp(1, 1_000),
        points: [count(arguments, "points"), count(arguments, "known-points")],
        calls: count(arguments, "calls"),
        end_s: end_s - end_s % 60,
    };
    let report = run::paths(env, &plan, |news| eprintln!("{news}")).await?;
    eprintln!("the points end before {}", plan.end_s);
    print!("{}", report.text());
    Ok(())
}
