//! Reports what is stored, what is not and why, and what to do.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandur_base::units::ByteSize;
use sandur_cli::moment;
use sandur_terminal::counted;

use super::assembler::LINE_BYTES_MAX;
use super::batch::{Batch, Skipped};
use super::sender::Left;

/// Number of refused lines that are shown individually.
const SHOWN_MAX: u64 = 5;
/// Maximum characters of a line that are shown.
const SHOWN_CHARACTERS: usize = 100;
/// Number of failed inputs that are listed individually.
const FAILURES_SHOWN_MAX: u64 = 100;
/// Number of inputs with unknown times that are listed individually.
const NOT_UNDERSTOOD_SHOWN_MAX: u64 = 20;
/// The reason for lines that were skipped because of their length.
const TOO_LONG: &str = "line_too_long";

/// Maximum characters of the server's text that are shown.
const SAID_CHARACTERS: usize = 1_000;

/// The kind of data that a push ships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shipped {
    /// Lines of logs.
    Lines,
    /// Samples, one per line.
    Samples,
}

/// The counts of a push.
pub struct Report {
    shipped: Shipped,
    bar: ProgressBar,
    lines: u64,
    /// Number of lines that were joined to others and are stored.
    joined: u64,
    bytes: u64,
    /// Number of inputs whose times are not understood.
    not_understood: u64,
    /// Stored lines that are not valid UTF-8.
    not_utf8: u64,
    refused: BTreeMap<String, u64>,
    shown: u64,
    failures: u64,
}

