//! `format_query`: pretty-prints a PromQL query.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_service::Queries;
use sandur_service::promql;

use super::queries::QUERY;
use super::refused::Refused;
use super::reply::success;
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET_POST, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/format_query", "/prometheus/api/v1/format_query"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Formats a PromQL query readably.",
    parameters: &[QUERY],
    answers: "200, `{\"status\":\"success\",\"data\":\"..\"}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |verbs| on(verbs, format),
};

async fn format(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let expr = parse(&context, call.params.query()).await?;
    let text = context.compute(move || Ok(sandur_promql::pretty(&expr)?)).await?;
    Ok(success(|out| json::utf8(out, &text), &[]))
}

/// Parses the text of the parameter `query`.
pub async fn parse(context: &sandur_query::QueryContext, text: &str) -> Result<sandur_promql::Expr, Refused> {
    let parsed = promql::parse(context, text).await;
    parsed.map_err(|error| Refused::reading(error, |why| format!("invalid parameter \"query\": {why}")))
}
