//! `tags/tagMultiSeries`: canonical names of series with tags. Nothing is stored: a series is known
//! from its first value on.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::tag_multi_series as answered;
use sandur_service::Queries;

use super::answer::{FAILS, JSONP, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::route::{Access, Group, POST, Route, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &[
        "/tags/tagMultiSeries",
        "/tags/tagMultiSeries/",
        "/graphite/tags/tagMultiSeries",
        "/graphite/tags/tagMultiSeries/",
    ],
    group: Group::Graphite,
    scope: Access::Write,
    does: "Canonical names of series with tags. Nothing is stored: a series is known from its first \
           value on.",
    parameters: &[parameter("path", "a name; may stand several times"), JSONP],
    answers: "200, the names.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_multi_series),
};

async fn tag_multi_series(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = within(&queries, &call, named("tags", &call, &["path"]))?;
    answer(&queries, &call, told, async |series, context| answered(series, context, &call.pairs).await).await
}
