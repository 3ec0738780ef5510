//! `metrics/expand`: the paths that fit patterns.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{FAILS, JSONP, Told, answer, failure};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};
use crate::wiring::graphite::{ExpandRequest, expand as paths};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/metrics/expand", "/metrics/expand/", "/graphite/metrics/expand", "/graphite/metrics/expand/"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "The paths that fit patterns.",
    parameters: &[
        parameter("query", "a pattern; may stand several times"),
        parameter("groupByExpr", "1: a list for each pattern"),
        parameter("leavesOnly", "1: series alone"),
        JSONP,
    ],
    answers: "200, `{\"results\":[..]}`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, expand),
};

async fn expand(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let request = ExpandRequest::read(&call.pairs).map_err(|error| failure(&error))?;
    let told = Told::of("expand", &call, &["query"]);
    answer(&app, &call, told, async |series, context| paths(series, context, &request).await).await
}
