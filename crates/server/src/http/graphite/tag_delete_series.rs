//! `tags/delSeries`: refused: series are deleted with their values, by `/api/v1/admin/tsdb/delete_series`.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::answer::{FAILS, JSONP, Told, answer};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::route::{Access, Group, POST, Route, parameter};
use crate::wiring::graphite::delete_series as answered;

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/tags/delSeries", "/tags/delSeries/", "/graphite/tags/delSeries", "/graphite/tags/delSeries/"],
    group: Group::Graphite,
    scope: Access::Write,
    does: "Refused: series are deleted with their values, by `/api/v1/admin/tsdb/delete_series`.",
    parameters: &[parameter("path", "a name"), JSONP],
    answers: "nothing good.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, tag_delete_series),
};

async fn tag_delete_series(State(app): State<App>, call: GraphiteCall) -> Result<Response, Failure> {
    let told = Told::of("tags", &call, &["path"]).within(&app, &call)?;
    answer(&app, &call, told, async |series, context| answered(series, context, &call.pairs).await).await
}
