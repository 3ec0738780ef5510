//! `status/walreplay`: progress of replaying the WAL; always complete, since no request is answered
//! before.

use axum::response::Response;
use axum::routing::on;

use super::reply::success_json;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/walreplay", "/prometheus/api/v1/status/walreplay"],
    group: Group::Metrics,
    scope: Access::Credential,
    does: "Progress of replaying the WAL at the start: always complete, since requests are answered only \
           after that.",
    parameters: &[],
    answers: "200, `{\"min\":0,\"max\":0,\"current\":0}` as `data`.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, wal_replay),
};

async fn wal_replay() -> Response {
    success_json("{\"min\":0,\"max\":0,\"current\":0}")
}
