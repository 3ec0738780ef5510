//! Requests: a path, parameters, and the type of the answer.

use crate::corpus::{HALF_NS, MIDDLE_NS, SECOND_NS};
use crate::grammar::{Query, log_query, metric_query, spoilt};
use crate::random::Random;

/// How the answer to a request is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A query result: streams, matrix, vector or scalar.
    Query,
    /// `data` is a list of words or label sets in any order.
    Set,
    /// Counts of streams, chunks, bytes and entries.
    IndexStats,
    /// Sums of bytes by series.
    Volume,
    /// `detectedLabels`.
    DetectedLabels,
    /// `fields`.
    DetectedFields,
    /// The complete body is significant.
    Exact,
}

/// A request to both servers.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The path without parameters.
    pub path: String,
    /// The query, which is also in the parameters as `query`.
    pub query: Option<Query>,
    /// Names and values of parameters, in order.
    pub parameters: Vec<(String, String)>,
    /// Further headers.
    pub headers: Vec<&'static str>,
    /// Whether parameters are sent as a form.
    pub by_post: bool,
    /// How the answer is compared.
    pub shape: Shape,
}

impl Ask {
    /// A request for `path`.
    pub fn new(path: &str, shape: Shape) -> Self {
        let path = format!("/loki/api/v1/{path}");
        Self { path, query: None, parameters: Vec::new(), headers: Vec::new(), by_post: false, shape }
    }

    /// Adds a parameter.
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.parameters.push((name.to_owned(), value.to_string()));
        self
    }

    /// Replaces the query.
    pub fn with_query(&self, query: Query) -> Self {
        let mut other = self.clone();
        other.parameters.retain(|(name, _)| name != "query");
        other.parameters.insert(0, ("query".to_owned(), query.to_string()));
        other.query = Some(query);
        other
    }

    /// Returns the value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Returns the text of the query.
    pub fn query_text(&self) -> &str {
        self.parameter("query").unwrap_or_default()
    }
}

impl std::fmt::Display for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.by_post { "POST " } else { "" }, self.path)?;
        self.parameters.iter().try_for_each(|(name, value)| write!(f, "\n    {name} = {value}"))?;
        self.headers.iter().try_for_each(|header| write!(f, "\n    header {header}"))
    }
}

/// Returns query number `index` of a seed.
pub fn random_query(seed: u64, index: u64) -> Ask {
    let mut random = Random::fork(seed, index);
    let random = &mut random;
    let query = match random.below(100) {
        0..=7 => Query::Text(spoilt(random)),
        8..=49 => Query::Log(log_query(random)),
        _ => Query::Metric(metric_query(random, 3)),
    };
    let is_log = matches!(query, Query::Log(_));
    let instant = random.chance(if is_log { 2 } else { 40 });
    let mut ask = if instant { at_a_time(random) } else { over_a_range(random, is_log) };
    ask.by_post = random.chance(10);
    if random.chance(20) {
        ask.headers.push("X-Loki-Response-Encoding-Flags: categorize-labels");
    }
    if random.chance(2) {
        spoil_parameters(&mut ask, random);
    }
    ask.with_query(query)
}

fn at_a_time(random: &mut Random) -> Ask {
    let time = MIDDLE_NS + random.between(-HALF_NS / SECOND_NS, HALF_NS / SECOND_NS + 120) * SECOND_NS;
    let time = if random.chance(20) { time + random.between(1, 999) * 1_000_000 } else { time };
    Ask::new("query", Shape::Query).with("time", moment(random, time))
}

/// Returns start and end: of the complete corpus, or of a part of it.
pub fn range(random: &mut Random) -> (i64, i64) {
    match random.below(10) {
        0..=4 => (MIDDLE_NS - HALF_NS - 60 * SECOND_NS, MIDDLE_NS + HALF_NS + 60 * SECOND_NS),
        5 => (MIDDLE_NS - 2 * HALF_NS, MIDDLE_NS - HALF_NS),
        6..=7 => {
            let start = MIDDLE_NS + random.between(-HALF_NS, HALF_NS / 2);
            (start, start + random.between(1, HALF_NS / 2))
        }
        _ => {
            let start = MIDDLE_NS + random.between(-20, 10) * 60 * SECOND_NS;
            (start, start + random.between(1, 15) * 60 * SECOND_NS)
        }
    }
}

fn over_a_range(random: &mut Random, is_log: bool) -> Ask {
    let (start, end) = range(random);
    let mut ask = Ask::new("query_range", Shape::Query)
        .with("start", moment(random, start))
        .with("end", moment(random, end));
    if !is_log || random.chance(10) {
        let fine = end - start < 600 * SECOND_NS;
        let step = if fine {
            random.pick(&["1", "5s", "15", "60", "0.5", "7.5", "1m30s"])
        } else {
            random.pick(&["15", "30s", "60", "60s", "1m", "300", "5m", "17", "90.5"])
        };
        if random.chance(90) {
            ask = ask.with("step", step);
        }
    }
    let interval = is_log && random.chance(4);
    if is_log && !interval && random.chance(70) {
        ask = ask.with("limit", random.pick(&["1", "3", "10", "50", "100", "1000", "5000"]));
    }
    if random.chance(if is_log { 75 } else { 10 }) {
        ask = ask.with("direction", random.pick(&["forward", "backward", "FORWARD"]));
    }
    if interval {
        // Loki's ingesters apply the limit before they drop lines, its store afterwards; therefore the
        // limit is high.
        ask = ask.with("interval", random.pick(&["10s", "60", "1.5"])).with("limit", "5000");
    }
    ask
}

/// Formats a time in one of the forms that the API accepts.
pub fn moment(random: &mut Random, time_ns: i64) -> String {
    let whole = time_ns % SECOND_NS == 0;
    match random.below(10) {
        0 if whole => (time_ns / SECOND_NS).to_string(),
        1 if time_ns % 1_000_000 == 0 => format!("{:.3}", time_ns as f64 / SECOND_NS as f64),
        _ => time_ns.to_string(),
    }
}

fn spoil_parameters(ask: &mut Ask, random: &mut Random) {
    let (name, value) = [
        ("limit", "-1"),
        ("limit", "0"),
        ("limit", "many"),
        ("limit", "5001"),
        ("limit", "99999999999999999999"),
        ("direction", "sideways"),
        ("step", "0"),
        ("step", "-1"),
        ("step", "never"),
        ("step", "0.001"),
        ("start", "then"),
        ("end", "1"),
        ("end", "then"),
        ("time", "then"),
        ("start", "2026-01-05T09:00:00Z"),
        ("end", "2026-01-05T09:10:00.5+00:00"),
        ("interval", "-1"),
        ("interval", "x"),
        ("since", "1h"),
        ("since", "x"),
        ("step", ""),
        ("limit", ""),
        ("start", ""),
        ("direction", ""),
    ][random.below(24)];
    ask.parameters.retain(|(n, _)| n != name);
    ask.parameters.push((name.to_owned(), value.to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_reproducible_and_differ() {
        let text = |index| random_query(3, index).to_string();
        assert_eq!(text(5), text(5));
        let different: std::collections::BTreeSet<String> = (0..500).map(text).collect();
        assert!(different.len() > 480);
    }
}
