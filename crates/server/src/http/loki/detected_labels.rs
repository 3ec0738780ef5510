//! `detected_labels`: labels that are worth offering, with their number of values.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_model::TimeRange;

use super::selector;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::json;
use crate::http::reply;
use crate::http::route::{END, GET_POST, Group, Route, SELECTOR, SINCE, START};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/detected_labels"],
    group: Group::Discovery,
    does: "Labels that are worth offering to a person, with their number of values.",
    parameters: &[SELECTOR, START, END, SINCE],
    answers: "200, `{\"detectedLabels\":[{\"label\",\"cardinality\"},..]}`; `{}` when there is none.",
    fails: "",
    handler: |verbs| on(verbs, labels),
};

/// Labels whose every value looks like an id are left out: nobody picks from such a list.
fn looks_like_id(value: &str) -> bool {
    let hex = |c: char| c.is_ascii_hexdigit() || c == '-';
    value.len() >= 16 && value.chars().all(hex) && value.chars().any(|c| c.is_ascii_digit())
}

/// `detected_labels`: names and number of values, largest first.
async fn labels(State(app): State<App>, call: Call) -> Result<Response, Failure> {
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
