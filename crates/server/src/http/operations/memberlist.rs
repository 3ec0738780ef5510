//! `memberlist`: there is none.

use axum::response::Response;
use axum::routing::on;

use crate::http::reply;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/memberlist"],
    group: Group::Operations,
    scope: Access::Credential,
    does: "Processes find each other in the bucket, not by gossip.",
    parameters: &[],
    answers: "200, a line of text that says so.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, memberlist),
};

async fn memberlist() -> Response {
    reply::text("This instance doesn't use memberlist.\n")
}
