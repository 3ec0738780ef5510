//! `tags/findSeries`: names of the series whose tags fit.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{EXPR, FAILS, FROM, JSONP, Told, UNTIL, answer};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, GET_POST, Group, Route};
use crate::wiring::graphite::find_series as answered;

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/tags/findSeries",
        "/tags/findSeries/",
        "/graphite/tags/findSeries",
        "/graphite/tags/findSeries/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Names of the series whose tags fit.",
    parameters: &[EXPR, FROM, UNTIL, JSONP],
    answers: "200, a list.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_find_series),
};

async fn tag_find_series(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = Told::of("tags", &call, &["expr"]).within(&app, &call)?;
    answer(&app, &call, told, async |series, context| answered(series, context, &call.pairs).await).await
}
