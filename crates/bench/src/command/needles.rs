//! The command `needles`: its arguments, and the data sets that it makes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_base::units::{ByteSize, parse_duration};
use sandur_bench::{pack, run};
use sandur_runtime::Env;

use crate::arguments::{argument, count, make_data_set, number, pid_file, process_of, text};

const DAY: Duration = Duration::from_secs(86_400);
/// The last hours of a day have its lines.
const SPAN: Duration = Duration::from_secs(6 * 3_600);

pub fn command(data_set: [Arg; 2]) -> Command {
    Command::new("needles")
        .about("Push days of logs to a running server and search them for ids, present and absent")
        .args(data_set)
        .arg(text("url", "URL", "The server, http://HOST:PORT, with days of logs or without").required(true))
        .arg(pid_file())
        .arg(
            text("data", "DIR", "A data set of a day; default: some are generated in --dir")
                .action(ArgAction::Append),
        )
        .arg(number("days", "5", "Number of generated days").conflicts_with("data"))
        .arg(text("size", "SIZE", "Approximate bytes of log text of a generated day").default_value("1GiB"))
        .arg(text("end", "TIME", "End of the generated days in RFC 3339; default: six hours ago"))
        .arg(text("dir", "DIR", "Directory of generated data sets").default_value("target/bench/needles"))
        .arg(
            Arg::new("ask-only")
                .long("ask-only")
                .action(ArgAction::SetTrue)
                .help("Do not push: the server holds the lines already"),
        )
        .arg(
            text("merge-time", "DURATION", "Time after the pushes in which the server merges blocks")
                .default_value("150s"),
        )
        .arg(number("ids", "40", "Number of ids of each form, present and absent"))
}

pub async fn measure(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let named: Vec<PathBuf> =
        arguments.get_many::<String>("data").into_iter().flatten().map(PathBuf::from).collect();
    let data = if named.is_empty() { days(env, arguments)? } else { named };
    let url = argument(arguments, "url").unwrap_or_default();
    let plan = run::NeedleSearch {
        address: url.trim_start_matches("http://").trim_end_matches('/').to_owned(),
        process: process_of(arguments)?,
        data,
        pushes: !arguments.get_flag("ask-only"),
        merge_time: parse_duration(argument(arguments, "merge-time").unwrap_or("0s"))?,
        ids: count(arguments, "ids"),
        seed: count(arguments, "seed"),
    };
    let report = run::needles(env, &plan, |news| eprintln!("{news}")).await?;
    print!("{}", report.text());
    match report.failures() {
        0 => Ok(()),
        failures => bail!("{failures} searches failed"),
    }
}

/// Generates the days that are not there yet. Returns their directories.
fn days(env: &Env, arguments: &ArgMatches) -> Result<Vec<PathBuf>> {
    let size: ByteSize = argument(arguments, "size").unwrap_or("1GiB").parse()?;
    let end = match argument(arguments, "end") {
        Some(text) => {
            text.parse::<jiff::Timestamp>().context("--end: write it like 2026-11-20T12:00:00Z")?.as_second()
        }
        None => env.now_ns() / 1_000_000_000 - SPAN.as_secs().cast_signed(),
    };
    let (instances, directory) = (count(arguments, "instances") as usize, argument(arguments, "dir"));
    let mut days = Vec::new();
    for day in 0..count(arguments, "days") {
        let path = PathBuf::from(directory.unwrap_or_default()).join(format!("day-{day}"));
        if !path.join("manifest.json").exists() {
            let to = end - (DAY.as_secs() * day).cast_signed();
            let (seed, from) = (count(arguments, "seed") + day, to - SPAN.as_secs().cast_signed());
            make_data_set(env, &path, pack::Wanted { seed, bytes: size.0, instances, from, to })?;
        }
        days.push(path);
    }
    Ok(days)
}
