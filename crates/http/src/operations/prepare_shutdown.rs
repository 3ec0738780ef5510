//! `ingester/prepare_shutdown`: announces that this process will be scaled down.
//!
//! Every shutdown flushes, so there is little to prepare: an early flush shortens the one at shutdown.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::on;

use crate::app::App;
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, Group, Route, Verb};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Get, Verb::Post, Verb::Delete],
    paths: &["/ingester/prepare_shutdown"],
    group: Group::Operations,
    scope: Access::Admin,
    does: "POST flushes and marks this process as about to be scaled down, DELETE removes the mark, GET \
           shows it. The mark changes nothing else: every stop flushes.",
    parameters: &[],
    answers: "204; with GET 200, `set` or `unset`.",
    fails: "503 when the store cannot be written.",
    several_tenants: false,
    handler: |verbs| on(verbs, prepare),
};

async fn prepare(State(app): State<App>, method: Method) -> Result<Response, Failure> {
    match method {
        Method::POST => {
            app.writes.intake().flush().await?;
            app.prepared.store(true, Ordering::Relaxed);
            Ok(reply::empty())
        }
        Method::DELETE => {
            app.prepared.store(false, Ordering::Relaxed);
            Ok(reply::empty())
        }
        _ => Ok(reply::text(if app.prepared.load(Ordering::Relaxed) { "set" } else { "unset" })),
    }
}
