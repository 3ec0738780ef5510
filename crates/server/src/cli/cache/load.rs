//! The requests of a simulation: from a trace or a generator.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use sandur_base::units::{ByteSize, parse_duration};
use sandur_cache::Hint;
use sandur_cache_sim::generate::Workload;
use sandur_cache_sim::trace::{Csv, OracleGeneral, RECORD_BYTES, TraceError};
use sandur_cache_sim::{Request, story};
use sandur_terminal::Failed;

/// An iterator of requests.
pub type Requests = Box<dyn Iterator<Item = Result<Request, TraceError>>>;

/// A load: its requests, their expected number, and the time that fills the caches before anything is
/// counted.
pub struct Load {
    pub name: String,
    pub requests: Requests,
    pub warm_up_s: u32,
    /// Expected number of requests; 0 if unknown.
    pub expected: u64,
}

/// Adds the arguments that describe a load.
pub fn arguments(command: Command) -> Command {
    let trace = Arg::new("trace").long("trace").value_name("FILE").conflicts_with("workload");
    let trace = trace.help(
        "Recorded accesses: CSV with the columns time_s,key,bytes[,op][,hint][,tenant], or \
                            libCacheSim's oracleGeneral (.bin); .zst is unpacked",
    );
    let workload = Arg::new("workload").long("workload").default_value("observability");
    let workload = workload.value_parser(["observability", "audits", "mixed-scans", "story"]).help(
        "Generated accesses: an observability store, the same with two dozen audits a day, dashboards with \
             concurrent scans of 20 GB, or the published case",
    );
    let hours =
        Arg::new("hours").long("hours").value_name("N").value_parser(value_parser!(u32).range(1..=8_760));
    let hours = hours.help("Length of the generated load, including warm-up [default: that of the workload]");
    let seed = Arg::new("seed").long("seed").value_name("N").value_parser(value_parser!(u64));
    let seed = seed.default_value("1").help("Seed of everything random");
    let warm_up = Arg::new("warm-up").long("warm-up").value_name("DURATION");
    let warm_up = warm_up.help(
        "Time that fills the caches and is not counted [default: 2d of a generated load, none of a \
            trace]",
    );
    let no_hints = Arg::new("no-hints").long("no-hints").action(ArgAction::SetTrue);
    let no_hints =
        no_hints.help("Do not pass hints about the purpose of accesses, as with a protocol without hints");
    command.args([trace, workload, hours, seed, warm_up, no_hints])
}

/// The load that the arguments describe.
pub fn load(matches: &ArgMatches) -> Result<Load, Failed> {
    let mut load = match matches.get_one::<String>("trace") {
        Some(path) => recorded(Path::new(path))?,
        None => generated(matches),
    };
    if let Some(text) = matches.get_one::<String>("warm-up") {
        let duration = parse_duration(text).map_err(|e| Failed::new(e.to_string()))?;
        load.warm_up_s = duration.as_secs() as u32;
    }
    if matches.get_flag("no-hints") {
        load.requests = Box::new(load.requests.map(|request| Ok(Request { hint: Hint::Point, ..request? })));
    }
    Ok(load)
}

fn generated(matches: &ArgMatches) -> Load {
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(1);
    let name = matches.get_one::<String>("workload").map_or("observability", String::as_str);
    let mut workload = match name {
        "story" => story::workload(seed),
        "audits" => Workload::audits(seed),
        "mixed-scans" => Workload::mixed_scans(seed),
        _ => Workload { seed, hours: 7 * 24, ..Workload::default() },
    };
    if let Some(hours) = matches.get_one::<u32>("hours") {
        workload.hours = *hours;
    }
    let warm_up_hours = if name == "story" { story::WARM_UP_HOURS } else { 48.min(workload.hours / 2) };
    let requests = Box::new(workload.generate().map(Ok));
    Load { name: format!("{name}, seed {seed}"), requests, warm_up_s: warm_up_hours * 3_600, expected: 0 }
}

fn recorded(path: &Path) -> Result<Load, Failed> {
    let failed = |e: std::io::Error| Failed::new(format!("cannot open {}: {e}", path.display()));
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let packed = name.ends_with(".zst");
    let input: Box<dyn Read> =
        if packed { Box::new(zstd::Decoder::new(file).map_err(failed)?) } else { Box::new(file) };
    let input: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 20, input));
    let binary = name.trim_end_matches(".zst").ends_with(".bin") || name.contains("oracleGeneral");
    let requests: Requests =
        if binary { Box::new(OracleGeneral::new(input)) } else { Box::new(Csv::new(input)) };
    let expected = if binary && !packed { bytes / RECORD_BYTES as u64 } else { 0 };
    Ok(Load { name, requests, warm_up_s: 0, expected })
}

/// A bar if the number of requests is known, otherwise a counter; nothing if stderr is not a terminal.
pub fn progress(load: &Load) -> ProgressBar {
    let (bar, template) = match load.expected {
        0 => (ProgressBar::new_spinner(), "{spinner} {human_pos} requests, {per_sec}"),
        expected => (ProgressBar::new(expected), "{bar:30} {human_pos}/{human_len} requests, {eta} left"),
    };
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Parses a size.
pub fn size(text: &str) -> Result<u64, Failed> {
    text.parse::<ByteSize>().map(|size| size.0).map_err(|e| Failed::new(e.to_string()))
}
