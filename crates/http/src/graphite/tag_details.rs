//! `tags/TAG`: the values of a tag.

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_graphite::tag_details as details;
use sandur_service::Queries;
use sandur_service::graphite::GraphiteRequest;

use super::answer::{FAILS, FROM, JSONP, LIMIT, UNTIL, answer, within};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: paths!("/tags/{tag}"),
    scope: Access::Read,
    does: "Values of a tag, with the number of series that have them; reads each of these series.",
    parameters: &[
        parameter("{tag}", "part of the path: the tag"),
        parameter("filter", "a regular expression, matched at the start of values"),
        LIMIT,
        FROM,
        UNTIL,
        JSONP,
    ],
    answers: "200, `{\"tag\":..,\"values\":[{\"value\":..,\"count\":..},..]}`.",
    fails: FAILS,
    handler: |request, app| tag_details.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn tag_details(
    State(queries): State<Queries>,
    Path(tag): Path<String>,
    call: GraphiteCall,
) -> Result<Response, Failure> {
    let described =
        within(&queries, &call, GraphiteRequest { kind: "tags", text: tag.clone(), times: None })?;
    answer(&queries, &call, described, async |series, context| {
        details(series, context, &tag, &call.pairs).await
    })
    .await
}
