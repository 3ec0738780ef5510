//! `sandur rules replay`: evaluates rules over the history of a server.
//!
//! Each expression is asked as an instant query at each time of the schedule of its group, so that the
//! answers are those that the rule would have had. Alerts that fire and end are printed as they are found.
//! What is recorded is only counted, or stored with `--write`.
//!
//! **Invariant.** The exit code says whether every evaluation succeeded.

mod graphite;
mod remote;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use indicatif::{ProgressBar, ProgressStyle};
use sandur_cli::client::{self, Client};
use sandur_cli::escape::escaped;
use sandur_cli::moment::{self, Window};
use sandur_cli::outcome::written;
use sandur_rules::alert::Alert;
use sandur_rules::data::{Data, Instant};
use sandur_rules::file::ReadOptions;
use sandur_rules::replay::{Happened, Occurrence, Replay, Tally};
use sandur_rules::{GroupSpec, Source, list_files, read_file};
use sandur_runtime::{Env, Shutdown};
use sandur_terminal::Failed;
use serde_json::json;

use remote::Remote;

/// The longest evaluation of a rule, as in a server by default, and the longest time for which a write is
/// repeated.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The most series of a rule, as in a server by default.
const SERIES_MAX: usize = 10_000;

/// The command.
pub fn command(files: Arg) -> Command {
    let write = Arg::new("write").long("write").action(ArgAction::SetTrue);
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue);
    let command = Command::new("replay")
        .about("Evaluate rules over the history of a server: which alerts would have fired")
        .arg(files)
        .arg(write.help("Store what the rules record, and the series of alerts, in the server"))
        .arg(json.help("Print a JSON object for each alert that fires or ends, and each failure"))
        .after_help(
            "Rules are evaluated at the times of their schedules. Without --write nothing is stored, so a \
             rule that reads what another one records sees what the server has. Nothing is sent to \
             receivers of alerts. Exit codes: 0 all evaluations succeeded, 1 an evaluation failed, 2 wrong \
             usage.",
        );
    moment::arguments(client::arguments(command))
}

/// Runs the command.
pub async fn run(env: &Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let window = moment::window(matches, env.now_ns())?;
    let texts = matches.get_many::<String>("files").unwrap_or_default();
    let mut groups = Vec::new();
    for text in texts {
        groups.extend(groups_of(&Source::parse(text))?);
    }
    let is_writing = matches.get_flag("write");
    let (client, stop) = (Client::from_arguments(matches)?, Shutdown::default());
    let remote = Arc::new(Remote::new(env, client, is_writing, (TIMEOUT, &stop)));
    let data: Arc<dyn Data> = Arc::<Remote>::clone(&remote);
    let times = (Instant::of_ns(window.start), Instant::of_ns(window.end));
    let replay = Replay::new(env, groups, data, times, (TIMEOUT, SERIES_MAX));
    let mut replay = replay.map_err(|error| Failed::usage(error.to_string()))?;
    let (tally, printed) = play(&mut replay, &window, (matches.get_flag("json"), &stop)).await;
    written(printed)?;
    summarize(&tally, &remote, is_writing);
    if let Some(why) = remote.given_up() {
        let at = window.zone.show_exactly(replay.reached().ns());
        return Err(Failed::new(format!(
            "the server did not answer for {TIMEOUT:?}: {why}\nthe replay ended at {at}; to continue there, \
             repeat the command with --from {at} (alerts begin without a state)"
        )));
    }
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The groups of a file or a folder.
fn groups_of(source: &Source) -> Result<Vec<GroupSpec>, Failed> {
    let paths = list_files(&source.path)
        .map_err(|error| Failed::usage(format!("cannot read {}: {error}", source.path.display())))?;
    if paths.is_empty() {
        return Err(Failed::usage(format!("{} has no rule files", source.path.display())));
    }
    let options = ReadOptions { language: source.language, ..ReadOptions::default() };
    let mut groups = Vec::new();
    for path in paths {
        groups.extend(read_file(&path, options).map_err(|errors| Failed::usage(errors.join("\n")))?);
    }
    Ok(groups)
}

/// Evaluates and prints. Ends when `stop` is triggered, or when what happened cannot be printed.
async fn play(
    replay: &mut Replay,
    window: &Window,
    (is_json, stop): (bool, &Shutdown),
) -> (Tally, std::io::Result<()>) {
    let bar = ProgressBar::new(replay.evaluations());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} evaluations, {eta} left") {
        bar.set_style(style);
    }
    let mut printed = Ok(());
    let tell = |one: Occurrence<'_>| {
        let line = if is_json { as_json(&one, window) } else { as_text(&one, window) };
        let outcome = bar.suspend(|| writeln!(std::io::stdout().lock(), "{line}"));
        if let (Err(error), true) = (outcome, printed.is_ok()) {
            printed = Err(error);
            stop.trigger();
        }
    };
    let tally = replay.run(&stop.signal(), tell, |done| bar.set_position(done)).await;
    bar.finish_and_clear();
    (tally, printed)
}

fn as_text(one: &Occurrence<'_>, window: &Window) -> String {
    let time = window.zone.show(one.at.ns());
    let alert = |state: &str, alert: &Alert| {
        let labels = alert.labels.to_string();
        format!("{time}  {state:<8}  {}  {}", escaped(&one.rule.name), escaped(&labels))
    };
    match &one.what {
        Happened::Fired(fired) => alert("firing", fired),
        Happened::Resolved(ended) => alert("resolved", ended),
        Happened::Failed(error) => {
            let place = format!("{}:{}", one.group.file, one.rule.line);
            format!("{time}  failed    {}  {}: {}", escaped(&one.rule.name), escaped(&place), escaped(error))
        }
    }
}

fn as_json(one: &Occurrence<'_>, window: &Window) -> String {
    let mut shown = json!({
        "time": window.zone.show_exactly(one.at.ns()),
        "file": &*one.group.file,
        "group": one.group.name,
        "rule": one.rule.name,
    });
    let (state, alert) = match &one.what {
        Happened::Fired(alert) => ("firing", Some(alert)),
        Happened::Resolved(alert) => ("resolved", Some(alert)),
        Happened::Failed(error) => {
            shown["error"] = json!(error);
            ("failed", None)
        }
    };
    shown["state"] = json!(state);
    if let Some(alert) = alert {
        let object = |pairs: &mut dyn Iterator<Item = (&str, &str)>| -> serde_json::Value {
            pairs
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        shown["labels"] = object(&mut alert.labels.iter());
        shown["annotations"] = object(&mut alert.annotations.iter().map(|(name, value)| (&**name, &**value)));
        shown["activeAt"] = json!(window.zone.show_exactly(alert.active_at.ns()));
        shown["value"] = json!(alert.value.to_string());
    }
    shown.to_string()
}

/// Says on stderr what the replay did.
fn summarize(tally: &Tally, remote: &Remote, is_writing: bool) {
    let Tally { evaluations, failed, fired, firing } = tally;
    eprintln!(
        "{evaluations} evaluations, {failed} failed; alerts fired {fired} times, {firing} fire at the end"
    );
    let recorded = remote.recorded();
    for (name, samples) in &recorded {
        let what = if is_writing { "stored" } else { "not stored" };
        eprintln!("{}: {samples} samples {what}", escaped(name));
    }
    if !is_writing && !recorded.is_empty() {
        eprintln!("use --write to store these samples");
    }
}
