//! `sandur-bench`: generated input and measurements from the command line.

mod arguments;
mod command;

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sandur_base::units::{ByteSize, parse_duration};
use sandur_bench::services::Services;
use sandur_bench::{live, pack, run};
use sandur_runtime::{Env, environment};

use crate::arguments::{argument, count, make_data_set, number, pid_file, process_of, text};

fn main() -> Result<()> {
    let matches = command().get_matches();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let env = Env::system(1);
    runtime.block_on(async {
        match matches.subcommand() {
            Some(("generate", arguments)) if arguments.contains_id("to") => stream(&env, arguments).await,
            Some(("generate", arguments)) => generate(&env, arguments),
            Some(("run", arguments)) => measure(&env, arguments).await,
            Some(("server", arguments)) => serve(&env, arguments).await,
            Some(("tail", arguments)) => follow(&env, arguments).await,
            Some(("cold", arguments)) => measure_cold(&env, arguments).await,
            Some(("acks", arguments)) => measure_acks(&env, arguments).await,
            Some(("wide", arguments)) => measure_wide(&env, arguments).await,
            Some(("churn", arguments)) => measure_churn(&env, arguments).await,
            Some(("dash", arguments)) => measure_dash(&env, arguments).await,
            Some(("paths", arguments)) => command::paths::measure(&env, arguments).await,
            Some(("import", arguments)) => command::imports::measure(&env, arguments).await,
            Some(("rules", arguments)) => command::rules::measure(&env, arguments).await,
            Some(("needles", arguments)) => command::needles::measure(&env, arguments).await,
            _ => unreachable!("clap asks for a subcommand"),
        }
    })
}

fn command() -> Command {
    let seed = || number("seed", "1", "Seed; the same seed gives the same logs");
    let instances = || number("instances", "8", "Instances of each of the nine services");
    let size = || text("size", "SIZE", "Approximate bytes of log text").default_value("64MiB");
    let generate = Command::new("generate")
        .about("Generate the logs of a shop: as a data set in files, or live to a server")
        .args([seed(), instances(), size().conflicts_with("to")])
        .arg(text("out", "DIR", "Directory of the data set").required_unless_present("to"))
        .arg(
            text("span", "DURATION", "Time that the data set covers")
                .default_value("6h")
                .conflicts_with("to"),
        )
        .arg(text("end", "TIME", "Its end in RFC 3339; default: now").conflicts_with("to"))
        .arg(text("to", "ADDR", "Push to this server instead, in real time").conflicts_with("out"))
        .arg(
            text("rate", "N", "Customers' requests per second; each has about two lines")
                .default_value("20")
                .value_parser(value_parser!(f64)),
        )
        .arg(text("for", "DURATION", "Stop after this time").requires("to"))
        .arg(text("tenant", "ID", "X-Scope-OrgID of the pushes").requires("to"));
    let run = Command::new("run")
        .about("Measure the server: push, wait until idle, query; medians (and spreads) of several runs")
        .args([seed(), instances(), size()])
        .arg(text("data", "DIR", "Data set; default: one is generated"))
        .arg(number("runs", "3", "Runs, each on an empty store"))
        .arg(text(
            "server",
            "PATH",
            "The sandur program; default: in the directory of this one, built if it is missing",
        ))
        .arg(text("address", "ADDR", "Address on which our server listens").default_value("127.0.0.1:3155"))
        .arg(text("dir", "DIR", "Directory of data and results").default_value("target/bench"))
        .arg(text("dbm", "PATH", "The program dbmeasure, to compare with rivals").requires("scripts"))
        .arg(text("scripts", "DIR", "Directory of its servers.sh"))
        .arg(
            text("rivals", "NAMES", "Rivals that servers.sh knows, comma separated")
                .value_delimiter(',')
                .action(ArgAction::Append),
        )
        .arg(text("peer", "COMMAND", "Command that starts and stops rivals: `peer up|down|wipe NAME`"))
        .arg(text("peers", "DIR", "Directory of the rivals' process ids and data").requires("peer"));
    let server = Command::new("server")
        .about("Start, stop or empty the measured server (for scripts)")
        .hide(true)
        .arg(Arg::new("verb").required(true).value_parser(["up", "down", "wipe"]))
        .args([text("server", "PATH", "").required(true), text("dir", "DIR", "").required(true)])
        .arg(text("address", "ADDR", "").required(true));
    Command::new("sandur-bench")
        .about("Generated logs and measurements for Sandur")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([generate, run, server, tail_command(), cold_command([seed(), instances(), size()])])
        .subcommand(acks_command([seed(), instances()]))
        .subcommands([wide_command(), churn_command(), dash_command(), command::paths::command()])
        .subcommand(command::imports::command())
        .subcommand(command::rules::command())
        .subcommand(command::needles::command([seed(), instances()]))
}

