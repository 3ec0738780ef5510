//! Reads the answer that an evaluation expects.

use super::text::{pairs, split_labels, split_text};
use super::time::{EPOCH_NS, duration};

/// Labels sorted by name.
pub type Pairs = Vec<(String, String)>;

/// The expected answer.
#[derive(Debug)]
pub enum Expected {
    /// An answer without series or rows.
    Empty,
    /// An error, and its text if that is checked.
    Fail(Option<Match>),
    /// A scalar.
    Scalar(f64),
    /// Series with a value for each step.
    Series {
        /// Whether the order of the series is checked.
        ordered: bool,
        /// Labels, and a value for each step; `None` is a gap.
        series: Vec<(Pairs, Vec<Option<f64>>)>,
    },
    /// Rows, in the order of the answer.
    Rows(Vec<ExpectedRow>),
}

/// A row of a log query's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedRow {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// Labels of the stream.
    pub stream: Pairs,
    /// Structured metadata of the row.
    pub metadata: Pairs,
    /// Labels that the stages added.
    pub parsed: Pairs,
    /// The line of the row.
    pub line: Vec<u8>,
}

/// The expected text of an error.
#[derive(Debug)]
pub enum Match {
    /// The error contains this text.
    Part(String),
    /// The error equals this text.
    Whole(String),
    /// The error matches this regular expression.
    Regex(regex::Regex),
}

/// Reads the block below an `eval`.
pub fn parse<'a>(lines: impl Iterator<Item = &'a str>, logs: bool) -> Result<Expected, String> {
    let mut found: Vec<Expected> = Vec::new();
    let (mut is_ordered, mut series, mut rows) = (false, Vec::new(), Vec::new());
    for line in lines {
        if let Some(what) = line.strip_prefix("expect ") {
            match what.split_once(' ').map_or((what, ""), |(a, b)| (a, b.trim())) {
                ("empty", "") => found.push(Expected::Empty),
                ("ordered", "") => is_ordered = true,
                ("fail", how) => found.push(Expected::Fail(failure(how)?)),
                _ => return Err(format!("unknown expectation: {line}")),
            }
        } else if line.starts_with("skip values-comparison on ") {
            // It excludes one of Loki's own configurations; ours must always return the values.
        } else if logs {
            rows.push(row(line)?);
        } else if line.starts_with('{') {
            let (labels, points) = split_labels(line)?;
            let mut values = Vec::new();
            for point in points.split_whitespace() {
                values.extend(points_of(point)?);
            }
            if values.is_empty() {
                return Err(format!("no values: {line}"));
            }
            series.push((pairs(labels)?, values));
        } else {
            found.push(Expected::Scalar(number(line)?));
        }
    }
    if !series.is_empty() {
        found.push(Expected::Series { ordered: is_ordered, series });
    }
    if !rows.is_empty() {
        found.push(Expected::Rows(rows));
    }
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => Err("exactly one kind of answer must be expected".to_owned()),
    }
}

fn failure(how: &str) -> Result<Option<Match>, String> {
    if how.is_empty() {
        return Ok(None);
    }
    let (kind, text) = how.split_once(':').map_or((how, ""), |(kind, text)| (kind, text.trim()));
    if text.is_empty() {
        return Err(format!("unknown qualifier of 'expect fail': {how}"));
    }
    match kind {
        "msg" => Ok(Some(Match::Part(text.to_owned()))),
        "text" if text.starts_with("e\"") => {
            let (text, _) = split_text(text)?;
            Ok(Some(Match::Whole(String::from_utf8_lossy(&text).into_owned())))
        }
        "text" => Ok(Some(Match::Whole(text.to_owned()))),
        "regex" => Ok(Some(Match::Regex(regex::Regex::new(text).map_err(|e| e.to_string())?))),
        _ => Err(format!("unknown qualifier of 'expect fail': {how}")),
    }
}

fn row(line: &str) -> Result<ExpectedRow, String> {
    let (time, mut rest) = line.split_once(' ').ok_or_else(|| format!("not a row: {line}"))?;
    let timestamp = EPOCH_NS + duration(time)?;
    let mut groups = Vec::new();
    rest = rest.trim_start();
    while rest.starts_with('{') {
        let (labels, after) = split_labels(rest)?;
        groups.push(pairs(labels)?);
        rest = after;
    }
    let (line, after) = split_text(rest)?;
    if !after.is_empty() || groups.len() > 3 {
        return Err(format!("unexpected text: {rest}"));
    }
    let mut groups = groups.into_iter();
    let mut next = || groups.next().unwrap_or_default();
    Ok(ExpectedRow { timestamp, stream: next(), metadata: next(), parsed: next(), line })
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "Inf" | "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        text => text.parse().map_err(|_| format!("'{text}' is not a number")),
    }
}

/// Reads points: `2+3x2` is `2 5 8`; `4x3` is `4 4 4 4`.
fn points_of(text: &str) -> Result<Vec<Option<f64>>, String> {
    let Some((head, count)) = text.split_once('x') else {
        return Ok(vec![if text == "_" { None } else { Some(number(text)?) }]);
    };
    let count: u32 = count.parse().map_err(|_| format!("'{text}' is not a number of repetitions"))?;
    let first = head.chars().next().map_or(0, char::len_utf8);
    let split = head[first..].rfind(['+', '-']).map(|n| n + first);
    let (base, step) = split.map_or((head, "0"), |n| (&head[..n], &head[n..]));
    let (base, step) = (number(base)?, number(step)?);
    Ok((0..=count).map(|n| Some(base + f64::from(n) * step)).collect())
}
