//! `series`: label sets.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_model::Labels;
use sandur_query::SeriesIndex;

use super::queries::refuse;
use super::refused::Refused;
use super::selectors::{END, LIMIT, Request, START, listed};
use super::visible::Visible;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::marshal::json;
use crate::http::query_log::Asked;
use crate::http::route::{Access, GET_POST, Group, Route, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/series", "/prometheus/api/v1/series"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Label sets of the series that match any selector.",
    parameters: &[parameter("match[]", "a selector; may stand several times; required"), START, END, LIMIT],
    answers: "200, `{\"status\":\"success\",\"data\":[{\"__name__\":\"up\"},..]}`.",
    fails: "400 `bad_data`; 422 `execution`: more series than the memory of a query holds.",
    several_tenants: true,
    handler: |verbs| on(verbs, series),
};

async fn series(State(app): State<App>, call: Call) -> Result<Response, Refused> {
    let context = app.metrics_context(&call.tenant, None);
    if call.params.all("match[]").next().is_none() {
        return Err(refuse("no match[] parameter provided"));
    }
    let request = Request::read(&context, &call, (i64::MIN, i64::MAX)).await?;
    let asked = Asked::series(call.params.all("match[]"), request.times).of_metrics();
    let work = async {
        let found = Visible(&*app.sources.samples);
        let found = found.streams(&context, request.selectors.clone(), request.range).await?;
        let bytes = found.iter().map(|labels| labels.text_bytes() as u64 + 64).sum();
        let memory = context.budget().reserve(bytes)?;
        Ok((found, Some(memory)))
    };
    listed((&app, &call), (&context, asked), (request.limit, write), work).await
}

fn write(out: &mut Vec<u8>, labels: &Arc<Labels>) {
    json::labels(out, labels.iter());
}
