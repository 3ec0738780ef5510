//! `flush`: flushes everything in memory to blocks.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_service::Writes;

use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, Group, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/flush", "/ingester/flush"],
    group: Group::Operations,
    scope: Access::Admin,
    does: "Flushes everything that was acknowledged so far to blocks; returns when that is done.",
    parameters: &[],
    answers: "204.",
    fails: "503 when the store cannot be written.",
    several_tenants: false,
    handler: |verbs| on(verbs, flush),
};

async fn flush(State(writes): State<Writes>) -> Result<Response, Failure> {
    writes.intake().flush().await?;
    Ok(reply::empty())
}