fn acks_command(data_set: [Arg; 2]) -> Command {
    Command::new("acks")
        .about("Measure acknowledgements with a bucket: latency, throughput, requests and their price")
        .args(data_set)
        .arg(text("size", "SIZE", "Approximate bytes of log text").default_value("4GiB"))
        .arg(text("data", "DIR", "Data set; default: one is generated"))
        .arg(
            text(
                "server",
                "PATH",
                "A sandur program; several are measured alternately. Default: in the directory of this one",
            )
            .action(ArgAction::Append),
        )
        .arg(text("address", "ADDR", "Address on which servers listen").default_value("127.0.0.1:3157"))
        .arg(text("dir", "DIR", "Directory of data and results").default_value("target/bench/acks"))
        .arg(text("s3", "PATH", "The program versitygw").default_value(".tools/bin/versitygw"))
        .arg(number("rounds", "2", "Rounds, each with an empty bucket for every server"))
        .arg(text("lone", "DURATION", "Length of the load of one client").default_value("60s"))
        .arg(text("rate", "SIZE", "Bytes of lines per second of 64 connections").default_value("20MB"))
}

fn wide_command() -> Command {
    Command::new("wide")
        .about("Measure memory and time of a query over very many series, alone and many concurrently")
        .arg(text(
            "server",
            "PATH",
            "The sandur program; default: in the directory of this one, built if it is missing",
        ))
        .arg(text("address", "ADDR", "Address on which our server listens").default_value("127.0.0.1:3158"))
        .arg(text("dir", "DIR", "Directory of data").default_value("target/bench/wide"))
        .arg(
            text("series", "N", "Numbers of series, comma separated")
                .value_delimiter(',')
                .value_parser(value_parser!(u64))
                .default_value("100000,1000000"),
        )
        .arg(number("at-once", "32", "Concurrent queries in the second load"))
        .arg(text("memory-limit", "SIZE", "Memory limit of the server").default_value("512MiB"))
}

fn churn_command() -> Command {
    Command::new("churn")
        .about("Measure a simulated day in which series are replaced: memory, and queries over its last hour")
        .arg(text(
            "server",
            "PATH",
            "The sandur program; default: in the directory of this one, built if it is missing",
        ))
        .arg(text("address", "ADDR", "Address on which our server listens").default_value("127.0.0.1:3159"))
        .arg(text("dir", "DIR", "Directory of data").default_value("target/bench/churn"))
        .arg(number("series", "20000", "Number of series at any time"))
        .arg(number("hours", "24", "Hours of a day"))
        .arg(number(
            "slice",
            "5",
            "Minutes that the server holds in memory until it flushes, a divisor of 60",
        ))
        .arg(
            text(
                "percent",
                "N",
                "Percentages of the series that an hour replaces, comma separated: one day each",
            )
            .value_delimiter(',')
            .value_parser(value_parser!(u64))
            .default_value("0,20"),
        )
}

fn cold_command(data_set: [Arg; 3]) -> Command {
    Command::new("cold")
        .about("Measure queries over a remote bucket: first, again, after a kill; then in a storm of 503s")
        .args(data_set)
        .arg(text("data", "DIR", "Data set; default: one is generated"))
        .arg(text(
            "server",
            "PATH",
            "The sandur program; default: in the directory of this one, built if it is missing",
        ))
        .arg(text("address", "ADDR", "Address on which our server listens").default_value("127.0.0.1:3156"))
        .arg(text("dir", "DIR", "Directory of data and results").default_value("target/bench/cold"))
        .arg(text("s3", "PATH", "The program versitygw").default_value(".tools/bin/versitygw"))
        .arg(number(
            "series",
            "1000",
            "Series that are pushed in addition to the logs, with a day of samples",
        ))
        .arg(text("delay", "DURATION", "Latency of every read from the bucket").default_value("30ms"))
        .arg(text(
            "cache",
            "DIR",
            "The server's cache directory (--cache-dir), removed before first runs and at the end",
        ))
        .arg(text("storm", "DURATION", "Length of the storm; 0s for none").default_value("60s"))
        .arg(number("storm-rate", "50", "Requests per second that the bucket answers in the storm"))
        .arg(number("clients", "8", "Clients that send queries in the storm"))
        .arg(
            Arg::new("serve")
                .value_name("ARGUMENT")
                .help("Further arguments of `sandur serve`, after --")
                .num_args(0..)
                .last(true),
        )
}

