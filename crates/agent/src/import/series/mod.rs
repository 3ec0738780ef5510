//! What imports of series have in common: options, requests, sending, the comparison of `--verify`.
//!
//! A [`Source`] reads its files on a thread and passes parts to a [`sink::Sink`], one after the other. A part
//! has some series with some of their samples, and a line by which the state file names it. The same
//! files and options always give the same parts, so an import that is repeated with `--resume` skips those
//! that are stored.

mod encode;
mod score;
mod shipper;
mod sink;
mod source;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sandur_cli::client::{self, Client};
use sandur_cli::moment;
use sandur_runtime::{Env, Pace};
use sandur_terminal::Failed;

pub use sink::Sink;
pub use source::{Source, Wanted};

use super::sending::Sending;
use super::state::State;
use super::stored::Stored;

/// Default number of requests in flight.
const PARALLEL_DEFAULT: u64 = 4;
/// Maximum number of requests in flight.
const PARALLEL_MAX: u64 = 256;
/// Retries of a request before the import fails.
const RETRIES_DEFAULT: u32 = 10;
/// Default number of samples of a window of `--verify`.
const WINDOW_DEFAULT: u64 = 1_000;
/// Maximum number of samples of a window.
const WINDOW_MAX: u64 = 100_000;

/// Adds the options that all imports of series have.
pub fn arguments(command: Command) -> Command {
    let resume = Arg::new("resume").long("resume").value_name("STATE-FILE");
    let resume = resume
        .value_parser(value_parser!(PathBuf))
        .help("Store in this file what is stored, and skip it when the command is repeated");
    let label = Arg::new("label").long("label").value_name("NAME=VALUE").action(ArgAction::Append);
    let label = label.help("A label of all series; it replaces one of the same name");
    let from = Arg::new("from").long("from").value_name("TIME").help("Only samples from this time on");
    let to = Arg::new("to").long("to").value_name("TIME").help("Only samples before this time");
    let rate = number("rate", "SAMPLES/S", "Maximum number of samples per second [default: no limit]");
    let parallel =
        number("parallel", "N", format!("Requests in flight at a time [default: {PARALLEL_DEFAULT}]"));
    let retries = Arg::new("retries").long("retries").value_name("N").value_parser(value_parser!(u32));
    let retries =
        retries.help(format!("Retries of a request that may succeed later [default: {RETRIES_DEFAULT}]"));
    let dry_run = flag("dry-run", "Read everything and send nothing");
    let verify = Arg::new("verify").long("verify").value_name("WHAT").num_args(0..=1).require_equals(true);
    let verify = verify.value_parser(["windows", "all"]).default_missing_value("windows").help(
        "Send nothing; compare random windows of series with the server, or with --verify=all every sample",
    );
    let seed = number("seed", "N", "Compare the windows of an earlier --verify").requires("verify");
    let window = number("window", "SAMPLES", format!("Samples of a window [default: {WINDOW_DEFAULT}]"));
    let window = window.requires("verify").value_parser(value_parser!(u64).range(1..=WINDOW_MAX));
    let all = [resume, label, from, to, rate, parallel, retries, dry_run, verify, seed, window];
    client::arguments(moment::zone_argument(command.args(all)))
}

fn number(name: &'static str, value: &'static str, help: impl Into<String>) -> Arg {
    let parser = value_parser!(u64).range(1..);
    Arg::new(name).long(name).value_name(value).value_parser(parser).help(help.into())
}

/// An option without a value.
pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Returns what is imported according to the arguments.
pub fn wanted(env: &Env, matches: &ArgMatches) -> Result<Wanted, Failed> {
    /// Nanoseconds of two days: every relative time is another one then.
    const LATER_NS: i64 = 2 * 86_400 * 1_000_000_000;
    let (zone, now_ns) = (moment::zone(matches), env.now_ns());
    let is_resumed = matches.get_one::<PathBuf>("resume").is_some();
    let instant = |name: &str, default: i64| -> Result<i64, Failed> {
        let Some(text) = matches.get_one::<String>(name) else { return Ok(default) };
        let instant = moment::instant(text, now_ns, &zone)?;
        // The range is a part of the names of parts.
        if is_resumed && moment::instant(text, now_ns.saturating_add(LATER_NS), &zone)? != instant {
            return Err(Failed::usage(format!(
                "--{name} '{text}' is another time when the command is repeated, so --resume would skip \
                 nothing: write a date with a time"
            )));
        }
        Ok(instant.div_euclid(1_000_000))
    };
    let (from_ms, to_ms) = (instant("from", i64::MIN)?, instant("to", i64::MAX)?);
    if from_ms >= to_ms {
        return Err(Failed::usage("--from is not before --to"));
    }
    let labels = crate::push::labels(matches.get_many::<String>("label").into_iter().flatten())?;
    Ok(Wanted { from_ms, to_ms, labels })
}

/// Imports a source, or compares it with the server. `kind` names the import in the state file.
pub async fn run(
    env: Env,
    matches: &ArgMatches,
    kind: &'static str,
    source: impl Source,
) -> Result<ExitCode, Failed> {
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let parallel = number("parallel").unwrap_or(PARALLEL_DEFAULT).min(PARALLEL_MAX) as usize;
    let client = Client::from_arguments(matches)?;
    let retries = matches.get_one::<u32>("retries").copied().unwrap_or(RETRIES_DEFAULT);
    if let Some(what) = matches.get_one::<String>("verify") {
        let is_complete = what == "all";
        let seed = number("seed").unwrap_or_else(|| env.random_u64() >> 11);
        let window = number("window").unwrap_or(WINDOW_DEFAULT) as usize;
        let server = Stored { env, client, retries };
        return verify::Verification { server, seed, window, is_complete }.run(source, parallel).await;
    }
    let is_dry = matches.get_flag("dry-run");
    let state = match matches.get_one::<PathBuf>("resume").filter(|_| !is_dry) {
        Some(path) => State::load(path, kind, client.base())?,
        None => State::none(),
    };
    let pace = Pace::new(env.clone(), number("rate"));
    let client = (!is_dry).then_some(client);
    let sending = Sending { env: env.clone(), client, retries, pace };
    shipper::ship(env, sending, state, source, parallel).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted_of(arguments: &[&str]) -> Result<Wanted, Failed> {
        let command = super::arguments(Command::new("import"));
        let matches = command.try_get_matches_from([&["import"][..], arguments].concat()).unwrap();
        wanted(&Env::simulated(1, 1_795_132_800_000_000_000), &matches)
    }

    #[test]
    fn relative_times_are_refused_with_resume() {
        for text in ["now-1h", "yesterday", "today 06:00", "10m ago"] {
            assert!(wanted_of(&["--from", text]).is_ok(), "{text}");
            let refused = wanted_of(&["--from", text, "--resume", "state"]);
            assert!(refused.is_err_and(|error| error.message().contains("--resume")), "{text}");
        }
        for text in ["2026-11-01", "2026-11-01T06:00:00Z", "1795000000"] {
            let wanted = wanted_of(&["--from", text, "--resume", "state"]);
            assert!(wanted.is_ok_and(|wanted| wanted.from_ms > 0), "{text}");
        }
    }
}
