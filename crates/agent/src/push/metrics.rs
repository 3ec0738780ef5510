//! `sandur push --metrics`: ships samples as text, in pieces of complete lines, and reports refused
//! lines.
//!
//! An acknowledged sample is stored. A line that the server refuses is counted by reason, shown with its
//! place, and kept (`--rejected`). Samples without a timestamp get the time at which the command started,
//! so that a piece that is sent again adds nothing.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use sandur_model::MILLISECOND_NS;
use sandur_terminal::Failed;

use super::inputs::Inputs;
use super::opened::{Input, Opened, open};
use super::rejected::Rejected;
use super::report::{Report, Shipped, counted_as};
use super::samples::{Piece, Pieces, SampleParcel};
use super::sender::{Left, Sender};

/// The formats of `--metrics`.
pub const FORMATS: [&str; 3] = ["auto", "prometheus", "openmetrics"];
/// The reason for lines that are not sent.
const NOT_UTF8: &str = "not_utf8";

/// Options that are only for log lines, and alternatives.
const OPTIONS_OF_LINES: [(&str, &str); 6] = [
    (
        "resume",
        "a file of samples is pushed from its start: samples with a timestamp that are stored already add \
         nothing, and --rejected keeps refused ones",
    ),
    (
        "follow",
        "files of samples are rewritten, not appended to: push them again when they change, or let the \
         server scrape their source (sandur serve --scrape HOST:PORT)",
    ),
    ("multiline-start", "each sample is a line"),
    ("no-multiline", "each sample is a line"),
    ("time-format", "times of samples have the format of --metrics"),
    ("timestamps", "samples have their timestamps in the file, and those without one get the current time"),
];

/// Fails if an option is given that has no meaning for samples.
pub fn without_options_of_lines(matches: &ArgMatches) -> Result<(), Failed> {
    for (option, instead) in OPTIONS_OF_LINES {
        if matches.value_source(option) == Some(ValueSource::CommandLine) {
            return Err(Failed::usage(format!("--{option} cannot be used with --metrics: {instead}")));
        }
    }
    Ok(())
}

/// Fails if a format is given as a separate argument, where it would be the name of a file.
pub fn without_format_apart(arguments: &[String]) -> Result<(), Failed> {
    let is_format = |name: &&String| FORMATS.contains(&name.as_str()) && !Path::new(name).exists();
    arguments.iter().find(is_format).map_or(Ok(()), |format| {
        Err(Failed::usage(format!(
            "there is no file '{format}': a format follows an =, as in --metrics={format}"
        )))
    })
}

/// A push of samples.
pub struct MetricsPush {
    sender: Sender,
    format: String,
    rejected: Option<Rejected>,
    report: Report,
    began: Duration,
    /// Parameters of each request: the time of samples without one, and labels of all series.
    pairs: Vec<(&'static str, String)>,
    /// Whether lines in OpenMetrics were kept.
    kept_open_metrics: bool,
}

impl MetricsPush {
    /// Sends inputs in one of [`FORMATS`] through `sender`; `labels` are added to all series.
    pub fn new(
        sender: Sender,
        labels: Vec<(String, String)>,
        format: &str,
        rejected: Option<PathBuf>,
    ) -> Self {
        let mut pairs = vec![("timestamp", (sender.env().now_ns() / MILLISECOND_NS).to_string())];
        pairs.extend(labels.into_iter().map(|(label, value)| ("extra_label", format!("{label}={value}"))));
        Self {
            began: sender.env().monotonic(),
            sender,
            format: format.to_owned(),
            rejected: rejected.map(Rejected::at),
            report: Report::new(Shipped::Samples),
            pairs,
            kept_open_metrics: false,
        }
    }

    /// Sends all inputs. The exit code says whether everything was stored.
    pub async fn run(mut self, arguments: &[String]) -> Result<ExitCode, Failed> {
        let outcome = self.send_inputs(arguments).await;
        let took = self.sender.env().monotonic().saturating_sub(self.began);
        let rejected = self.rejected.as_ref().map(|rejected| rejected.path().display().to_string());
        let code = self.report.finish(took, rejected.as_deref());
        if self.kept_open_metrics {
            self.report.notice("the kept lines are in OpenMetrics: push them with --metrics=openmetrics");
        }
        outcome.map(|()| code)
    }

