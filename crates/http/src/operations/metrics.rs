//! `metrics`: all metrics of the process.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;

use crate::app::{App, AppState};
use crate::exposition::accepted;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/metrics"],
    scope: Access::Credential,
    does: "All metrics of the process.",
    answers: "200; OpenMetrics 1.0.0 or 0.0.1 if the Accept header prefers it, otherwise Prometheus's text \
              format 0.0.4.",
    handler: |request, app| metrics.call(request, app),
    ..Route::of(Group::Operations)
};

async fn metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let (exposition, escaping) = accepted(accept.unwrap_or_default());
    observe(&app);
    // All names are legacy names, which no escaping changes.
    reply::with_type(exposition.content_type(escaping), exposition.page(&app.registry).into())
}

/// Updates gauges.
fn observe(app: &App) {
    let AppState { queries, writes, metrics, .. } = &**app;
    queries.observe();
    writes.observe();
    let shared =
        [queries.memory(), writes.memory().budget(), writes.deltas().budget(), queries.steps().budget()];
    shared.into_iter().for_each(|budget| metrics.observe_budget(budget));
    writes.intake().budgets().iter().for_each(|budget| metrics.observe_budget(budget));
    metrics.observe_log();
}
