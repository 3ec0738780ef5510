//! `healthy`: answers whenever the process does.

use axum::response::Response;
use axum::routing::on;

use crate::reply;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/healthy", "/-/healthy"],
    group: Group::Operations,
    scope: Access::Open,
    does: "Answers as long as the process runs.",
    parameters: &[],
    answers: "200, the text `healthy`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, healthy),
};

async fn healthy() -> Response {
    reply::text("healthy\n")
}
