//! Compares two answers.
//!
//! An answer is converted to rows whose order and numbers can be compared separately from their
//! contents, so that a difference gets the most specific kind.

use std::collections::BTreeMap;

use sandur_bench::http::Answer;
use serde_json::Value;

use crate::ask::{Ask, Shape};

/// The relative difference up to which numbers count as the same sum in another order: doubles have 53
/// bits, 2⁻⁵³ ≈ 1.1e-16, and sums over some thousand values of both signs lose a few more digits.
pub const TOLERANCE: f64 = 1e-9;

/// The kind of a difference, from the outermost to the innermost part of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The status of the answers.
    Status,
    /// The text of an error.
    ErrorText,
    /// The type of the result, or invalid JSON.
    Shape,
    /// `warnings` or `encodingFlags`.
    Remarks,
    /// The same rows in another order.
    Order,
    /// The same entries, in another order where their times are equal.
    TieOrder,
    /// Entries differ only at the time at which the limit truncates.
    TieCut,
    /// As [`Kind::TieCut`], but the lines are the same: entries differ only in their labels.
    TieCutLabels,
    /// Numbers differ within [`TOLERANCE`].
    Rounding,
    /// The same numbers at every time, in other series.
    Attribution,
    /// Rows or values differ.
    Content,
}

/// A difference of two answers.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The kind.
    pub kind: Kind,
    /// A short description with both answers.
    pub detail: String,
}

fn difference(kind: Kind, detail: impl Into<String>) -> Option<Difference> {
    Some(Difference { kind, detail: detail.into() })
}

/// A stream or series: its labels, and times and values.
type Row = (String, Vec<(String, String)>);

