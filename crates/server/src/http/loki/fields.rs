//! Fields of lines: what `detected_fields` and `detected_field/NAME/values` share.

use std::collections::{BTreeMap, BTreeSet};

use sandur_query::QueryResult;

use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::wiring::{self, QueryKind, QueryText};

/// Lines that are looked at for fields.
const LINES_DEFAULT: u32 = 1_000;
/// Fields in an answer.
pub const FIELDS_DEFAULT: u32 = 1_000;

/// What is known about one field.
#[derive(Default)]
pub struct Field {
    pub values: BTreeSet<String>,
    pub parsers: BTreeSet<&'static str>,
}

/// Samples lines and collects their metadata and the fields that `json` and `logfmt` find.
pub async fn collect(app: &App, call: &Call) -> Result<BTreeMap<String, Field>, Failure> {
    let asked = call.params.range_query(app.env.now_ns())?;
    let text = asked.query.trim().to_owned();
    if !text.starts_with('{') {
        return Err(Failure::invalid("only log selector is supported"));
    }
    let lines = call.params.get("line_limit").and_then(|t| t.parse().ok()).unwrap_or(LINES_DEFAULT);
    let context = app.query_context(&call.tenant);
    let permit = app.queue.enter(&context).await?;
    let mut fields: BTreeMap<String, Field> = BTreeMap::new();
    for (stage, parser) in [("", None), ("| json", Some("json")), ("| logfmt", Some("logfmt"))] {
        let request = QueryText {
            query: format!("{text} {stage}"),
            kind: QueryKind::Range { start_ns: asked.start_ns, end_ns: asked.end_ns, step_ns: asked.step_ns },
            limit: lines.min(app.limits(&call.tenant).max_entries_limit_per_query as u32),
            direction: asked.direction,
            interval_ns: 0,
        };
        let result = wiring::query(app.source.as_ref(), &context, app.limits(&call.tenant), request).await?;
        if let QueryResult::Streams(rows) = result {
            rows.iter().for_each(|row| note(&mut fields, row, parser));
        }
    }
    drop(permit);
    Ok(fields)
}

/// Values of one field that are kept to tell its type and number.
const VALUES_MAX: usize = 1_000;

fn note(fields: &mut BTreeMap<String, Field>, row: &sandur_query::LogRow, parser: Option<&'static str>) {
    let mut add = |name: &str, value: &str| {
        let name = name.strip_suffix("_extracted").unwrap_or(name);
        if name.starts_with("__") || (value.is_empty() && parser.is_some()) {
            return;
        }
        let field = fields.entry(name.to_owned()).or_default();
        field.parsers.extend(parser);
        if field.values.len() < VALUES_MAX {
            field.values.insert(value.to_owned());
        }
    };
    match parser {
        None => row.metadata.iter().for_each(|(n, v)| add(n, v)),
        // A line that is not of this format yields an error and perhaps rubbish beside it.
        Some(_) if row.parsed.iter().any(|(n, _)| &**n == "__error__") => {}
        Some(_) => row.parsed.iter().for_each(|(n, v)| add(n, v)),
    }
}

/// Whether the text is a Go duration: numbers with units, like `1.5ms` or `1h30m`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix('-').unwrap_or(text);
    let mut parts = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let unit = rest[number..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - number);
        if rest[..number].parse::<f64>().is_err() || !UNITS.contains(&&rest[number..number + unit]) {
            return false;
        }
        rest = &rest[number + unit..];
        parts += 1;
    }
    parts > 0
}

/// The narrowest type that every value has.
pub fn type_of(values: &BTreeSet<String>) -> &'static str {
    let all = |test: fn(&str) -> bool| values.iter().all(|v| test(v));
    if values.is_empty() {
        "string"
    } else if all(|v| v.parse::<i64>().is_ok()) {
        "int"
    } else if all(|v| v.parse::<f64>().is_ok()) {
        "float"
    } else if all(|v| matches!(v, "true" | "false")) {
        "boolean"
    } else if all(is_duration) {
        "duration"
    } else if all(|v| v.parse::<sandur_base::units::ByteSize>().is_ok()) {
        "bytes"
    } else {
        "string"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_ids_are_told() {
        let set = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<BTreeSet<String>>();
        for (values, kind) in [
            (&["1", "-20"][..], "int"),
            (&["1", "2.5"], "float"),
            (&["true"], "boolean"),
            (&["5ms", "1m30s", "12.5µs"], "duration"),
            (&["5MB", "1GiB"], "bytes"),
            (&["5MB", "x"], "string"),
            (&[], "string"),
        ] {
            assert_eq!(type_of(&set(values)), kind, "{values:?}");
        }
    }
}