    async fn send_inputs(&mut self, arguments: &[String]) -> Result<(), Failed> {
        let inputs = Inputs::find(arguments);
        inputs.failures.iter().for_each(|failure| self.report.failure(failure));
        inputs.empty.iter().for_each(|text| self.report.notice(text));
        let files = inputs.files.iter().map(|given| Some(given.path.as_path()));
        for path in inputs.stdin.then_some(None).into_iter().chain(files) {
            // Lines of this file would be refused again.
            if path.is_some_and(|path| self.rejected.as_ref().is_some_and(|rejected| rejected.is(path))) {
                continue;
            }
            let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
            match input_at(path) {
                Ok(Opened::Plain(input) | Opened::Compressed(input)) => self.send_input(&name, input).await?,
                Ok(Opened::Binary(what)) => self.report.failure(&format!("{name} is not text: {what}")),
                Err(error) => self.report.failure(&format!("cannot read {name}: {error}")),
            }
        }
        Ok(())
    }

    async fn send_input(&mut self, name: &str, input: Input) -> Result<(), Failed> {
        let (mut pieces, mut is_open_metrics) = (Pieces::of(input), None);
        loop {
            let piece = match pieces.next() {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.report.failure(&format!("cannot read {name} to its end: {error}"));
                    return Ok(());
                }
            };
            // For a text that fits into one piece, its end shows the format.
            let open_metrics = *is_open_metrics.get_or_insert(match self.format.as_str() {
                "auto" => piece.has_end,
                format => format == "openmetrics",
            });
            if piece.has_end && !open_metrics && self.format == "auto" {
                self.report.failure(&format!(
                    "{name} ends with # EOF, so it is OpenMetrics, and was read as Prometheus's format, \
                     whose times are milliseconds: push it with --metrics=openmetrics"
                ));
            }
            self.send(name, &piece, open_metrics).await?;
        }
    }

    /// Sends a piece and counts its stored and refused lines.
    async fn send(&mut self, name: &str, piece: &Piece, open_metrics: bool) -> Result<(), Failed> {
        let parcel = SampleParcel { piece, open_metrics, pairs: &self.pairs };
        let left = self.sender.settle(&parcel).await.map_err(|refusal| {
            let so_far = counted_as(self.report.score().0, Shipped::Samples);
            let (line, failed) = (piece.first, Failed::from(refusal));
            Failed::new(format!(
                "{name}: not stored from line {line}: {}; {so_far} of all inputs were acknowledged before",
                failed.message()
            ))
        })?;
        let refused = refused_lines(left);
        let kept: Vec<&[u8]> = refused.iter().map(|(n, ..)| piece.line(*n).1).collect();
        let kept: Vec<&[u8]> = piece.not_utf8().map(|(_, text)| text).chain(kept).collect();
        if let Some(rejected) = self.rejected.as_mut().filter(|_| !kept.is_empty()) {
            rejected.keep(kept.into_iter())?;
            self.kept_open_metrics |= open_metrics;
        }
        let first_said = refused.first().map(|(.., said)| said).filter(|_| self.report.is_clean());
        let first_said = first_said.cloned();
        for (number, text) in piece.not_utf8() {
            self.report.refused_sample(&format!("{name}:{number}"), NOT_UTF8, text);
        }
        for (n, reason, _) in &refused {
            let (number, text) = piece.line(*n);
            self.report.refused_sample(&format!("{name}:{number}"), reason, text);
        }
        if let Some(said) = first_said {
            self.report.quote(&said);
        }
        let refused: Vec<usize> = refused.into_iter().map(|(n, ..)| n).collect();
        let (samples, bytes) = piece.score_without(&refused);
        self.report.stored_samples(samples, bytes);
        Ok(())
    }
}

fn input_at(path: Option<&Path>) -> io::Result<Opened> {
    let input: Input = match path {
        Some(path) => Box::new(File::open(path)?),
        None => Box::new(io::stdin()),
    };
    open(input)
}

/// The refused lines in order and without duplicates, with reason and the server's text.
fn refused_lines(left: Vec<Left>) -> Vec<(usize, String, std::rc::Rc<str>)> {
    let mut lines = Vec::new();
    for Left { lines: run, reason, text } in left {
        let text = std::rc::Rc::<str>::from(text);
        lines.extend(run.map(|n| (n, reason.clone(), std::rc::Rc::clone(&text))));
    }
    lines.sort_by_key(|(n, ..)| *n);
    lines.dedup_by_key(|(n, ..)| *n);
    lines
}
