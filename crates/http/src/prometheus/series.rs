//! `series`: label sets of series.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_query::SeriesIndex;
use sandur_service::Queries;
use sandur_service::query_log::Asked;

use super::queries::refuse;
use super::refused::Refused;
use super::selectors::{END, LIMIT, Request, START};
use super::streamed::{Items, streamed};
use crate::call::Call;
use crate::route::{Access, GET_POST, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/series", "/prometheus/api/v1/series"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Label sets of the series that match any selector, by metric.",
    parameters: &[parameter("match[]", "a selector; may be repeated; required"), START, END, LIMIT],
    answers: "200, `{\"status\":\"success\",\"data\":[{\"__name__\":\"up\"},..]}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |verbs| on(verbs, series),
};

async fn series(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    if call.params.all("match[]").next().is_none() {
        return Err(refuse("no match[] parameter provided"));
    }
    let request = Request::read(&context, &call, (i64::MIN, i64::MAX)).await?;
    let asked = Asked::series(call.params.all("match[]"), request.times).of_metrics();
    let source = queries.samples();
    let open = || async { source.series(&context, request.series()).await.map(Items::Series) };
    streamed((&queries, &call), (&context, asked), request.limit, open).await
}
