//! `tags`: all tags.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_graphite::list_tags as answered;
use sandur_service::Queries;

use super::answer::{FAILS, FROM, JSONP, LIMIT, UNTIL, answer, named, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/tags", "/tags/", "/graphite/tags", "/graphite/tags/"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All tags.",
    parameters: &[
        parameter("filter", "a regular expression, matched at the start of tags"),
        LIMIT,
        FROM,
        UNTIL,
        JSONP,
    ],
    answers: "200, `[{\"tag\":\"dc\"},..]`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_list),
};

async fn tag_list(State(queries): State<Queries>, call: GraphiteCall) -> Result<Response, Failure> {
    let described = within(&queries, &call, named("tags", &call, &["expr"]))?;
    answer(&queries, &call, described, async |series, context| answered(series, context, &call.pairs).await)
        .await
}
