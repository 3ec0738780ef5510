//! `tags/autoComplete/values`: values of a tag that begin so, of the series whose tags fit.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{EXPR, FAILS, FROM, JSONP, LIMIT, Told, UNTIL, answer};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};
use crate::wiring::graphite::complete_values as answered;

/// This endpoint.
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
    does: "Values of a tag that begin so, of the series whose tags fit.",
    parameters: &[
        EXPR,
        parameter("tag", "the tag; required"),
        parameter("valuePrefix", "how they begin"),
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

async fn tag_complete_values(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = Told::of("tags", &call, &["expr"]).within(&app, &call)?;
    answer(&app, &call, told, async |series, context| answered(series, context, &call.pairs).await).await
}
