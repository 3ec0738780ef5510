//! `metrics/index.json`: all paths.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::index as paths;
use sandur_service::Queries;

use super::answer::{FAILS, JSONP, answer, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/metrics/index.json",
        "/metrics/index.json/",
        "/graphite/metrics/index.json",
        "/graphite/metrics/index.json/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All paths, at most a million.",
    parameters: &[JSONP],
    answers: "200, a list.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, index),
};

async fn index(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let described = named("index", &call, &[]);
    answer(&queries, &call, described, async |series, context| paths(series, context, &call.pairs).await)
        .await
}
