//! `tags`: all tags.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{FAILS, FROM, JSONP, LIMIT, Told, UNTIL, answer};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};
use crate::wiring::graphite::list_tags as answered;

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/tags", "/tags/", "/graphite/tags", "/graphite/tags/"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All tags.",
    parameters: &[
        parameter("filter", "a regular expression that their begin fits"),
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

async fn tag_list(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = Told::of("tags", &call, &["expr"]).within(&app, &call)?;
    answer(&app, &call, told, async |series, context| answered(series, context, &call.pairs).await).await
}
