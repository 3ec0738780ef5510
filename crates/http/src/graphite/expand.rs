//! `metrics/expand`: the paths that match patterns.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::{ExpandRequest, expand as paths};
use sandur_service::Queries;

use super::answer::{FAILS, JSONP, answer, failure, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/metrics/expand", "/metrics/expand/", "/graphite/metrics/expand", "/graphite/metrics/expand/"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "The paths that match patterns.",
    parameters: &[
        parameter("query", "a pattern; may be repeated"),
        parameter("groupByExpr", "1: a list for each pattern"),
        parameter("leavesOnly", "1: only series"),
        JSONP,
    ],
    answers: "200, `{\"results\":[..]}`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, expand),
};

async fn expand(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let request = ExpandRequest::read(&call.pairs).map_err(|error| failure(&error))?;
    let described = named("expand", &call, &["query"]);
    answer(&queries, &call, described, async |series, context| paths(series, context, &request).await).await
}
