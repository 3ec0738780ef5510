//! Detects fields of lines: what `detected_fields` and `detected_field/NAME/values` share.
//!
//! The newest lines are examined: their structured metadata, the labels that the query extracts, and what
//! `json`, or else `logfmt`, would extract.

use std::collections::{BTreeMap, BTreeSet};

use sandur_logql::FieldParser;
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_query::{Direction, LogRow, QueryResult};
use sandur_service::Queries;
use sandur_service::logql::{self, ParsedQuery, QueryKind, QueryText};
use sandur_service::query_log::{Asked, Times};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::params::LIMIT_DEFAULT;

/// Default number of fields or values in an answer.
const FIELDS_DEFAULT: u32 = 1_000;

/// What was detected about one field.
#[derive(Debug, Default)]
pub struct Field {
    /// Its values in the examined lines.
    pub values: BTreeSet<String>,
    /// The parsers that extract it; empty for structured metadata.
    pub parsers: BTreeSet<FieldParser>,
    /// Its path in JSON lines.
    pub path: Vec<String>,
}

/// Fields by name.
pub type Fields = BTreeMap<String, Field>;

/// The parameter `limit`, or `field_limit`, its former name.
pub fn limit(call: &Call) -> Result<u32, Failure> {
    let name = if call.params.get("limit").is_some() { "limit" } else { "field_limit" };
    call.params.positive(name, FIELDS_DEFAULT)
}

/// Detects the fields of the newest lines of the query; `line_limit` is their number.
pub async fn collect(queries: &Queries, call: &Call) -> Result<Fields, Failure> {
    let (start_ns, end_ns) = call.params.ordered_bounds(queries.env().now_ns())?;
    let query = call.params.query().to_owned();
    let context = queries.logs_context(&call.caller.tenant);
    let parsed =
        ParsedQuery::read(&context, &queries.limits(&call.caller.tenant), &query).await?.of_lines()?;
    let request = QueryText {
        query,
        kind: QueryKind::Range { start_ns, end_ns, step_ns: call.params.step(start_ns, end_ns)? },
        limit: call.params.positive("line_limit", LIMIT_DEFAULT)?,
        direction: Direction::Backward,
        interval_ns: 0,
    };
    let asked = Asked::other("detected_fields", &request.query, Times { start_ns, end_ns });
    let work = async {
        let limits = queries.limits(&call.caller.tenant);
        let result = {
            let query = (&parsed, &request);
            logql::query(queries.logs(), &context, &limits, &call.caller.tags, query).await?
        };
        let QueryResult::Streams(rows) = result else { return Ok(Fields::new()) };
        Ok(context.compute(move || Ok(of_rows(&rows)?)).await?)
    };
    let (fields, _) = logged((queries, &call.caller), &context, asked, work).await?;
    Ok(fields)
}

fn of_rows(rows: &[LogRow]) -> Result<Fields, Stopped> {
    let mut fields = Fields::new();
    for row in rows {
        // Estimated work: each byte of the line is read, and each field is inserted into trees.
        spend(10 * row.line.len() + 100 * row.parsed.len())?;
        for (name, value) in row.metadata.iter() {
            fields.entry(name.to_owned()).or_default().values.insert(value.to_owned());
        }
        let (parser, found) = sandur_logql::line_fields(&row.line);
        let asked = row.parsed.iter().filter(|(name, _)| !name.starts_with("__"));
        for (name, value) in asked {
            let field = fields.entry(name.to_string()).or_default();
            field.values.insert(value.to_string());
            field.parsers.insert(parser);
        }
        for field in found {
            // A field with the name of a stream label gets a suffix.
            let taken = row.stream.get(&field.name).is_some();
            let name = if taken { field.name + "_extracted" } else { field.name };
            let known = fields.entry(name).or_default();
            known.values.insert(field.value);
            known.parsers.insert(parser);
            known.path = field.path;
        }
    }
    Ok(fields)
}

/// Whether Go's `ParseBool` accepts the text, except for numbers.
fn is_boolean(text: &str) -> bool {
    matches!(text, "t" | "T" | "TRUE" | "true" | "True" | "f" | "F" | "FALSE" | "false" | "False")
}

/// The most specific type that all values have.
pub fn type_of(values: &BTreeSet<String>) -> &'static str {
    let all = |test: fn(&str) -> bool| values.iter().all(|v| test(v));
    if values.is_empty() {
        "string"
    } else if all(|v| v.parse::<i64>().is_ok()) {
        "int"
    } else if all(|v| v.parse::<f64>().is_ok()) {
        "float"
    } else if all(is_boolean) {
        "boolean"
    } else if all(|v| sandur_model::go_text::parse_go_duration(v).is_ok()) {
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
    fn types_are_detected() {
        let set = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<BTreeSet<String>>();
        for (values, kind) in [
            (&["1", "-20"][..], "int"),
            (&["1", "2.5"], "float"),
            (&["true", "F"], "boolean"),
            (&["5ms", "1m30s", "12.5µs", "+1h"], "duration"),
            (&["0", "1.5h"], "duration"),
            (&["5MB", "1GiB"], "bytes"),
            (&["5MB", "x"], "string"),
            (&[], "string"),
        ] {
            assert_eq!(type_of(&set(values)), kind, "{values:?}");
        }
    }
}