fn tail_command() -> Command {
    Command::new("tail")
        .about("Follow a running server with many clients while lines are pushed; counts must add up")
        .arg(
            text("to", "ADDR", "The server, started with a sufficient max_concurrent_tail_requests")
                .required(true),
        )
        .arg(number("readers", "17", "Followers that read as fast as they can"))
        .arg(number("sleepers", "3", "Followers that read nothing until everything was pushed"))
        .arg(
            text("rate", "SIZE", "Bytes of lines per second; 0 for as fast as possible")
                .default_value("20MB"),
        )
        .arg(text("size", "SIZE", "Bytes of lines in all").default_value("600MB"))
}

fn dash_command() -> Command {
    let duration = |name, default, help| text(name, "DURATION", help).default_value(default);
    let rate = |name, default, help| number(name, default, help).value_parser(value_parser!(f64));
    Command::new("dash")
        .about("Measure a running server under viewers of a dashboard while data arrives")
        .arg(
            text("dialect", "NAME", "The protocol of the server")
                .required(true)
                .value_parser(run::Dialect::NAMES),
        )
        .arg(
            text("url", "URL", "The server, http://HOST:PORT, with the path before those of queries")
                .required(true),
        )
        .arg(text("push", "URL", "Where to push; default: the usual path of the protocol"))
        .arg(text("flush", "URL", "Post to this URL after the history"))
        .arg(pid_file())
        .arg(duration("history", "24h", "Length of the history that is pushed first; 0s: none"))
        .arg(duration("alone", "10s", "How long data arrives without viewers"))
        .arg(duration("for", "60s", "How long viewers watch"))
        .arg(number("viewers", "8", "Number of viewers"))
        .arg(duration("refresh", "5s", "Time between two refreshes of a viewer"))
        .arg(
            Arg::new("unaligned")
                .long("unaligned")
                .action(ArgAction::SetTrue)
                .help("Ask for ranges up to now; default: from and to multiples of the step"),
        )
        .arg(number("instances", "10", "Metrics: instances of each of four jobs, with 192 series each"))
        .arg(number("other-series", "550", "Metrics: further live series of an instance"))
        .arg(rate("history-rate", "30", "Logs: lines per second of the history"))
        .arg(rate("rate", "500", "Logs: lines per second while viewers watch"))
}

async fn measure_dash(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let duration = |name| parse_duration(argument(arguments, name).unwrap_or("0s"));
    let owned = |name| argument(arguments, name).map(str::to_owned);
    let rate = |name: &str| arguments.get_one::<f64>(name).copied().unwrap_or_default();
    let plan = run::Dash {
        dialect: run::Dialect::of_name(argument(arguments, "dialect").unwrap_or_default())?,
        url: owned("url").unwrap_or_default(),
        push: owned("push"),
        flush: owned("flush"),
        process: process_of(arguments)?,
        history: duration("history")?,
        alone: duration("alone")?,
        length: duration("for")?,
        viewers: count(arguments, "viewers") as usize,
        refresh: duration("refresh")?.max(Duration::from_millis(1)),
        aligned: !arguments.get_flag("unaligned"),
        instances: count(arguments, "instances"),
        other_series: count(arguments, "other-series"),
        history_rate: rate("history-rate"),
        live_rate: rate("rate"),
    };
    let report = run::dash(env, &plan, |news| eprintln!("{news}")).await?;
    print!("{}", report.text());
    match report.errors() {
        0 => Ok(()),
        errors => bail!("{errors} requests of viewers failed"),
    }
}

async fn follow(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let size = |name| argument(arguments, name).unwrap_or("0").parse::<ByteSize>();
    let load = run::TailLoad {
        address: argument(arguments, "to").context("--to is needed")?.to_owned(),
        readers: count(arguments, "readers") as usize,
        sleepers: count(arguments, "sleepers") as usize,
        bytes_per_second: size("rate")?.0,
        bytes: size("size")?.0,
    };
    let report = run::tail(env, &load).await?;
    print!("{}", report.text());
    let silent = report.silent_losses().len();
    if silent > 0 {
        bail!("{silent} followers lost lines without notice");
    }
    println!("every follower's count adds up");
    Ok(())
}