/// Returns how `ours` differs from `loki`, if it does.
pub fn compare(ask: &Ask, loki: &Answer, ours: &Answer) -> Option<Difference> {
    let (loki_text, our_text) = (text(loki), text(ours));
    if loki.status != ours.status {
        let said = format!("{} {} | {} {}", loki.status, short(&loki_text), ours.status, short(&our_text));
        return difference(Kind::Status, said);
    }
    if loki_text.trim_end() == our_text.trim_end() {
        return None;
    }
    if loki.status / 100 != 2 {
        return difference(Kind::ErrorText, format!("{}\n      | {}", short(&loki_text), short(&our_text)));
    }
    let (Ok(loki), Ok(ours)) =
        (serde_json::from_str::<Value>(&loki_text), serde_json::from_str::<Value>(&our_text))
    else {
        return difference(Kind::Shape, format!("{} | {}", short(&loki_text), short(&our_text)));
    };
    match ask.shape {
        Shape::Query | Shape::Volume => compare_results(ask, &loki, &ours),
        Shape::Set => compare_sets(&loki, &ours, &["data", "values"]),
        Shape::DetectedLabels => compare_sets(&loki, &ours, &["detectedLabels"]),
        Shape::DetectedFields => compare_sets(&loki, &ours, &["fields"]),
        Shape::IndexStats => compare_stats(&loki, &ours),
        Shape::Exact => compare_values("body", &loki, &ours),
    }
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// The largest number of characters of a text that are shown.
const SHORT_CHARS: usize = 400;

fn short(text: &str) -> String {
    text.trim().chars().take(SHORT_CHARS).collect()
}

fn compare_values(what: &str, loki: &Value, ours: &Value) -> Option<Difference> {
    if loki == ours {
        return None;
    }
    difference(
        Kind::Content,
        format!("{what}: {}\n      | {}", short(&loki.to_string()), short(&ours.to_string())),
    )
}

/// Compares lists in any order, and everything around them.
fn compare_sets(loki: &Value, ours: &Value, names: &[&str]) -> Option<Difference> {
    let sorted = |value: &Value| {
        let mut value = value.clone();
        for name in names {
            if let Some(list) = value.get_mut(*name).and_then(Value::as_array_mut) {
                list.iter_mut().for_each(sort_parsers);
                list.sort_by_key(Value::to_string);
            }
        }
        value
    };
    let (loki, ours) = (sorted(loki), sorted(ours));
    if loki == ours {
        return None;
    }
    for name in names {
        let (Some(left), Some(right)) = (loki[*name].as_array(), ours[*name].as_array()) else { continue };
        let only = |a: &[Value], b: &[Value]| {
            let missing: Vec<String> =
                a.iter().filter(|v| !b.contains(v)).take(6).map(Value::to_string).collect();
            missing.join(" ")
        };
        let detail =
            format!("{name}: only Loki {}\n      | only we {}", only(left, right), only(right, left));
        return difference(Kind::Content, detail);
    }
    compare_values("body", &loki, &ours)
}

fn sort_parsers(field: &mut Value) {
    if let Some(parsers) = field.get_mut("parsers").and_then(Value::as_array_mut) {
        parsers.sort_by_key(Value::to_string);
    }
}

/// Compares streams and entries; bytes and chunks depend on the storage.
fn compare_stats(loki: &Value, ours: &Value) -> Option<Difference> {
    for name in ["streams", "entries"] {
        if loki[name] != ours[name] {
            return difference(Kind::Content, format!("{name}: {} | {}", loki[name], ours[name]));
        }
    }
    None
}

fn compare_results(ask: &Ask, loki: &Value, ours: &Value) -> Option<Difference> {
    let (left, right) = (&loki["data"], &ours["data"]);
    if left["resultType"] != right["resultType"] {
        return difference(Kind::Shape, format!("{} | {}", left["resultType"], right["resultType"]));
    }
    for (what, a, b) in [
        ("warnings", &loki["warnings"], &ours["warnings"]),
        ("encodingFlags", &left["encodingFlags"], &right["encodingFlags"]),
    ] {
        if a != b {
            return difference(Kind::Remarks, format!("{what}: {a} | {b}"));
        }
    }
    if left["result"] == right["result"] {
        return None;
    }
    let (Some(loki), Some(ours)) = (rows(&left["result"]), rows(&right["result"])) else {
        return compare_values("result", &left["result"], &right["result"]);
    };
    if ask.shape == Shape::Volume {
        return compare_volumes(&loki, &ours);
    }
    compare_rows(ask, loki, ours, left["resultType"] == "streams")
}

/// Returns the rows of a result; `None` if it has no rows.
fn rows(result: &Value) -> Option<Vec<Row>> {
    let list = result.as_array()?;
    list.iter()
        .map(|row| {
            let labels = row.get("metric").or_else(|| row.get("stream"))?;
            let values = match (row.get("values"), row.get("value")) {
                (Some(Value::Array(values)), _) => values.clone(),
                (_, Some(value)) => vec![value.clone()],
                _ => Vec::new(),
            };
            let pair = |value: &Value| {
                let extra = value.get(2).map(Value::to_string).unwrap_or_default();
                let text = value[1].as_str().map_or_else(|| value[1].to_string(), str::to_owned);
                (value[0].as_str().map_or_else(|| value[0].to_string(), str::to_owned), text + &extra)
            };
            Some((labels.to_string(), values.iter().map(pair).collect()))
        })
        .collect()
}

fn compare_rows(ask: &Ask, mut loki: Vec<Row>, mut ours: Vec<Row>, streams: bool) -> Option<Difference> {
    if !streams && [&loki, &ours].into_iter().any(|rows| repeats_times(rows)) {
        for (_, values) in loki.iter_mut().chain(&mut ours) {
            values.sort();
        }
        if loki == ours {
            return difference(Kind::TieOrder, "values with the same time");
        }
    }
    let (mut left, mut right) = (loki.clone(), ours.clone());
    left.sort();
    right.sort();
    if left == right {
        let order = |rows: &[Row]| rows.iter().map(|r| r.0.as_str()).take(6).collect::<Vec<_>>().join(" ");
        return difference(Kind::Order, format!("{}\n      | {}", order(&loki), order(&ours)));
    }
    if streams {
        if let Some(kind) = tie(ask, &left, &right) {
            return difference(kind, content(&left, &right));
        }
    } else if numerically_equal(&left, &right) {
        let kind = if loki.iter().map(|r| &r.0).eq(ours.iter().map(|r| &r.0)) {
            Kind::Rounding
        } else {
            Kind::Order
        };
        return difference(kind, content(&left, &right));
    } else if numbers_by_time(&left) == numbers_by_time(&right) {
        return difference(Kind::Attribution, content(&left, &right));
    }
    difference(Kind::Content, content(&left, &right))
}

/// Returns whether a series has several values at one time.
fn repeats_times(rows: &[Row]) -> bool {
    rows.iter().any(|(_, values)| values.windows(2).any(|pair| pair[0].0 == pair[1].0))
}

/// Shows where two texts start to differ that are too long to be shown completely.
fn parting(loki: &str, ours: &str) -> Option<String> {
    let at = loki.chars().zip(ours.chars()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| text.chars().skip(at.saturating_sub(40)).take(120).collect::<String>();
    let lengths = (loki.chars().count(), ours.chars().count());
    let is_hidden = lengths.0.max(lengths.1) > SHORT_CHARS;
    is_hidden
        .then(|| format!("      part at {at} of {lengths:?}: {}\n        | {}", around(loki), around(ours)))
}

/// Describes the first rows that differ.
fn content(left: &[Row], right: &[Row]) -> String {
    let index = |rows: &[Row]| -> BTreeMap<String, Vec<(String, String)>> { rows.iter().cloned().collect() };
    let (loki, ours) = (index(left), index(right));
    let mut lines = vec![format!("{} rows | {} rows", left.len(), right.len())];
    let only = |name: &str,
                a: &BTreeMap<String, Vec<(String, String)>>,
                b: &BTreeMap<String, Vec<(String, String)>>| {
        let one = a.iter().find(|(labels, _)| !b.contains_key(*labels));
        one.map(|(labels, values)| {
            let first = values.first().map(|v| format!("{} {}", v.0, v.1)).unwrap_or_default();
            format!("      only {name}: {} ({} values, first {})", short(labels), values.len(), short(&first))
        })
    };
    lines.extend(only("Loki", &loki, &ours));
    lines.extend(only("we  ", &ours, &loki));
    let lone = |a: &BTreeMap<String, _>, b: &BTreeMap<String, _>| {
        a.keys().find(|labels| !b.contains_key(*labels)).cloned()
    };
    if let (Some(a), Some(b)) = (lone(&loki, &ours), lone(&ours, &loki)) {
        lines.extend(parting(&a, &b));
    }
    let both =
        loki.iter().find_map(|(labels, a)| ours.get(labels).filter(|b| *b != a).map(|b| (labels, a, b)));
    if let Some((labels, a, b)) = both {
        lines.push(format!("      both have {} ({} values | {} values)", short(labels), a.len(), b.len()));
        let at = a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len()));
        let value =
            |v: &[(String, String)]| v.get(at).map_or("nothing".to_owned(), |v| format!("{} {}", v.0, v.1));
        lines.push(format!("        at {at}: {}\n               | {}", short(&value(a)), short(&value(b))));
    }
    lines.join("\n")
}

