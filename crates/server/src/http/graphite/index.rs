//! `metrics/index.json`: all paths.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{FAILS, JSONP, Told, answer};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, GET_POST, Group, Route};
use crate::wiring::graphite::index as paths;

/// This endpoint.
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

async fn index(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = Told::of("index", &call, &[]);
    answer(&app, &call, told, async |series, context| paths(series, context, &call.pairs).await).await
}
