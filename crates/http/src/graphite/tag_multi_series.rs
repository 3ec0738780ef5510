//! `tags/tagMultiSeries`: canonical names of tagged series. Nothing is stored: a series exists from its
//! first value on.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::tag_multi_series as answered;
use sandur_service::Queries;

use super::answer::{FAILS, JSONP, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, Group, POST, Route, parameter};

/// The row of this endpoint in the table of routes.
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
    does: "Canonical names of tagged series. Nothing is stored: a series exists from its first value on.",
    parameters: &[parameter("path", "a name; may be repeated"), JSONP],
    answers: "200, the names.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_multi_series),
};

async fn tag_multi_series(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let described = within(&queries, &call, named("tags", &call, &["path"]))?;
    answer(&queries, &call, described, async |series, context| answered(series, context, &call.pairs).await)
        .await
}
