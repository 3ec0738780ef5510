//! `version`: the version of graphite-web whose API this is.

use axum::response::Response;
use axum::routing::on;

use crate::reply;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/version", "/version/", "/graphite/version", "/graphite/version/"],
    group: Group::Graphite,
    scope: Access::Credential,
    does: "The version of graphite-web whose API this is; clients choose features by it.",
    parameters: &[],
    answers: "200, plain text.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, version),
};

async fn version() -> Response {
    reply::text("1.1.10\n")
}
