//! What a push says: what is stored, what is not and why, and the way out.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandur_base::units::ByteSize;

use super::assembler::LINE_BYTES_MAX;
use super::batch::{Batch, Skipped};
use super::sender::Left;

/// Refused lines that are shown one by one.
const SHOWN_MAX: u64 = 5;
/// Characters of one that are shown.
const SHOWN_CHARACTERS: usize = 100;
/// Failed inputs that are named one by one.
const FAILURES_SHOWN_MAX: u64 = 100;
/// The word for lines that were too long to be held.
const TOO_LONG: &str = "line_too_long";

/// The score of a push.
pub struct Report {
    bar: ProgressBar,
    lines: u64,
    bytes: u64,
    not_utf8: u64,
    refused: BTreeMap<String, u64>,
    shown: u64,
    failures: u64,
}

impl Report {
    /// Nothing so far; people see how it goes on.
    pub fn new() -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        let refused = BTreeMap::new();
        Self { bar, lines: 0, bytes: 0, not_utf8: 0, refused, shown: 0, failures: 0 }
    }

    /// Another input of this many bytes begins.
    pub fn begin(&self, name: &str, bytes: u64) {
        self.bar.set_message(name.to_owned());
        self.bar.set_length(self.bar.position() + bytes);
    }

    /// Says something that is no failure.
    pub fn notice(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// Says that an input could not be read; the others go on.
    pub fn failure(&mut self, text: &str) {
        self.failures += 1;
        if self.failures <= FAILURES_SHOWN_MAX {
            self.notice(&format!("sandur: {text}"));
        }
    }

    /// Counts a batch of which `left` is not stored.
    pub fn settled(&mut self, name: &str, batch: &Batch, left: &[Left]) {
        let (mut lines, mut bytes) = (batch.lines.len() as u64, batch.bytes());
        for part in left {
            lines = lines.saturating_sub(part.lines.len() as u64);
            bytes = bytes.saturating_sub(batch.bytes_of(part.lines.clone()));
            *self.refused.entry(part.reason.clone()).or_default() += part.lines.len() as u64;
            for n in part.lines.clone() {
                if self.shown == SHOWN_MAX {
                    break;
                }
                let (at, text) = (batch.lines[n].at, shown(batch.text(n)));
                self.show(&format!("{name}: byte {at}: refused, {}: {text}", words(&part.reason)));
            }
        }
        for Skipped { at, length } in &batch.skipped {
            *self.refused.entry(TOO_LONG.to_owned()).or_default() += 1;
            let bound = ByteSize(LINE_BYTES_MAX as u64);
            let text = format!("not sent, line too long: {length} bytes, at most {bound} are read of one");
            self.show(&format!("{name}: byte {at}: {text}"));
        }
        self.lines += lines;
        self.bytes += bytes;
        self.not_utf8 += batch.not_utf8;
        self.bar.inc(batch.end - batch.start);
    }

    fn show(&mut self, text: &str) {
        self.shown += 1;
        if self.shown <= SHOWN_MAX {
            self.notice(text);
        }
    }

    /// Lines and bytes acknowledged so far.
    pub fn score(&self) -> (u64, u64) {
        (self.lines, self.bytes)
    }

    /// Says what was done; the code of the process.
    pub fn finish(&self, took: Duration, rejected: Option<&str>) -> ExitCode {
        self.bar.finish_and_clear();
        let took = took.as_secs_f64();
        let rate = ByteSize((self.bytes as f64 / took.max(0.001)) as u64);
        eprintln!("acknowledged {} lines, {} in {took:.1} s ({rate}/s)", self.lines, ByteSize(self.bytes));
        if self.not_utf8 > 0 {
            eprintln!(
                "{} lines are no UTF-8: stored as they are, shown with replacement characters",
                self.not_utf8
            );
        }
        for (reason, lines) in &self.refused {
            eprintln!("refused {lines} lines: {}{}", words(reason), remedy(reason));
        }
        if let Some(path) = rejected.filter(|_| !self.refused.is_empty()) {
            eprintln!("refused lines are kept in '{path}'");
        } else if !self.refused.is_empty() {
            eprintln!("refused lines are not kept: --rejected FILE keeps them, to be pushed again");
        }
        if self.failures > 0 {
            eprintln!("{} inputs could not be read whole", self.failures);
        }
        match self.refused.is_empty() && self.failures == 0 {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}

/// A reason in words.
fn words(reason: &str) -> String {
    match reason {
        "greater_than_max_sample_age" => "older than the server takes".to_owned(),
        "too_far_in_future" => "further in the future than the server takes".to_owned(),
        other => other.replace('_', " "),
    }
}

/// What can be done about a reason.
fn remedy(reason: &str) -> &'static str {
    match reason {
        "greater_than_max_sample_age" => {
            "; date them by now with `--timestamps now`, or raise limits.reject_old_samples_max_age of the \
             server (0: any age)"
        }
        "too_far_in_future" => {
            "; check the clocks and time zones, date them by now with `--timestamps now`, or raise \
             limits.creation_grace_period of the server"
        }
        TOO_LONG => {
            "; raise limits.max_line_size of the server, or have it cut them with \
             limits.max_line_size_truncate"
        }
        _ => "",
    }
}

/// The beginning of a line, harmless on a terminal.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN_CHARACTERS)]);
    let safe = text.chars().take(SHOWN_CHARACTERS).map(|c| if c.is_control() { ' ' } else { c });
    let mut safe: String = safe.collect();
    if text.chars().nth(SHOWN_CHARACTERS).is_some() || line.len() > 4 * SHOWN_CHARACTERS {
        safe.push_str("...");
    }
    safe
}
