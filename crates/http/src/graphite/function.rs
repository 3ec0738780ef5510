//! `functions/NAME`: the description of one function.

use axum::extract::Path;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::functions as described;

use super::answer::{JSONP, known};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/functions/{name}",
        "/functions/{name}/",
        "/graphite/functions/{name}",
        "/graphite/functions/{name}/",
    ],
    group: Group::Graphite,
    scope: Access::Credential,
    does: "One function with its parameters.",
    parameters: &[parameter("{name}", "part of the path: the name"), JSONP],
    answers: "200, the function.",
    fails: "400: no such function.",
    several_tenants: false,
    handler: |verbs| on(verbs, function),
};

async fn function(Path(name): Path<String>, call: GraphiteCall) -> Result<Response, Failure> {
    known(described(Some(&name), &call.pairs))
}