fn wanted(arguments: &ArgMatches, span: Duration, end_s: i64) -> Result<pack::Wanted> {
    let bytes: ByteSize = argument(arguments, "size").unwrap_or("64MiB").parse()?;
    let from = end_s - span.as_secs().max(1) as i64;
    let instances = count(arguments, "instances") as usize;
    Ok(pack::Wanted { seed: count(arguments, "seed"), bytes: bytes.0, instances, from, to: end_s })
}

fn generate(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let span = parse_duration(argument(arguments, "span").unwrap_or("6h"))?;
    let end = match argument(arguments, "end") {
        Some(text) => {
            text.parse::<jiff::Timestamp>().context("--end: write it like 2026-11-20T12:00:00Z")?.as_second()
        }
        None => env.now_ns() / 1_000_000_000,
    };
    let out = Path::new(argument(arguments, "out").context("--out is needed")?);
    make_data_set(env, out, wanted(arguments, span, end)?)
}

async fn stream(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let services = Services::new(count(arguments, "seed"), count(arguments, "instances") as usize);
    let length = argument(arguments, "for").map(parse_duration).transpose()?;
    let address = argument(arguments, "to").context("--to is needed")?;
    let requests_per_second = arguments.get_one::<f64>("rate").copied().unwrap_or(20.0);
    let target = live::Target { address, tenant: argument(arguments, "tenant"), requests_per_second };
    let started = env.monotonic();
    let (mut lines, mut failed) = (0, 0u64);
    live::stream(env, &services, target, |pushed| {
        match pushed.failure {
            None => lines += pushed.lines,
            Some(failure) => {
                failed += pushed.lines;
                eprintln!("{} lines were not accepted: {failure}", pushed.lines);
            }
        }
        length.is_none_or(|length| env.monotonic() - started < length)
    })
    .await;
    eprintln!("{lines} lines were accepted, {failed} were not");
    Ok(())
}

fn place(program: PathBuf, directory: PathBuf, arguments: &ArgMatches) -> run::Place {
    let address = argument(arguments, "address").unwrap_or_default().to_owned();
    run::Place::new(program, directory, address)
}

async fn measure(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let directory = PathBuf::from(argument(arguments, "dir").unwrap_or("target/bench"));
    let data = data_set(env, arguments, &directory)?;
    let place = place(server_program(arguments)?, directory.join("server"), arguments);
    let runs = count(arguments, "runs").max(1) as usize;
    let report = |news: &str| eprintln!("{news}");
    let Some(dbm) = argument(arguments, "dbm") else {
        let column = run::alone(env, &run::Alone { place, data, runs }, report).await?;
        println!("{}", run::table(&[column]));
        return Ok(());
    };
    let peer = argument(arguments, "peer").zip(argument(arguments, "peers"));
    let plan = run::Rivals {
        place,
        data,
        dbm: dbm.into(),
        scripts: argument(arguments, "scripts").unwrap_or_default().into(),
        rivals: arguments.get_many::<String>("rivals").into_iter().flatten().cloned().collect(),
        peer: peer.map(|(command, directory)| (command.to_owned(), directory.into())),
        this: std::env::current_exe()?,
        out: directory.join("results"),
        runs,
    };
    println!("{}", run::table(&run::rivals(&plan, report)?));
    Ok(())
}

/// Returns the given data set, or generates a new one.
fn data_set(env: &Env, arguments: &ArgMatches, directory: &Path) -> Result<PathBuf> {
    if let Some(data) = argument(arguments, "data") {
        return Ok(data.into());
    }
    let data = directory.join("data-set");
    let span = Duration::from_secs(6 * 3600);
    make_data_set(env, &data, wanted(arguments, span, env.now_ns() / 1_000_000_000)?)?;
    Ok(data)
}

