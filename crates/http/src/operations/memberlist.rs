//! `memberlist`: says that there is none.

use axum::response::Response;
use axum::routing::on;

use crate::reply;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/memberlist"],
    group: Group::Operations,
    scope: Access::Credential,
    does: "Says that there is no memberlist: processes find each other in the bucket, not by gossip.",
    parameters: &[],
    answers: "200, a line of text.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, memberlist),
};

async fn memberlist() -> Response {
    reply::text("This instance doesn't use memberlist.\n")
}
