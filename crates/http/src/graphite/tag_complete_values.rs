//! `tags/autoComplete/values`: values of a tag with a prefix, of the series that match conditions.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::complete_values as answered;
use sandur_service::Queries;

use super::answer::{EXPR, FAILS, FROM, JSONP, LIMIT, UNTIL, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &[
        "/tags/autoComplete/values",
        "/tags/autoComplete/values/",
        "/graphite/tags/autoComplete/values",
        "/graphite/tags/autoComplete/values/",
    ],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Values of a tag with a prefix, of the series that match the conditions.",
    parameters: &[
        EXPR,
        parameter("tag", "the tag; required"),
        parameter("valuePrefix", "the prefix"),
        LIMIT,
        FROM,
        UNTIL,
        JSONP,
    ],
    answers: "200, a list.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_complete_values),
};

async fn tag_complete_values(
    State(queries): State<Queries>,
    call: GraphiteCall,
) -> Result<Response, Failure> {
    let described = within(&queries, &call, named("tags", &call, &["expr"]))?;
    answer(&queries, &call, described, async |series, context| answered(series, context, &call.pairs).await)
        .await
}
