//! `flush/tenant`: puts what a tenant has in memory into blocks.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_model::TenantId;
use sandur_service::logql;

use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::params::Params;
use crate::http::reply;
use crate::http::route::{Access, Group, POST, Route, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/flush/tenant"],
    group: Group::Operations,
    scope: Access::Admin,
    does: "Puts what the tenant has in memory into blocks; other tenants are flushed with it.",
    parameters: &[parameter("streams", "a selector, checked; a flush always takes every stream")],
    answers: "204.",
    fails: "400: not a selector; 503 when the store cannot be written.",
    several_tenants: false,
    handler: |verbs| on(verbs, flush),
};

async fn flush(State(app): State<App>, params: Params) -> Result<Response, Failure> {
    if let Some(streams) = params.get("streams") {
        let context = app.queries.logs_context(&TenantId::default_tenant());
        logql::on_text(&context, streams, logql::parse_selector).await??;
    }
    app.writes.intake().flush().await?;
    Ok(reply::empty())
}
