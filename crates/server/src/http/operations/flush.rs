//! `flush`: puts everything that is in memory into blocks.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::reply;
use crate::http::route::{Access, Group, POST, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/flush", "/ingester/flush"],
    group: Group::Operations,
    scope: Access::Admin,
    does: "Puts everything that was acknowledged so far into blocks; returns when that is done.",
    parameters: &[],
    answers: "204.",
    fails: "503 when the store cannot be written.",
    several_tenants: false,
    handler: |verbs| on(verbs, flush),
};

async fn flush(State(app): State<App>) -> Result<Response, Failure> {
    app.writes.intake().flush().await?;
    Ok(reply::empty())
}
