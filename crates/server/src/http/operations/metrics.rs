//! `metrics`: all metrics of the process.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::response::Response;
use axum::routing::on;
use sandur_base::machine;

use crate::http::app::App;
use crate::http::metrics::page;
use crate::http::reply;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/metrics"],
    group: Group::Operations,
    scope: Access::Credential,
    does: "All metrics of the process.",
    parameters: &[],
    answers: "200, the OpenMetrics text format.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, metrics),
};

async fn metrics(State(app): State<App>) -> Response {
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    observe(&app);
    reply::with_type(kind, page(&app.registry).into())
}

/// Brings gauges up to date.
fn observe(app: &App) {
    app.intake.observe();
    let metrics = &app.metrics;
    metrics.queries_running.set(app.turns.running() as i64);
    metrics.queries_waiting.set(app.turns.waiting() as i64);
    metrics.followers.set(app.followers.total() as i64);
    metrics.observe_budget(&app.query_memory);
    metrics.observe_budget(app.request_memory.budget());
    metrics.observe_results(&app.results);
    if let Some(resident) = machine::resident_bytes() {
        metrics.resident_bytes.set(resident as i64);
    }
}
