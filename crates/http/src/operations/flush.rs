//! `flush`: flushes what is in memory to blocks.

use axum::extract::State;
use axum::response::Response;
use sandur_model::TenantId;
use sandur_service::{Queries, Writes, on_text};

use crate::failed_request::Failure;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, Group, Handler, POST, Route, parameter};

/// Flushes everything in memory.
pub static FLUSH: Route = Route {
    methods: POST,
    paths: &["/flush", "/ingester/flush"],
    scope: Access::Admin,
    does: "Flushes everything that was acknowledged so far to blocks; returns when that is done.",
    answers: "204.",
    fails: "503 when the store cannot be written.",
    handler: |request, app| flush.call(request, app),
    ..Route::of(Group::Operations)
};

async fn flush(State(writes): State<Writes>) -> Result<Response, Failure> {
    writes.intake().flush().await?;
    Ok(reply::empty())
}

/// Flushes what a tenant has in memory.
pub static TENANT: Route = Route {
    methods: POST,
    paths: &["/flush/tenant"],
    scope: Access::Admin,
    does: "Flushes what the tenant has in memory to blocks; other tenants are flushed as well.",
    parameters: &[parameter(
        "streams",
        "a selector, which is only checked; a flush always includes every \
        stream",
    )],
    answers: "204.",
    fails: "400: not a selector; 503 when the store cannot be written.",
    handler: |request, app| flush_tenant.call(request, app),
    ..Route::of(Group::Operations)
};

async fn flush_tenant(
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
