//! `sandur push`: ships files, directories or standard input to a server, and reports exactly what was
//! stored.
//!
//! Acknowledged means stored, line by line. Lines that the server refuses are counted by reason, shown,
//! and kept (`--rejected`). A resume point (`--resume`) never passes a line that is neither stored nor
//! kept.
//!
//! An input passes through [`opened`] (detects its format), [`assembler`] (complete lines, bounded),
//! [`entries`] (lines that belong together), [`batch`], [`sender`] (the outcome of each line), [`shipper`]
//! (order and resume points) and [`report`].

mod assembler;
mod batch;
mod dates;
mod entries;
mod exposition;
mod file;
mod followed;
mod identity;
mod inputs;
mod live;
mod metrics;
pub(crate) mod opened;
mod reading;
mod reference;
mod rejected;
mod report;
mod resume;
mod samples;
mod sender;
mod shipper;
mod start;
mod times;
mod timestamps;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use entries::Rule;
use identity::Identity;
use sandur_cli::client::{self, Client};
use sandur_runtime::{Env, Shutdown};
use sandur_terminal::Failed;
use sandur_terminal::Signals;

pub use assembler::Assembler;
pub use batch::Batch;
pub use inputs::Given;
use inputs::Inputs;
use live::Live;
use metrics::MetricsPush;
pub use reading::Reading;
pub use reference::log_lines_page;
pub use resume::Positions;
pub use sender::{Sender, Sent};
pub use shipper::Shipper;
pub use start::Start;
use timestamps::{Pattern, Recogniser};

/// Retries of a request before a push fails.
const RETRIES_DEFAULT: u32 = 10;
/// Time for requests in flight when the command is stopped.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The command.
pub fn command() -> Command {
    let files = Arg::new("files").value_name("FILE").action(ArgAction::Append).required(true);
    let files = files.help(
        "Files, directories (including everything below them) or quoted patterns ('/var/log/*.log'); - is \
         standard input. Files compressed with gzip, zstd, xz and bzip2 are decompressed. A UTF-8 \
         byte-order mark at the start of a text is left out; UTF-16 and binary files are refused",
    );
    let label = Arg::new("label").long("label").short('l').value_name("NAME=VALUE").action(ArgAction::Append);
    let label = label.help(
        "Label of all lines; may be repeated. A file's lines also have filename=PATH, with the absolute \
         path, and all have job=push if no job is given",
    );
    let follow = Arg::new("follow").long("follow").short('f').action(ArgAction::SetTrue);
    let follow = follow.help("Follow files as they grow, also when they are rotated, and new files");
    let times = Arg::new("timestamps").long("timestamps").value_parser(["auto", "now"]).default_value("auto");
    let times = times.help(
        "With 'auto', a line has the timestamp that it contains, if there is one; with 'now', every line has \
         the time of its arrival",
    );
    let format = Arg::new("time-format").long("time-format").value_name("FORMAT");
    let format = format.help(
        "Format of the time at the start of lines, as of strptime, like '%d %b %Y %H:%M:%S'; the known \
         formats are read too",
    );
    let start = Arg::new("multiline-start").long("multiline-start").value_name("REGEX");
    let start = start.help(
        "An entry begins with a line that matches; other lines continue it. Without this option, lines of \
         stack traces and the like are joined",
    );
    let single = Arg::new("no-multiline").long("no-multiline").action(ArgAction::SetTrue);
    let single = single.conflicts_with("multiline-start").help("Each line is an entry");
    let resume = Arg::new("resume").long("resume").value_name("STATE-FILE").help(
        "Store in this file how far each file was acknowledged, and continue from there; refused lines are \
         kept in STATE-FILE.rejected unless --rejected names another file",
    );
    let rejected = Arg::new("rejected").long("rejected").value_name("FILE");
    let rejected = rejected.help("Append lines that the server refuses to this file, to be pushed again");
    let retries = Arg::new("retries").long("retries").value_name("N");
    let retries = retries.value_parser(clap::value_parser!(u32)).help(format!(
        "Retries of a request that may succeed later [default: {RETRIES_DEFAULT}; with --follow unlimited]"
    ));
    let command = Command::new("push")
        .about("Ship files or standard input to a server")
        .after_help(
            "Example: sandur push --label app=api --resume api.state --follow '/var/log/api/*.log'\n\
             Exit codes: 0 everything acknowledged, which means stored; 1 something failed or was refused; \
             2 wrong usage.",
        )
        .arg(files);
    let metrics =
        Arg::new("metrics").long("metrics").value_name("FORMAT").num_args(0..=1).require_equals(true);
    let metrics = metrics.value_parser(metrics::FORMATS).default_missing_value("auto").help(
        "The files contain samples in Prometheus's text format or, if they end with # EOF, in OpenMetrics; \
         --label sets labels of all series",
    );
    let command = command.args([label, follow, times, format, start, single, resume, rejected, retries]);
    client::arguments(command.arg(metrics))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let follow = matches.get_flag("follow");
    let retries = match matches.get_one::<u32>("retries") {
        Some(retries) => Some(*retries),
        None => (!follow).then_some(RETRIES_DEFAULT),
    };
    let arguments: Vec<String> = matches.get_many("files").into_iter().flatten().cloned().collect();
    if let Some(format) = matches.get_one::<String>("metrics") {
        metrics::without_options_of_lines(matches)?;
        metrics::without_format_apart(&arguments)?;
        let labels = labels(matches.get_many::<String>("label").into_iter().flatten())?;
        let retries = retries.unwrap_or(RETRIES_DEFAULT);
        let sender = Sender::new(env, Client::from_arguments(matches)?, Some(retries));
        let rejected = matches.get_one::<String>("rejected").map(PathBuf::from);
        return MetricsPush::new(sender, labels, format, rejected).run(&arguments).await;
    }
    let state = matches.get_one::<String>("resume");
    let positions = state.map_or_else(|| Ok(Positions::none()), |path| Positions::load(path))?;
    let rejected = matches.get_one::<String>("rejected").map(PathBuf::from);
    let rejected = rejected.or_else(|| state.map(|path| PathBuf::from(format!("{path}.rejected"))));
    let labels = labels(matches.get_many::<String>("label").into_iter().flatten())?;
    let reading = reading(matches, env.now_ns())?;
    let sender = Sender::new(env.clone(), Client::from_arguments(matches)?, retries);
    let mut shipper = Shipper::new(sender, positions, reading).keeping(rejected);
    shipper.label(&labels);
    let outcome = ship(&env, &mut shipper, &arguments, follow).await;
    let code = shipper.finish();
    outcome.map(|()| code)
}

