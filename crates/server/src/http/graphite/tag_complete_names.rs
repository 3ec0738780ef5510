//! `tags/autoComplete/tags`: tags that begin so, of the series whose tags fit.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{EXPR, FAILS, FROM, JSONP, LIMIT, Told, UNTIL, answer};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};
use crate::wiring::graphite::complete_tags as answered;

/// This endpoint.
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
    does: "Tags that begin so, of the series whose tags fit.",
    parameters: &[EXPR, parameter("tagPrefix", "how they begin"), LIMIT, FROM, UNTIL, JSONP],
    answers: "200, a list.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_complete_names),
};

async fn tag_complete_names(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = Told::of("tags", &call, &["expr"]).within(&app, &call)?;
    answer(&app, &call, told, async |series, context| answered(series, context, &call.pairs).await).await
}
