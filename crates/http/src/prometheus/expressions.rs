//! `format_query` and `parse_query`: the text and the tree of an expression.

use axum::extract::State;
use axum::response::Response;
use sandur_service::{Queries, promql};

use super::queries::QUERY;
use super::refused::Refused;
use super::reply::success;
use crate::call::Call;
use crate::marshal::json;
use crate::route::{Access, GET_POST, Group, Handler, Route};

/// The formatted text.
pub static FORMAT: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/format_query", "/prometheus/api/v1/format_query"],
    scope: Access::Read,
    does: "Formats a PromQL query readably.",
    parameters: &[QUERY],
    answers: "200, `{\"status\":\"success\",\"data\":\"..\"}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| format.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn format(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let expr = parse(&context, call.params.query()).await?;
    let text = context.compute(move || Ok(sandur_promql::pretty(&expr)?)).await?;
    Ok(success(|out| json::utf8(out, &text), &[]))
}

/// Parses the text of the parameter `query`.
async fn parse(context: &sandur_query::QueryContext, text: &str) -> Result<sandur_promql::Expr, Refused> {
    let parsed = promql::parse(context, text).await;
    parsed.map_err(|error| Refused::reading(error, |why| format!("invalid parameter \"query\": {why}")))
}

/// The tree.
pub static PARSE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/parse_query", "/prometheus/api/v1/parse_query"],
    scope: Access::Read,
    does: "Parses a PromQL query into a syntax tree.",
    parameters: &[QUERY],
    answers: "200, `{\"status\":\"success\",\"data\":{\"type\":\"call\",..}}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| tree.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn tree(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let expr = parse(&context, call.params.query()).await?;
    let tree = context.compute(move || Ok(sandur_promql::to_json(&expr)?)).await?;
    Ok(success(|out| out.extend_from_slice(tree.as_bytes()), &[]))
}
