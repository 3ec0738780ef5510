//! `flush/tenant`: flushes what a tenant has in memory to blocks.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_model::TenantId;
use sandur_service::{Queries, Writes, on_text};

use crate::failed_request::Failure;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, Group, POST, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/flush/tenant"],
    group: Group::Operations,
    scope: Access::Admin,
    does: "Flushes what the tenant has in memory to blocks; other tenants are flushed as well.",
    parameters: &[parameter(
        "streams",
        "a selector, which is only checked; a flush always includes every \
        stream",
    )],
    answers: "204.",
    fails: "400: not a selector; 503 when the store cannot be written.",
    several_tenants: false,
    handler: |verbs| on(verbs, flush),
};

async fn flush(
    State(queries): State<Queries>,
    State(writes): State<Writes>,
    params: Params,
) -> Result<Response, Failure> {
    if let Some(streams) = params.get("streams") {
        let context = queries.logs_context(&TenantId::default_tenant());
        on_text(&context, streams, sandur_logql::parse_selector).await??;
    }
    writes.intake().flush().await?;
    Ok(reply::empty())
}