/// Returns the kind if streams differ only among entries with equal times.
fn tie(ask: &Ask, left: &[Row], right: &[Row]) -> Option<Kind> {
    let entries = |rows: &[Row]| {
        let mut all: Vec<(String, String, String)> = rows
            .iter()
            .flat_map(|(labels, values)| {
                values.iter().map(move |v| (v.0.clone(), labels.clone(), v.1.clone()))
            })
            .collect();
        all.sort();
        all
    };
    let (mut left, mut right) = (entries(left), entries(right));
    if left == right {
        return Some(Kind::TieOrder);
    }
    if left.len() != right.len() || left.is_empty() {
        return None;
    }
    let forward = ask.parameter("direction").is_some_and(|d| d.eq_ignore_ascii_case("forward"));
    let last = |all: &[(String, String, String)]| {
        let edge = if forward { all.last() } else { all.first() };
        edge.map(|e| e.0.clone()).unwrap_or_default()
    };
    let edge = last(&left);
    if edge != last(&right) {
        return None;
    }
    let lines = |all: &[(String, String, String)]| -> Vec<String> {
        all.iter().filter(|e| e.0 == edge).map(|e| e.2.clone()).collect()
    };
    let kind = if lines(&left) == lines(&right) { Kind::TieCutLabels } else { Kind::TieCut };
    left.retain(|e| e.0 != edge);
    right.retain(|e| e.0 != edge);
    (left == right).then_some(kind)
}

fn numerically_equal(left: &[Row], right: &[Row]) -> bool {
    let same_values = |a: &[(String, String)], b: &[(String, String)]| {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.0 == y.0 && close(&x.1, &y.1))
    };
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.0 == b.0 && same_values(&a.1, &b.1))
}

/// Returns whether two numbers are the same within [`TOLERANCE`].
pub fn close(left: &str, right: &str) -> bool {
    if left == right {
        return true;
    }
    let (Ok(a), Ok(b)) = (left.parse::<f64>(), right.parse::<f64>()) else { return false };
    (a.is_nan() && b.is_nan()) || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()) || (a - b).abs() < 1e-12
}