async fn ship(env: &Env, shipper: &mut Shipper, arguments: &[String], follow: bool) -> Result<(), Failed> {
    if !follow {
        ship_files(shipper, arguments).await?;
    }
    let stop = Shutdown::default();
    let _signals = env.spawn("signals", Signals::catch().watch(stop.clone()));
    let signal = stop.signal();
    let mut live = Live::new(shipper, arguments, follow);
    let outcome = tokio::select! {
        outcome = live.work() => outcome,
        () = signal.triggered() => Ok(()),
    };
    outcome?;
    env.timeout(STOP_PATIENCE, live.end()).await.unwrap_or_else(|| {
        let text = "stopped while lines were in flight: it is not known whether they are stored; --resume \
                    sends them again, and the server drops duplicates";
        Err(Failed::new(text))
    })
}

/// Ships each file once, after the rest of files that were rotated since the last push.
async fn ship_files(shipper: &mut Shipper, arguments: &[String]) -> Result<(), Failed> {
    let mut seen = HashSet::new();
    for (path, known) in live::moved(&shipper.positions, arguments) {
        match path {
            Some(path) => {
                seen.insert(known.identity());
                shipper.ship_file(&Given { path, is_named: false }).await?;
            }
            None => shipper.report.notice(&live::gone(&known)),
        }
    }
    let inputs = Inputs::find(arguments);
    for text in &inputs.failures {
        shipper.report.failure(text);
    }
    for text in &inputs.empty {
        shipper.report.notice(text);
    }
    for given in &inputs.files {
        let identity = std::fs::metadata(&given.path).map(|metadata| Identity::of(&metadata));
        // A file that two arguments name, or that has two names, is shipped once.
        if identity.is_ok_and(|identity| !seen.insert(identity)) || shipper.is_own(&given.path) {
            continue;
        }
        shipper.ship_file(given).await?;
    }
    shipper.drain().await
}

/// Maximum memory of the automaton of `--multiline-start`: enough for long alternations.
const START_BYTES_MAX: usize = 1 << 20;

/// How the options want lines to be read.
fn reading(matches: &ArgMatches, now_ns: i64) -> Result<Reading, Failed> {
    let is_dating = matches.get_one::<String>("timestamps").is_none_or(|times| times == "auto");
    let pattern = matches.get_one::<String>("time-format").map(|format| Pattern::new(format)).transpose();
    let pattern = pattern.map_err(|why| Failed::usage(format!("--time-format: {why}")))?;
    if pattern.is_some() && !is_dating {
        return Err(Failed::usage(
            "--time-format cannot be used with --timestamps now, which reads no times",
        ));
    }
    let rule = match matches.get_one::<String>("multiline-start") {
        _ if matches.get_flag("no-multiline") => None,
        None => Some(Rule::Kinds),
        Some(text) => {
            let start = regex::bytes::RegexBuilder::new(text).size_limit(START_BYTES_MAX).build();
            let start = start.map_err(|why| Failed::usage(format!("--multiline-start '{text}': {why}")))?;
            Some(Rule::StartsAt(start))
        }
    };
    Ok(Reading { recogniser: Recogniser::local(now_ns).with(pattern), is_dating, rule })
}

/// Parses `--label NAME=VALUE`.
pub(crate) fn labels<'a>(given: impl Iterator<Item = &'a String>) -> Result<Vec<(String, String)>, Failed> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for text in given {
        let wrong = |what: &str| Failed::new(format!("--label '{text}': {what}: write --label app=api"));
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("there is no ="))?;
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !name.starts_with(is_first) || !name.chars().all(|c| is_first(c) || c.is_ascii_digit()) {
            return Err(wrong("a name is letters, digits and _, and begins with no digit"));
        }
        if value.is_empty() {
            return Err(wrong("the value is empty"));
        }
        if pairs.iter().any(|(other, _)| other == name) {
            return Err(wrong("this name is given twice"));
        }
        pairs.push((name.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_or_explained() {
        let read = |all: &[&str]| {
            let all: Vec<String> = all.iter().map(|t| (*t).to_owned()).collect();
            labels(all.iter()).map_err(|e| e.message().to_owned())
        };
        assert_eq!(read(&["app=api", "env=a=b"]).unwrap()[1], ("env".to_owned(), "a=b".to_owned()));
        for (wrong, what) in [
            (&["app"][..], "no ="),
            (&["1a=x"], "begins with no digit"),
            (&["a-b=x"], "letters, digits and _"),
            (&["=x"], "letters, digits and _"),
            (&["a="], "value is empty"),
            (&["a=b", "a=c"], "given twice"),
        ] {
            let text = read(wrong).unwrap_err();
            assert!(text.contains(what) && text.contains("--label app=api"), "{text}");
        }
    }
}
