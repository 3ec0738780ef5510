//! `tags/findSeries`: names of the series that match conditions.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::find_series as answered;
use sandur_service::Queries;

use super::answer::{EXPR, FAILS, FROM, JSONP, UNTIL, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route};

/// The row of this endpoint in the table of routes.
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
    does: "Names of the series that match the conditions.",
    parameters: &[EXPR, FROM, UNTIL, JSONP],
    answers: "200, a list.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_find_series),
};

async fn tag_find_series(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let described = within(&queries, &call, named("tags", &call, &["expr"]))?;
    answer(&queries, &call, described, async |series, context| answered(series, context, &call.pairs).await)
        .await
}
