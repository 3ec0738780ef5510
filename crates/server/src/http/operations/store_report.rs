//! `sandur/store`: what was asked of the store, and what it costs.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use crate::http::app::App;
use crate::http::reply;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/sandur/store"],
    group: Group::Operations,
    scope: Access::Admin,
    does: "What was asked of the object store since the start, and what that costs, also per month \
           ([operations.md](../operations.md)).",
    parameters: &[],
    answers: "200, a sentence and a table for people; programs read `/metrics`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, store_report),
};

async fn store_report(State(app): State<App>) -> Response {
    reply::text(app.writes.intake().store_report())
}
