//! `detected_labels`, `detected_fields` and `detected_field/NAME/values`: what Grafana offers to
//! click on.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_model::TimeRange;
use sandur_query::QueryResult;

use super::selector;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::json;
use crate::http::reply;
use crate::wiring::{self, QueryKind, QueryText};

/// Labels whose every value looks like an id are left out: nobody picks from such a list.
fn looks_like_id(value: &str) -> bool {
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    value.len() >= 16 && value.chars().all(hex) && value.chars().any(|c| c.is_ascii_digit())
}

/// `detected_labels`: names and number of values, largest first.
pub async fn labels(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let (start, end) = call.params.bounds(app.env.now_ns())?;
    let matchers = selector::optional(call.params.query())?;
    let context = app.query_context(&call.tenant);
    let any_of = if matchers.is_empty() { Vec::new() } else { vec![matchers] };
    let streams = app.source.streams(&context, any_of, TimeRange::inclusive(start, end)).await?;
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for stream in &streams {
        for (name, value) in stream.iter() {
            values.entry(name).or_default().insert(value);
        }
    }
    let mut all: Vec<(&str, usize)> = values
        .iter()
        .filter(|(_, values)| !values.iter().all(|v| looks_like_id(v)))
        .map(|(name, values)| (*name, values.len()))
        .collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    if all.is_empty() {
        return Ok(reply::json(b"{}\n".to_vec()));
    }
    let mut body = b"{\"detectedLabels\":[".to_vec();
    for (n, (name, cardinality)) in all.iter().enumerate() {
        body.extend_from_slice(if n == 0 { b"{\"label\":" } else { b",{\"label\":" });
        json::string(&mut body, name.as_bytes());
        json::push(&mut body, format_args!(",\"cardinality\":{cardinality}}}"));
    }
    body.extend_from_slice(b"]}\n");
    Ok(reply::json(body))
}

/// Lines that are looked at for fields.
const LINES_DEFAULT: u32 = 1_000;
/// Fields in an answer.
const FIELDS_DEFAULT: u32 = 1_000;

/// What is known about one field.
#[derive(Default)]
struct Field {
    values: BTreeSet<String>,
    parsers: BTreeSet<&'static str>,
}

/// Samples lines and collects their metadata and the fields that `json` and `logfmt` find.
async fn collect(app: &App, call: &Call) -> Result<BTreeMap<String, Field>, Failure> {
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
fn type_of(values: &BTreeSet<String>) -> &'static str {
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

/// `detected_fields`.
pub async fn fields(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let limit = call.params.limit(FIELDS_DEFAULT)?;
    let fields = collect(&app, &call).await?;
    let mut body = b"{\"fields\":[".to_vec();
    for (n, (name, field)) in fields.iter().take(limit as usize).enumerate() {
        body.extend_from_slice(if n == 0 { b"{\"label\":" } else { b",{\"label\":" });
        json::string(&mut body, name.as_bytes());
        let (kind, cardinality) = (type_of(&field.values), field.values.len());
        json::push(
            &mut body,
            format_args!(",\"type\":\"{kind}\",\"cardinality\":{cardinality},\"parsers\":"),
        );
        match field.parsers.is_empty() {
            true => body.extend_from_slice(b"null"),
            false => json::strings(&mut body, field.parsers.iter().copied()),
        }
        body.push(b'}');
    }
    json::push(&mut body, format_args!("],\"limit\":{limit}}}\n"));
    Ok(reply::json(body))
}

/// `detected_field/NAME/values`.
pub async fn values(
    State(app): State<App>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    let limit = call.params.limit(FIELDS_DEFAULT)?;
    let fields = collect(&app, &call).await?;
    let mut body = Vec::new();
    json::push(&mut body, format_args!("{{\"limit\":{limit},\"values\":"));
    let values = fields.get(&name).map(|f| &f.values);
    json::strings(&mut body, values.into_iter().flatten().take(limit as usize).map(String::as_str));
    body.extend_from_slice(b"}\n");
    Ok(reply::json(body))
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
        assert!(looks_like_id("4bf92f3577b34da6a3ce929d0e0e4736") && !looks_like_id("frontend"));
    }
}
