//! `tags/tagSeries`: the canonical name of a tagged series. Nothing is stored: a series exists from its
//! first value on.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::tag_series as answered;
use sandur_service::Queries;

use super::answer::{FAILS, JSONP, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, Group, POST, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/tags/tagSeries", "/tags/tagSeries/", "/graphite/tags/tagSeries", "/graphite/tags/tagSeries/"],
    group: Group::Graphite,
    scope: Access::Write,
    does: "The canonical name of a tagged series. Nothing is stored: a series exists from its first value \
           on.",
    parameters: &[parameter("path", "the name; required"), JSONP],
    answers: "200, the name.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_series),
};

async fn tag_series(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let described = within(&queries, &call, named("tags", &call, &["path"]))?;
    answer(&queries, &call, described, async |series, context| answered(series, context, &call.pairs).await)
        .await
}