async fn measure_cold(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let directory = PathBuf::from(argument(arguments, "dir").unwrap_or("target/bench/cold"));
    let duration = |name| parse_duration(argument(arguments, name).unwrap_or("0s"));
    let cache = argument(arguments, "cache").map(PathBuf::from);
    let mut place = place(server_program(arguments)?, directory.join("server"), arguments);
    place.arguments = arguments.get_many::<String>("serve").into_iter().flatten().cloned().collect();
    if let Some(cache) = &cache {
        place.arguments.extend(["--cache-dir".to_owned(), cache.display().to_string()]);
    }
    let mut plan = run::Cold {
        place,
        data: data_set(env, arguments, &directory)?,
        s3: argument(arguments, "s3").unwrap_or_default().into(),
        series: count(arguments, "series"),
        get_delay: duration("delay")?,
        cache,
    };
    let (report, bucket) = run::cold(env, &mut plan, |news| eprintln!("{news}")).await?;
    print!("{}", report.table());
    let storm = run::Storm {
        length: duration("storm")?,
        requests_per_second: count(arguments, "storm-rate"),
        clients: count(arguments, "clients") as usize,
    };
    if !storm.length.is_zero() {
        eprintln!("a storm of {:?}", storm.length);
        let report = run::storm(env, &plan.place, &plan.data, &bucket.faults, storm).await?;
        print!("\n{}", report.text());
    }
    plan.remove_cache()
}

async fn measure_wide(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let directory = PathBuf::from(argument(arguments, "dir").unwrap_or("target/bench/wide"));
    let mut place = place(server_program(arguments)?, directory, arguments);
    let limit = argument(arguments, "memory-limit").unwrap_or_default();
    place.arguments.extend(["--memory-limit".to_owned(), limit.to_owned()]);
    let plan = run::Wide {
        place,
        series: arguments.get_many::<u64>("series").into_iter().flatten().copied().collect(),
        at_once: count(arguments, "at-once"),
    };
    let rows = run::wide(env, &plan, |news| eprintln!("{news}")).await?;
    print!("{}", run::wide_table(&rows));
    Ok(())
}

async fn measure_churn(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let directory = PathBuf::from(argument(arguments, "dir").unwrap_or("target/bench/churn"));
    let plan = run::Churn {
        place: place(server_program(arguments)?, directory, arguments),
        series: count(arguments, "series"),
        hours: count(arguments, "hours").max(1),
        slice: count(arguments, "slice") as i64,
        percents: arguments.get_many::<u64>("percent").into_iter().flatten().copied().collect(),
    };
    let rows = run::churn(env, &plan, |news| eprintln!("{news}")).await?;
    print!("{}", run::churn_table(&rows));
    Ok(())
}

async fn measure_acks(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let directory = PathBuf::from(argument(arguments, "dir").unwrap_or("target/bench/acks"));
    let given: Vec<&String> = arguments.get_many::<String>("server").into_iter().flatten().collect();
    let programs = match given.is_empty() {
        true => vec![built_server()?],
        false => given.into_iter().map(PathBuf::from).collect(),
    };
    let named = |program: PathBuf| {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        (name, place(program, directory.join("server"), arguments))
    };
    let plan = run::Acks {
        places: programs.into_iter().map(named).collect(),
        data: data_set(env, arguments, &directory)?,
        s3: argument(arguments, "s3").unwrap_or_default().into(),
        rounds: count(arguments, "rounds").max(1) as usize,
        lone: parse_duration(argument(arguments, "lone").unwrap_or("60s"))?,
        rate: argument(arguments, "rate").unwrap_or("20MB").parse::<ByteSize>()?.0.max(1),
    };
    let columns = run::acks(env, &plan, |news| eprintln!("{news}")).await?;
    println!("{}", run::table(&columns));
    Ok(())
}

/// Returns the path of the server program: as given, or in the directory of this program.
fn server_program(arguments: &ArgMatches) -> Result<PathBuf> {
    if let Some(program) = argument(arguments, "server") {
        return Ok(program.into());
    }
    built_server()
}

/// Returns the path of the server in the directory of this program, which is built if it is missing.
fn built_server() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("sandur");
    let Some(cargo) = environment::variable("CARGO") else {
        if program.exists() {
            return Ok(program);
        }
        bail!(
            "no server at {}: build it with `cargo build --release -p sandur-server`, or give --server",
            program.display()
        );
    };
    let mut build = Process::new(cargo);
    build.args(["build", "--package", "sandur-server"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    if !build.status().context("cannot run cargo")?.success() {
        bail!("building the server failed");
    }
    Ok(program)
}

async fn serve(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let program = argument(arguments, "server").unwrap_or_default().into();
    let directory = argument(arguments, "dir").unwrap_or_default().into();
    let place = place(program, directory, arguments);
    match argument(arguments, "verb") {
        Some("up") => place.up(env).await.map(|_| ()),
        Some("down") => place.down(env).await,
        _ => place.wipe(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
