//! `healthy`: whether the process answers at all.

use axum::response::Response;
use axum::routing::on;

use crate::http::reply;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/healthy", "/-/healthy"],
    group: Group::Operations,
    scope: Access::Open,
    does: "Whether the process answers at all.",
    parameters: &[],
    answers: "200, the text `healthy`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, healthy),
};

async fn healthy() -> Response {
    reply::text("healthy\n")
}
