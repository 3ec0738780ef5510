//! `events`: refused, since events are not stored.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;

use crate::failed_request::Failure;
use crate::http::route::{Access, Group, POST, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/events", "/events/", "/graphite/events", "/graphite/events/"],
    group: Group::Graphite,
    scope: Access::Write,
    does: "Refused: events are not stored.",
    parameters: &[],
    answers: "nothing good.",
    fails: "501, always.",
    several_tenants: false,
    handler: |verbs| on(verbs, events),
};

async fn events() -> Result<Response, Failure> {
    let text =
        "events are not stored; push a line to /loki/api/v1/push and show it as an annotation from there";
    Err(Failure::invalid(text).with_status(StatusCode::NOT_IMPLEMENTED))
}
