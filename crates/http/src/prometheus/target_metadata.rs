//! `targets/metadata`: metadata of the metrics of targets.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_model::matches_all;
use sandur_service::Queries;
use serde_json::json;

use super::queries::refuse;
use super::refused::Refused;
use super::reply::success_json;
use super::targets::object;
use crate::call::Call;
use crate::route::{Access, GET, Group, Route, parameter};
use crate::scrape_state::Scraping;

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/targets/metadata", "/prometheus/api/v1/targets/metadata"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "Metadata of the metrics of targets.",
    parameters: &[
        parameter("match_target", "a selector on the labels of targets; by default all"),
        parameter("metric", "the family; by default all"),
        parameter("limit", "maximum number of targets; by default all"),
    ],
    answers: "200, `[{\"target\":{..},\"metric\",\"type\",\"help\",\"unit\"},..]` as `data`.",
    fails: "400 `bad_data`.",
    several_tenants: false,
    handler: |verbs| on(verbs, metadata),
};

async fn metadata(
    State(queries): State<Queries>,
    State(scraping): State<Scraping>,
    call: Call,
) -> Result<Response, Refused> {
    let limit = match call.params.get("limit") {
        None => usize::MAX,
        Some(text) => {
            let number: i64 = text.parse().map_err(|_| refuse("limit must be a number"))?;
            usize::try_from(number).unwrap_or(usize::MAX)
        }
    };
    let matchers = match call.params.get("match_target") {
        None => Vec::new(),
        Some(text) => {
            let context = queries.samples_context(&call.caller.tenant, None);
            let text = text.to_owned();
            let parsed = context.compute_here(|| Ok(sandur_promql::parse_selector(&text)?));
            parsed.map_err(|error| Refused::reading(error, str::to_owned))?
        }
    };
    let metric = call.params.get("metric").unwrap_or("");
    let mut rows = Vec::new();
    let targets = scraping.targets_of("").into_iter().filter_map(|target| target.labels);
    for labels in targets.filter(|labels| matches_all(&matchers, labels)).take(limit) {
        let metadata = scraping.get().map(|state| state.metadata_of(&labels)).unwrap_or_default();
        for one in metadata.iter().filter(|one| metric.is_empty() || *one.family == *metric) {
            let mut row = json!({
                "target": object(&labels), "type": one.kind.as_str(), "help": one.help, "unit": one.unit,
            });
            if metric.is_empty() {
                row["metric"] = json!(one.family);
            }
            rows.push(row);
        }
    }
    Ok(success_json(&json!(rows).to_string()))
}