impl Report {
    /// An empty report; on a terminal it shows the progress.
    pub fn new(shipped: Shipped) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = "{bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            shipped,
            bar,
            lines: 0,
            joined: 0,
            bytes: 0,
            not_understood: 0,
            not_utf8: 0,
            refused: BTreeMap::new(),
            shown: 0,
            failures: 0,
        }
    }

    /// Begins an input of this size.
    pub fn begin(&self, name: &str, bytes: u64) {
        self.bar.set_message(name.to_owned());
        self.bar.set_length(self.bar.position() + bytes);
    }

    /// Prints a notice that is not a failure.
    pub fn notice(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// Reports that an input could not be read; the push continues with others.
    pub fn failure(&mut self, text: &str) {
        self.failures += 1;
        if self.failures <= FAILURES_SHOWN_MAX {
            self.notice(&format!("sandur: {text}"));
        }
    }

    /// Reports that an input has times in a format that is not known.
    pub fn not_understood(&mut self, name: &str, example: &str) {
        self.not_understood += 1;
        if self.not_understood <= NOT_UNDERSTOOD_SHOWN_MAX {
            self.notice(&format!(
                "{name}: times as in '{example}' are not understood: lines are dated by arrival. \
                 --time-format FORMAT reads such times, as '%H:%M:%S %d %b %Y'; --timestamps now confirms \
                 the arrival"
            ));
        }
    }

    /// Counts a batch, of which `left` is not stored.
    pub fn settled(&mut self, name: &str, batch: &Batch, left: &[Left]) {
        let (mut lines, mut bytes) = (batch.lines.len() as u64, batch.bytes());
        let (mut not_utf8, mut joined) = (batch.not_utf8, batch.joined(0..batch.lines.len()));
        for part in left {
            lines = lines.saturating_sub(part.lines.len() as u64);
            joined = joined.saturating_sub(batch.joined(part.lines.clone()));
            bytes = bytes.saturating_sub(batch.bytes_of(part.lines.clone()));
            not_utf8 = not_utf8.saturating_sub(batch.not_utf8_of(part.lines.clone()));
            *self.refused.entry(part.reason.clone()).or_default() += part.lines.len() as u64;
            for n in part.lines.clone() {
                if self.shown == SHOWN_MAX {
                    break;
                }
                let (line, text) = (batch.lines[n], shown(batch.text(n), SHOWN_CHARACTERS));
                let read = read_as(&part.reason, line.timestamp_ns, batch.text(n));
                let (at, why) = (line.at, words(&part.reason));
                self.show(&format!("{name}: byte {at}: refused, {why}{read}: {text}"));
            }
        }
        for Skipped { at, length } in &batch.skipped {
            *self.refused.entry(TOO_LONG.to_owned()).or_default() += 1;
            let bound = ByteSize(LINE_BYTES_MAX as u64);
            let text = format!("not sent, line too long: {length} bytes, the maximum is {bound}");
            self.show(&format!("{name}: byte {at}: {text}"));
        }
        self.lines += lines;
        self.joined += joined;
        self.bytes += bytes;
        self.not_utf8 += not_utf8;
        self.bar.inc(batch.end - batch.start);
    }

    /// Counts stored samples and bytes.
    pub fn stored_samples(&mut self, samples: u64, bytes: u64) {
        self.lines += samples;
        self.bytes += bytes;
    }

    /// Counts and shows a line of samples that is not stored.
    pub fn refused_sample(&mut self, place: &str, reason: &str, line: &[u8]) {
        *self.refused.entry(reason.to_owned()).or_default() += 1;
        let text = shown(line, SHOWN_CHARACTERS);
        self.show(&format!("{place}: refused, {}: {text}", words(reason)));
    }

    /// Prints the server's text.
    pub fn quote(&self, text: &str) {
        self.notice(&format!("the server says: {}", shown(text.as_bytes(), SAID_CHARACTERS)));
    }

    /// Whether nothing was refused so far.
    pub fn is_clean(&self) -> bool {
        self.refused.is_empty()
    }

    fn show(&mut self, text: &str) {
        self.shown += 1;
        if self.shown <= SHOWN_MAX {
            self.notice(text);
        }
    }

    /// Number of lines and bytes acknowledged so far.
    pub fn score(&self) -> (u64, u64) {
        (self.lines, self.bytes)
    }

    /// Prints the summary. Returns the exit code.
    pub fn finish(&self, took: Duration, rejected: Option<&str>) -> ExitCode {
        self.bar.finish_and_clear();
        let took = took.as_secs_f64();
        let rate = ByteSize((self.bytes as f64 / took.max(0.001)) as u64);
        let bytes = ByteSize(self.bytes);
        let stored = match self.joined {
            0 => counted_as(self.lines, self.shipped),
            joined => format!("{} of {} lines", counted(self.lines, "entry", "entries"), self.lines + joined),
        };
        eprintln!("acknowledged {stored}, {bytes} in {took:.1} s ({rate}/s)");
        if self.not_utf8 > 0 {
            let lines = counted(self.not_utf8, "line is", "lines are");
            eprintln!("{lines} not valid UTF-8: stored unchanged, shown with replacement characters");
        }
        for (reason, lines) in &self.refused {
            let (refused, remedy) = (counted(*lines, "line", "lines"), remedy(reason, self.shipped));
            eprintln!("refused {refused}: {}{remedy}", words(reason));
        }
        if let Some(path) = rejected.filter(|_| !self.refused.is_empty()) {
            eprintln!("refused lines are kept in '{path}'");
        } else if !self.refused.is_empty() {
            eprintln!("refused lines are not kept: use --rejected FILE to keep them, to be pushed again");
        }
        if self.not_understood > 0 {
            let inputs = counted(self.not_understood, "input has", "inputs have");
            eprintln!("{inputs} times that are not understood");
        }
        if self.failures > 0 {
            eprintln!("{} could not be read completely", counted(self.failures, "input", "inputs"));
        }
        match self.refused.is_empty() && self.failures == 0 {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}

/// A readable form of a reason.
fn words(reason: &str) -> String {
    match reason {
        "greater_than_max_sample_age" => "older than the server accepts".to_owned(),
        "too_far_in_future" => "further in the future than the server accepts".to_owned(),
        other => other.replace('_', " "),
    }
}

/// Formats a count of what is shipped.
pub fn counted_as(number: u64, shipped: Shipped) -> String {
    match shipped {
        Shipped::Lines => counted(number, "line", "lines"),
        Shipped::Samples => counted(number, "sample", "samples"),
    }
}

/// The time that was read from a line which is refused because of it. Days and months of dates like
/// `11/05/2026` may be exchanged.
fn read_as(reason: &str, timestamp_ns: i64, line: &[u8]) -> String {
    if !matches!(reason, "greater_than_max_sample_age" | "too_far_in_future") {
        return String::new();
    }
    let time = moment::show(timestamp_ns);
    match has_day_or_month_first(line) {
        true => format!(" (read as {time}; if the month comes first, --time-format '%m/%d/%Y %H:%M:%S')"),
        false => format!(" (read as {time})"),
    }
}

/// `11/05/2026 ..`, `[1/5/2026 ..`
fn has_day_or_month_first(line: &[u8]) -> bool {
    let start = line.trim_ascii_start();
    let start = start.strip_prefix(b"[").unwrap_or(start);
    let mut parts = start.splitn(3, |byte| *byte == b'/');
    let is_short = |part: Option<&[u8]>| {
        part.is_some_and(|digits| matches!(digits.len(), 1 | 2) && digits.iter().all(u8::is_ascii_digit))
    };
    is_short(parts.next()) && is_short(parts.next()) && parts.next().is_some()
}

/// What to do about a reason.
fn remedy(reason: &str, shipped: Shipped) -> &'static str {
    match (shipped, reason) {
        (Shipped::Samples, reason) => remedy_of_samples(reason),
        (Shipped::Lines, reason) => remedy_of_lines(reason),
    }
}

fn remedy_of_samples(reason: &str) -> &'static str {
    match reason {
        "sample_too_old" => "; raise limits.metrics.out_of_order_time_window of the server (0: any age)",
        "too_far_in_future" => {
            "; check the clock, and that times are milliseconds in Prometheus's format and seconds in \
             OpenMetrics, or raise limits.metrics.creation_grace_period of the server"
        }
        "new_value_for_timestamp" => "; the server keeps the first value of an instant",
        "timestamp_out_of_range" => {
            "; times are milliseconds in Prometheus's format and seconds in OpenMetrics, and the years 1678 \
             to 2261 can be stored"
        }
        "per_user_series_limit" => "; raise limits.metrics.max_global_series_per_user of the server",
        "max_label_names_per_series" => "; raise limits.metrics.max_label_names_per_series of the server",
        "label_name_too_long" => "; raise limits.metrics.max_label_name_length of the server",
        "label_value_too_long" => "; raise limits.metrics.max_label_value_length of the server",
        _ => "",
    }
}

