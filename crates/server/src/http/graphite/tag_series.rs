//! `tags/tagSeries`: the canonical name of a series with tags. Nothing is stored: a series is known
//! from its first value on.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{FAILS, JSONP, Told, answer};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, Group, POST, Route, parameter};
use crate::wiring::graphite::tag_series as answered;

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/tags/tagSeries", "/tags/tagSeries/", "/graphite/tags/tagSeries", "/graphite/tags/tagSeries/"],
    group: Group::Graphite,
    scope: Access::Write,
    does: "The canonical name of a series with tags. Nothing is stored: a series is known from its \
           first value on.",
    parameters: &[parameter("path", "the name; required"), JSONP],
    answers: "200, the name.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_series),
};

async fn tag_series(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = Told::of("tags", &call, &["path"]).within(&app, &call)?;
    answer(&app, &call, told, async |series, context| answered(series, context, &call.pairs).await).await
}
