//! `status/walreplay`: how much of the log is still to be read at the start: nothing once this answers.

use axum::response::Response;
use axum::routing::on;

use super::reply::success_json;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/walreplay", "/prometheus/api/v1/status/walreplay"],
    group: Group::Metrics,
    scope: Access::Credential,
    does: "How much of the log is still to be read at the start. The log is read before anything is \
           answered: nothing is left.",
    parameters: &[],
    answers: "200, `{\"min\":0,\"max\":0,\"current\":0}` as `data`.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, wal_replay),
};

async fn wal_replay() -> Response {
    success_json("{\"min\":0,\"max\":0,\"current\":0}")
}