fn remedy_of_lines(reason: &str) -> &'static str {
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
            "; raise limits.max_line_size of the server, or let it truncate them with \
             limits.max_line_size_truncate; --no-multiline sends joined lines one by one"
        }
        _ => "",
    }
}

/// The start of a line, without control characters.
fn shown(line: &[u8], characters: usize) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * characters)]);
    let safe = text.chars().take(characters).map(|c| if c.is_control() { ' ' } else { c });
    let mut safe: String = safe.collect();
    if text.chars().nth(characters).is_some() || line.len() > 4 * characters {
        safe.push_str("...");
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_that_may_be_read_the_other_way_is_shown_as_it_was_read() {
        let old = "greater_than_max_sample_age";
        let shown = read_as(old, 1_778_457_600_000_000_000, b"11/05/2026 00:00:00 started");
        assert!(shown.contains("read as 2026-05-11T00:00:00.000Z") && shown.contains("'%m/%d/%Y %H:%M:%S'"));
        let shown = read_as(old, 1_778_457_600_000_000_000, b"2026-05-11 00:00:00 GET /11/05/2026");
        assert_eq!(shown, " (read as 2026-05-11T00:00:00.000Z)");
        assert_eq!(read_as("rate_limited", 0, b"11/05/2026 00:00:00"), "");
    }
}
