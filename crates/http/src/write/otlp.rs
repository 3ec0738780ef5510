//! `otlp/v1/metrics`: stores metrics by OTLP over HTTP.

use axum::extract::{Request, State};
use axum::response::Response;

use crate::app::App;
use crate::failed_request::Failure;
use crate::loki::otlp::{accepted, failed, is_json};
use crate::receive::push_samples;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/otlp/v1/metrics", "/api/v1/otlp/v1/metrics", "/v1/metrics"],
    scope: Access::Write,
    does: "Stores metrics; answers when they are durable and can be queried. The body is an \
           `ExportMetricsServiceRequest` in protobuf or JSON, plain or compressed. Names and labels follow \
           the limits `metrics.otlp_*`, `metrics.otel_*` and `metrics.promote_*`; points of delta \
           temporality are described on [a page of their own](otlp-delta.md).",
    answers: "200, an empty `ExportMetricsServiceResponse` in the format of the request.",
    fails: "like `push`, with a `google.rpc.Status` as body, and with 503, which exporters retry, instead of \
            500.",
    handler: |request, app| otlp.call(request, app),
    ..Route::of(Group::Write)
};

/// `POST /otlp/v1/metrics`.
async fn otlp(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let json = is_json(&parts.headers);
    match push_samples(&app, &parts, body, sandur_ingest::otlp_metrics).await {
        Ok(stored) => match stored.refused.text() {
            None => accepted(json),
            Some(text) => failed(json, Failure::invalid(text)),
        },
        Err(failure) => failed(json, failure),
    }
}
