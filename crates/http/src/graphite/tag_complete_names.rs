//! `tags/autoComplete/tags`: tags with a prefix, of the series that match conditions.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::complete_tags as answered;
use sandur_service::Queries;

use super::answer::{EXPR, FAILS, FROM, JSONP, LIMIT, UNTIL, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/tags/autoComplete/tags",
        "/tags/autoComplete/tags/",
        "/graphite/tags/autoComplete/tags",
        "/graphite/tags/autoComplete/tags/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Tags with a prefix, of the series that match the conditions.",
    parameters: &[EXPR, parameter("tagPrefix", "the prefix"), LIMIT, FROM, UNTIL, JSONP],
    answers: "200, a list.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_complete_names),
};

async fn tag_complete_names(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let described = within(&queries, &call, named("tags", &call, &["expr"]))?;
    answer(&queries, &call, described, async |series, context| answered(series, context, &call.pairs).await)
        .await
}
