//! `drilldown-limits`: limits that Logs Drilldown reads when it starts.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use sandur_base::units::format_duration;
use sandur_ingest::LEVEL_KEYS;
use sandur_service::Queries;

use crate::call::Call;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/drilldown-limits"],
    scope: Access::Read,
    does: "Limits that Logs Drilldown reads when it starts.",
    answers: "200, `{\"limits\":{..},\"pattern_ingester_enabled\":bool,\"version\":\"..\"}`.",
    handler: |request, app| drilldown_limits.call(request, app),
    ..Route::of(Group::Discovery)
};

async fn drilldown_limits(State(queries): State<Queries>, call: Call) -> Response {
    let limits = queries.limits(&call.caller.tenant);
    let duration = |ns: i64| format_duration(Duration::from_nanos(ns.max(0) as u64));
    let body = serde_json::json!({
        "limits": {
            "allow_structured_metadata": true,
            "discover_log_levels": limits.discover_log_levels,
            "discover_service_name": limits.discover_service_name,
            "log_level_fields": LEVEL_KEYS,
            "max_entries_limit_per_query": limits.max_entries_limit_per_query,
            "max_line_size_truncate": limits.max_line_size_truncate,
            "max_query_length": duration(limits.max_query_length),
            "max_query_series": limits.max_query_series,
            "metric_aggregation_enabled": false,
            "pattern_persistence_enabled": false,
            "query_timeout": duration(limits.query_timeout),
            "retention_period": duration(limits.retention_period),
            "volume_enabled": true,
            "volume_max_series": limits.volume_max_series,
        },
        "pattern_ingester_enabled": true,
        "version": env!("CARGO_PKG_VERSION"),
    });
    reply::json(format!("{body}\n").into_bytes())
}
