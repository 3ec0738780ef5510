//! `detected_labels`: labels that are useful to select by, with their number of values.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::response::Response;
use sandur_query::{SeriesRequest, all_series};
use sandur_service::Queries;
use sandur_service::logql::selector;
use sandur_service::query_log::Asked;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SELECTOR, SINCE, START};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/detected_labels"],
    scope: Access::Read,
    does: "Labels that are useful in selectors, with their number of values.",
    parameters: &[SELECTOR, START, END, SINCE],
    answers: "200, `{\"detectedLabels\":[{\"label\",\"cardinality\"},..]}`; `{}` when there is none.",
    several_tenants: true,
    handler: |request, app| labels.call(request, app),
    ..Route::of(Group::Discovery)
};

/// Labels that are always offered.
const ALWAYS: [&str; 4] = ["cluster", "namespace", "instance", "pod"];

/// Whether the label is useful to select by: not if all values are numbers or UUIDs, unless they are only
/// 0 and 1.
fn is_offered(name: &str, values: &BTreeSet<&str>) -> bool {
    let is_id = |value: &&str| value.parse::<f64>().is_ok() || is_uuid(value);
    let switch = values.len() <= 2 && values.iter().all(|value| matches!(*value, "0" | "1"));
    ALWAYS.contains(&name) || switch || !values.iter().all(is_id)
}

/// Whether the text is a UUID: 32 hexadecimal digits, with dashes in the usual places or without.
fn is_uuid(text: &str) -> bool {
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    match text.len() {
        32 => hex(text),
        36 => text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && text.split('-').all(hex),
        _ => false,
    }
}

/// `detected_labels`: names and numbers of values, in descending order.
async fn labels(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.ordered_range(&queries, &context)?;
    let matchers =
        selector::optional_selecting(&context, &queries.limits(&call.caller.tenant), call.params.query())
            .await?;
    let asked = Asked::other("detected_labels", call.params.query(), times);
    let streams = logged((&queries, &call.caller), &context, asked, async {
        Ok(all_series(queries.logs(), &context, SeriesRequest::new(matchers, range)).await?)
    });
    let ((streams, _held), _) = streams.await?;
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for stream in &streams {
        for (name, value) in stream.iter() {
            values.entry(name).or_default().insert(value);
        }
    }
    let mut all: Vec<(&str, usize)> = values
        .iter()
        .filter(|(name, values)| is_offered(name, values))
        .map(|(name, values)| (*name, values.len()))
        .collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    if all.is_empty() {
        return Ok(reply::json(b"{}\n".to_vec()));
    }
    let mut body = b"{\"detectedLabels\":[".to_vec();
    for (n, (name, cardinality)) in all.iter().enumerate() {
        body.extend_from_slice(if n == 0 { b"{\"label\":" } else { b",{\"label\":" });
        json::utf8(&mut body, name);
        json::push(&mut body, format_args!(",\"cardinality\":{cardinality}}}"));
    }
    body.extend_from_slice(b"]}\n");
    Ok(reply::json(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_numbers_and_ids_are_left_out() {
        let offered = |name: &str, values: &[&str]| is_offered(name, &values.iter().copied().collect());
        assert!(offered("app", &["api", "17"]) && offered("on", &["0", "1"]) && offered("pod", &["17"]));
        assert!(!offered("port", &["80"]) && !offered("code", &["0", "1", "2"]));
        assert!(!offered("trace", &["4bf92f3577b34da6a3ce929d0e0e4736"]));
        assert!(!offered("id", &["4bf92f35-77b3-4da6-a3ce-929d0e0e4736"]));
    }
}
