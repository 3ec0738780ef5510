//! `labels`: names of labels.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_query::all_texts;
use sandur_service::Queries;
use sandur_service::query_log::Asked;

use super::refused::Refused;
use super::selectors::{END, LIMIT, MATCH, Request, START, listed, write_text};
use crate::call::Call;
use crate::route::{Access, GET_POST, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/labels", "/prometheus/api/v1/labels"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Names of labels of the series that match any selector.",
    parameters: &[MATCH, START, END, LIMIT],
    answers: "200, `{\"status\":\"success\",\"data\":[\"__name__\",..]}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |verbs| on(verbs, names),
};

async fn names(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let request = Request::read(&context, &call, (i64::MIN, i64::MAX)).await?;
    let selectors = call.params.all("match[]").collect::<Vec<_>>().join(":");
    let asked = Asked::labels("", &selectors, request.times).of_metrics();
    let work = async {
        let (names, memory) = all_texts(&queries.samples(), &context, request.series().names()).await?;
        Ok((names, Some(memory)))
    };
    listed((&queries, &call), (&context, asked), (request.limit, write_text), work).await
}