fn numbers_by_time(rows: &[Row]) -> BTreeMap<String, Vec<String>> {
    let mut times: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, values) in rows {
        values.iter().for_each(|(time, value)| times.entry(time.clone()).or_default().push(value.clone()));
    }
    times.values_mut().for_each(|values| values.sort());
    times
}

/// Compares volumes. They are sizes of stored data, so only the set of series and the similarity of
/// sizes are significant.
fn compare_volumes(left: &[Row], right: &[Row]) -> Option<Difference> {
    let names = |rows: &[Row]| {
        let mut names: Vec<String> = rows.iter().map(|r| r.0.clone()).collect();
        names.sort();
        names
    };
    if names(left) == names(right) { None } else { difference(Kind::Content, content(left, right)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer::new(status, body)
    }

    fn kind_of(left: &Value, right: &Value) -> Option<Kind> {
        let ask = Ask::new("query_range", Shape::Query).with("direction", "backward");
        compare(&ask, &answer(200, &left.to_string()), &answer(200, &right.to_string())).map(|d| d.kind)
    }

    fn result(kind: &str, rows: Value) -> Value {
        json!({"status": "success", "data": {"resultType": kind, "result": rows, "stats": {}}})
    }

    #[test]
    fn statuses_and_errors_are_distinguished() {
        let ask = Ask::new("query", Shape::Query);
        let kind = |a: Answer, b: Answer| compare(&ask, &a, &b).map(|d| d.kind);
        assert_eq!(kind(answer(400, "x"), answer(400, "x\n")), None);
        assert_eq!(kind(answer(400, "x"), answer(400, "y")), Some(Kind::ErrorText));
        assert_eq!(kind(answer(400, "x"), answer(500, "x")), Some(Kind::Status));
        assert_eq!(kind(answer(200, "{"), answer(200, "{}")), Some(Kind::Shape));
    }

    #[test]
    fn numbers_order_and_contents_are_distinguished() {
        let row = |name: &str, value: &str| json!({"metric": {"a": name}, "values": [[1, value]]});
        let matrix = |rows: &[Value]| result("matrix", json!(rows));
        let base = matrix(&[row("x", "1"), row("y", "0.3")]);
        assert_eq!(kind_of(&base, &base), None);
        assert_eq!(kind_of(&base, &matrix(&[row("y", "0.3"), row("x", "1")])), Some(Kind::Order));
        let rounded = matrix(&[row("x", "1"), row("y", "0.30000000000000004")]);
        assert_eq!(kind_of(&base, &rounded), Some(Kind::Rounding));
        assert_eq!(kind_of(&base, &matrix(&[row("x", "1"), row("z", "0.3")])), Some(Kind::Attribution));
        assert_eq!(kind_of(&base, &matrix(&[row("x", "1"), row("y", "0.31")])), Some(Kind::Content));
        assert_eq!(kind_of(&base, &matrix(&[row("x", "1")])), Some(Kind::Content));
        assert_eq!(kind_of(&base, &result("vector", json!([]))), Some(Kind::Shape));
    }

    #[test]
    fn ties_are_distinguished_from_contents() {
        let streams = |values: Value| result("streams", json!([{"stream": {"a": "b"}, "values": values}]));
        let base = streams(json!([["2", "x"], ["1", "p"], ["1", "q"]]));
        assert_eq!(
            kind_of(&base, &streams(json!([["2", "x"], ["1", "q"], ["1", "p"]]))),
            Some(Kind::TieOrder)
        );
        assert_eq!(kind_of(&base, &streams(json!([["2", "x"], ["1", "p"], ["1", "r"]]))), Some(Kind::TieCut));
        let labelled = |label: &str| {
            let stream = |label: &str, entry: Value| json!({"stream": {"a": label}, "values": [entry]});
            result("streams", json!([stream("b", json!(["2", "x"])), stream(label, json!(["1", "p"]))]))
        };
        assert_eq!(kind_of(&labelled("c"), &labelled("d")), Some(Kind::TieCutLabels));
        assert_eq!(
            kind_of(&base, &streams(json!([["2", "y"], ["1", "p"], ["1", "q"]]))),
            Some(Kind::Content)
        );
        assert_eq!(kind_of(&base, &streams(json!([["2", "x"], ["1", "p"]]))), Some(Kind::Content));
    }
}
