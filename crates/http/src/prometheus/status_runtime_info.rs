//! `status/runtimeinfo`: start time, current time and retention.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_config::Settings;
use sandur_service::Queries;

use super::reply::success_json;
use crate::call::Call;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/runtimeinfo", "/prometheus/api/v1/status/runtimeinfo"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "The process: start time, current time, and retention of samples. Fields of Go are present and \
           empty.",
    parameters: &[],
    answers: "200, `{\"startTime\",\"serverTime\",\"storageRetention\",..}` as `data`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, runtime_info),
};

async fn runtime_info(
    State(queries): State<Queries>,
    State(settings): State<Arc<Settings>>,
    call: Call,
) -> Response {
    let now = queries.env().now_ns();
    let began = now.saturating_sub(i64::try_from(queries.env().monotonic().as_nanos()).unwrap_or(0));
    let show = |ns: i64| {
        let at = jiff::Timestamp::from_nanosecond(i128::from(ns));
        at.map(|at| at.to_string()).unwrap_or_default()
    };
    let retention = match queries.limits(&call.caller.tenant).retention_period {
        0 => "unlimited".to_owned(),
        ns => sandur_model::go_text::format_go_duration(ns),
    };
    let object = serde_json::json!({
        "startTime": show(began),
        "CWD": "",
        "hostname": "",
        "serverTime": show(now),
        "reloadConfigSuccess": true,
        "lastConfigTime": show(began),
        "corruptionCount": 0,
        "goroutineCount": 0,
        "GOMAXPROCS": sandur_base::machine::processors(),
        "GOMEMLIMIT": settings.memory_limit,
        "GOGC": "",
        "GODEBUG": "",
        "storageRetention": retention,
    });
    success_json(&object.to_string())
}
