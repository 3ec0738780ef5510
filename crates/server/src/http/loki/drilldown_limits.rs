//! `drilldown-limits`: what Logs Drilldown wants to know before it starts.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use crate::http::app::App;
use crate::http::call::Call;
use crate::http::reply;
use crate::http::route::{GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/drilldown-limits"],
    group: Group::Discovery,
    does: "What Logs Drilldown wants to know before it starts.",
    parameters: &[],
    answers: "200, `{\"limits\":{..},\"pattern_ingester_enabled\":bool,\"version\":\"..\"}`.",
    fails: "",
    handler: |verbs| on(verbs, drilldown_limits),
};

async fn drilldown_limits(State(app): State<App>, call: Call) -> Response {
    let limits = app.limits(&call.tenant);
    let body = serde_json::json!({
        "limits": {
            "discover_log_levels": limits.discover_log_levels,
            "discover_service_name": limits.discover_service_name,
            "max_entries_limit_per_query": limits.max_entries_limit_per_query,
            "max_line_size_truncate": limits.max_line_size_truncate,
            "max_query_series": limits.max_query_series,
            "query_timeout": format!("{}s", limits.query_timeout / 1_000_000_000),
            "volume_enabled": true,
            "volume_max_series": limits.volume_max_series,
        },
        "pattern_ingester_enabled": false,
        "version": env!("CARGO_PKG_VERSION"),
    });
    reply::json(body.to_string().into_bytes())
}
