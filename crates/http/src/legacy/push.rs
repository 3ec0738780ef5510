//! `api/prom/push`: stores log entries by Loki's protocol; JSON may also have the format before version
//! 1.

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::on;

use crate::app::App;
use crate::failed_request::Failure;
use crate::loki::push::store;
use crate::route::{Access, Group, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/api/prom/push"],
    group: Group::Legacy,
    scope: Access::Write,
    does: "Stores lines as `/loki/api/v1/push` does. In JSON, streams may also have the format before \
           version 1: `{\"labels\":\"{..}\",\"entries\":[{\"ts\":\"<RFC 3339>\",\"line\":\"..\"},..]}`.",
    parameters: &[],
    answers: "204.",
    fails: "like `/loki/api/v1/push`.",
    several_tenants: false,
    handler: |verbs| on(verbs, push),
};

async fn push(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    store(&app, request, sandur_ingest::loki_push_legacy_within).await
}
