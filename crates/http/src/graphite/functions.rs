//! `functions`: the descriptions of all functions.

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
    paths: &["/functions", "/functions/", "/graphite/functions", "/graphite/functions/"],
    group: Group::Graphite,
    scope: Access::Credential,
    does: "All functions with their parameters.",
    parameters: &[parameter("grouped", "1: grouped"), parameter("group", "one group"), JSONP],
    answers: "200, functions by name.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, functions),
};

async fn functions(call: GraphiteCall) -> Result<Response, Failure> {
    known(described(None, &call.pairs))
}
