//! `version`: the version of graphite-web whose API this is.

use axum::response::Response;

use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: paths!("/version"),
    scope: Access::Credential,
    does: "The version of graphite-web whose API this is; clients choose features by it.",
    answers: "200, plain text.",
    handler: |request, app| version.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn version() -> Response {
    reply::text("1.1.10\n")
}
