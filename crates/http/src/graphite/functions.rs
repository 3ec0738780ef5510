//! `functions`: the descriptions of all functions, or of one.

use axum::extract::Path;
use axum::response::Response;
use sandur_graphite::functions as described;

use super::answer::{JSONP, known};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The descriptions of all functions.
pub static ALL: Route = Route {
    methods: GET_POST,
    paths: paths!("/functions"),
    scope: Access::Credential,
    does: "All functions with their parameters.",
    parameters: &[parameter("grouped", "1: grouped"), parameter("group", "one group"), JSONP],
    answers: "200, functions by name.",
    handler: |request, app| functions.call(request, app),
    ..Route::of(Group::Graphite)
};

/// The description of one function.
pub static ONE: Route = Route {
    methods: GET_POST,
    paths: paths!("/functions/{name}"),
    scope: Access::Credential,
    does: "One function with its parameters.",
    parameters: &[parameter("{name}", "part of the path: the name"), JSONP],
    answers: "200, the function.",
    fails: "400: no such function.",
    handler: |request, app| function.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn functions(call: GraphiteCall) -> Result<Response, Failure> {
    known(described(None, &call.pairs))
}

async fn function(Path(name): Path<String>, call: GraphiteCall) -> Result<Response, Failure> {
    known(described(Some(&name), &call.pairs))
}
