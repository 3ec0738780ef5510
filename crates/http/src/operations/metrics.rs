//! `metrics`: all metrics of the process.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
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
    let (content_type, page) = metrics_page(&app, accept.unwrap_or_default());
    reply::with_type(content_type, page.into())
}

/// The metrics in the format that an `Accept` header chooses, with their content type.
pub fn metrics_page(app: &App, accept: &str) -> (HeaderValue, String) {
    let (exposition, escaping) = accepted(accept);
    observe(app);
    // All names are legacy names, which no escaping changes.
    (exposition.content_type(escaping), exposition.page(&app.registry))
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
