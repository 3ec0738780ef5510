//! What a command reports in addition to its answer: warnings, that there is nothing to print, and whether
//! the answer could be written.

use std::process::ExitCode;

use sandur_model::DAY_NS;
use sandur_terminal::Failed;

use super::moment::Window;

/// The kind of data that a query looked for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// Log streams, by LogQL.
    Logs,
    /// Series, by PromQL.
    Metrics,
    /// Graphite's paths.
    Paths,
}

impl Wanted {
    /// The command that lists what exists.
    fn listed_by(self) -> &'static str {
        match self {
            Self::Logs => "sandur labels",
            Self::Metrics => "sandur labels --metrics",
            Self::Paths => "sandur labels --metrics __name__",
        }
    }

    /// The time before its instant that an instant query reads.
    fn seen_at_once(self) -> &'static str {
        match self {
            Self::Logs => "the ranges of the query, like [5m], before it",
            Self::Metrics | Self::Paths => "the last five minutes before it",
        }
    }
}

/// Prints a note that an instant query found nothing, with a hint.
pub fn none_at_once(wanted: Wanted, window: &Window) {
    let (at, seen) = (window.zone.show(window.end), wanted.seen_at_once());
    eprintln!(
        "no series at {at}: --instant reads {seen}; omit it to query a range, or move the instant with --to"
    );
}

/// Prints the warnings of an answer.
pub fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {}", super::escape::escaped(warning));
    }
}

/// Prints a note that nothing was found, with a hint.
pub fn nothing(what: &str, wanted: Wanted, window: &Window) {
    let (start, end) = (window.zone.show(window.start), window.zone.show(window.end));
    let is_short = window.end.saturating_sub(window.start) < DAY_NS;
    let further = if is_short { "look further back with --since 24h; " } else { "" };
    let listed_by = wanted.listed_by();
    eprintln!("no {what} from {start} to {end}: {further}`{listed_by}` lists what exists");
}

/// The result of writing the output. A reader that closed its pipe (`| head`) is no failure.
pub fn written(outcome: std::io::Result<()>) -> Result<ExitCode, Failed> {
    match outcome {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failed::new(format!("cannot write the answer: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
