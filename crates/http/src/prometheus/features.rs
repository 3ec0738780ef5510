//! `features`: which of Prometheus's optional features are supported.

use std::collections::BTreeMap;

use axum::response::Response;
use sandur_promql::function_names;

use super::reply::success_json;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/features", "/prometheus/api/v1/features"],
    scope: Access::Credential,
    does: "Which of Prometheus's optional features are supported.",
    answers: "200, `{\"api\":{\"admin\":true,..},\"promql\":{..},\"promql_functions\":{..}}` as `data`.",
    several_tenants: true,
    handler: |request, app| features.call(request, app),
    ..Route::of(Group::Metrics)
};

const API: &[(&str, bool)] = &[
    ("admin", true),
    ("exclude_alerts", true),
    ("label_values_match", true),
    ("lifecycle", false),
    ("query_stats", true),
    ("query_warnings", true),
    ("remote_write_receiver", true),
    ("otlp_write_receiver", true),
    ("search", true),
    ("time_range_labels", true),
    ("time_range_series", true),
];

const PROMQL: &[(&str, bool)] = &[
    ("anchored", true),
    ("at_modifier", true),
    ("bool", true),
    ("by", true),
    ("delayed_name_removal", true),
    ("duration_expr", true),
    ("experimental_functions", true),
    ("fill", true),
    ("fill_left", true),
    ("fill_right", true),
    ("group_left", true),
    ("group_right", true),
    ("ignoring", true),
    ("negative_offset", true),
    ("offset", true),
    ("on", true),
    ("per_query_lookback_delta", true),
    ("per_step_stats", false),
    ("smoothed", true),
    ("subqueries", true),
    ("type_and_unit_labels", false),
    ("unquoted_utf8_names", true),
    ("without", true),
];

async fn features() -> Response {
    let of = |all: &[(&'static str, bool)]| all.iter().copied().collect::<BTreeMap<&str, bool>>();
    let functions: BTreeMap<&str, bool> = function_names().map(|name| (name, true)).collect();
    let native = of(&[("native_histograms", true), ("exemplar_storage", true), ("out_of_order", true)]);
    let object = serde_json::json!({
        "api": of(API),
        "promql": of(PROMQL),
        "promql_functions": functions,
        "tsdb": native,
    });
    success_json(&object.to_string())
}
