//! Compares an answer with the expectation of a script.

use sandur_logql::Kind;
use sandur_query::{LogRow, QueryResult, Series};

use crate::script::{EPOCH_NS, Eval, Expected, ExpectedRow, Match, Pairs, quote};

/// Returns what is wrong with the answer, or `None` when it is correct.
pub fn difference(eval: &Eval, result: Result<QueryResult, String>) -> Option<String> {
    match (&eval.expected, result) {
        (Expected::Fail(how), Err(error)) => failure(how.as_ref(), &error),
        (_, Err(error)) => Some(format!("failed: {error}")),
        (Expected::Fail(_), Ok(result)) => Some(format!("did not fail: {}", brief(&result))),
        (Expected::Empty, Ok(QueryResult::Matrix(s) | QueryResult::Vector(s))) if s.is_empty() => None,
        (Expected::Empty, Ok(QueryResult::Streams(s))) if s.is_empty() => None,
        (Expected::Empty, Ok(result)) => Some(format!("not empty: {}", brief(&result))),
        (Expected::Scalar(value), Ok(QueryResult::Scalar(sample))) => {
            (!is_close(*value, sample.value)).then(|| format!("{} instead of {value}", sample.value))
        }
        (Expected::Scalar(value), Ok(QueryResult::Matrix(series)))
            if series.len() == 1 && series[0].labels.is_empty() =>
        {
            let same = series[0].samples.iter().all(|s| is_close(s.value, *value));
            (!same).then(|| format!("{:?} instead of {value}", series[0].samples))
        }
        (Expected::Rows(rows), Ok(QueryResult::Streams(found))) => rows_difference(rows, &found),
        (Expected::Series { ordered, series }, Ok(result)) => {
            series_difference(eval, *ordered, series, result)
        }
        (_, Ok(result)) => Some(format!("another kind of answer: {}", brief(&result))),
    }
}

fn failure(how: Option<&Match>, error: &str) -> Option<String> {
    let fits = match how {
        None => true,
        Some(Match::Part(part)) => error.contains(part.as_str()),
        Some(Match::Whole(text)) => error == text,
        Some(Match::Regex(regex)) => regex.is_match(error),
    };
    (!fits).then(|| format!("failed with another message: {}", quote(error.as_bytes())))
}

fn brief(result: &QueryResult) -> String {
    match result {
        QueryResult::Streams(rows) => rows.iter().map(|r| format!("\n    {}", row_text(&row(r)))).collect(),
        QueryResult::Matrix(series) | QueryResult::Vector(series) => series
            .iter()
            .map(|s| {
                let values: Vec<String> = s.samples.iter().map(|p| p.value.to_string()).collect();
                format!("\n    {} {}", labels_text(&owned(&s.labels)), values.join(" "))
            })
            .collect(),
        QueryResult::Scalar(sample) => sample.value.to_string(),
    }
}

/// The last bits of a sum depend on the order of addition.
fn is_close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn owned(pairs: &[(Box<str>, Box<str>)]) -> Pairs {
    pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
}

fn row(row: &LogRow) -> ExpectedRow {
    let pairs = |labels: &sandur_model::Labels| {
        labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect::<Pairs>()
    };
    ExpectedRow {
        timestamp: row.timestamp,
        stream: pairs(&row.stream),
        metadata: pairs(&row.metadata),
        parsed: owned(&row.parsed),
        line: row.line.to_vec(),
    }
}

fn labels_text(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// Writes a row as scripts do.
fn row_text(row: &ExpectedRow) -> String {
    let offset = row.timestamp - EPOCH_NS;
    let fraction = format!(".{:09}", offset.rem_euclid(1_000_000_000));
    let time = format!("{}{}s", offset.div_euclid(1_000_000_000), fraction.trim_end_matches(['0']));
    let mut text = time.replace(".s", "s");
    let groups = [&row.stream, &row.metadata, &row.parsed];
    let shown = groups.iter().rposition(|g| !g.is_empty()).map_or(1, |n| n + 1);
    for group in &groups[..shown] {
        text.push_str(&format!(" {}", labels_text(group)));
    }
    format!("{text} {}", quote(&row.line))
}

fn rows_difference(expected: &[ExpectedRow], found: &[LogRow]) -> Option<String> {
    let found: Vec<ExpectedRow> = found.iter().map(row).collect();
    let list = |rows: &[ExpectedRow]| rows.iter().map(row_text).collect::<Vec<_>>().join("\n    ");
    (found != expected).then(|| format!("found\n    {}\n  expected\n    {}", list(&found), list(expected)))
}

/// The labels of a series and its value at each step.
type Line = (Pairs, Vec<Option<f64>>);

fn series_difference(eval: &Eval, ordered: bool, expected: &[Line], result: QueryResult) -> Option<String> {
    let (found, first, step) = match (result, eval.request.kind) {
        (QueryResult::Vector(series), Kind::Instant { time_ns }) => (series, time_ns, 1_000_000),
        (QueryResult::Matrix(series), Kind::Range { start_ns, step_ns, .. }) => {
            let early = if eval.aligned { start_ns.rem_euclid(step_ns) } else { 0 };
            (series, start_ns - early, step_ns)
        }
        (other, _) => return Some(format!("another kind of answer: {}", brief(&other))),
    };
    let steps = expected.first().map_or(1, |(_, values)| values.len());
    let grid = Grid { first_ms: first.div_euclid(1_000_000), step_ms: (step / 1_000_000).max(1), steps };
    let mut rows = Vec::new();
    for series in &found {
        match grid.line(series) {
            Ok(line) => rows.push(line),
            Err(wrong) => return Some(wrong),
        }
    }
    let mut wanted = expected.to_vec();
    if !ordered {
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let is_same = rows.len() == wanted.len()
        && rows.iter().zip(&wanted).all(|(r, w)| r.0 == w.0 && equal_values(&r.1, &w.1));
    (!is_same).then(|| format!("found\n    {}\n  expected\n    {}", lines_text(&rows), lines_text(&wanted)))
}

/// The steps of a query.
struct Grid {
    first_ms: i64,
    step_ms: i64,
    steps: usize,
}

impl Grid {
    fn line(&self, series: &Series) -> Result<Line, String> {
        let mut values = vec![None; self.steps];
        for sample in &series.samples {
            let after = sample.timestamp_ms - self.first_ms;
            let place = usize::try_from(after / self.step_ms).ok();
            match place.and_then(|place| values.get_mut(place)) {
                Some(slot) if after % self.step_ms == 0 && slot.is_none() => *slot = Some(sample.value),
                _ => return Err(format!("an unexpected value at {after} ms: {series:?}")),
            }
        }
        Ok((owned(&series.labels), values))
    }
}

fn equal_values(a: &[Option<f64>], b: &[Option<f64>]) -> bool {
    let pair = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
        (Some(a), Some(b)) => is_close(*a, *b),
        (a, b) => a.is_none() && b.is_none(),
    };
    a.len() == b.len() && a.iter().zip(b).all(pair)
}

fn lines_text(rows: &[Line]) -> String {
    let value = |v: &Option<f64>| v.map_or("_".to_owned(), |v| v.to_string());
    let line =
        |(l, v): &Line| format!("{} {}", labels_text(l), v.iter().map(value).collect::<Vec<_>>().join(" "));
    rows.iter().map(line).collect::<Vec<_>>().join("\n    ")
}
