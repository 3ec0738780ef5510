//! `metrics/details`: refused, since there are no files.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;

use crate::failed_request::Failure;
use crate::http::route::{Access, GET_POST, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/metrics/details",
        "/metrics/details/",
        "/graphite/metrics/details",
        "/graphite/metrics/details/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Refused: sizes and times of carbonserver's files, of which there are none.",
    parameters: &[],
    answers: "nothing good.",
    fails: "501, always.",
    several_tenants: false,
    handler: |verbs| on(verbs, metric_details),
};

async fn metric_details() -> Result<Response, Failure> {
    let text = "series are in no files that have sizes and times; /metrics/list lists them";
    Err(Failure::invalid(text).with_status(StatusCode::NOT_IMPLEMENTED))
}
