//! `parse_query`: the syntax tree of a PromQL query.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_service::Queries;

use super::format_query::parse;
use super::queries::QUERY;
use super::refused::Refused;
use super::reply::success;
use crate::call::Call;
use crate::route::{Access, GET_POST, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/parse_query", "/prometheus/api/v1/parse_query"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Parses a PromQL query into a syntax tree.",
    parameters: &[QUERY],
    answers: "200, `{\"status\":\"success\",\"data\":{\"type\":\"call\",..}}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |verbs| on(verbs, tree),
};

async fn tree(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let expr = parse(&context, call.params.query()).await?;
    let tree = context.compute(move || Ok(sandur_promql::to_json(&expr)?)).await?;
    Ok(success(|out| out.extend_from_slice(tree.as_bytes()), &[]))
}
