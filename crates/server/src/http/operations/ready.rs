//! `ready`: whether requests shall be sent here.
//!
//! A process whose store can only be read now is ready: queries and deletes work, pushes are refused with 503
//! and tried again by their senders, and a load balancer that took it away would take the data away.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use sandur_base::ErrorKind;

use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::reply;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/ready", "/-/ready"],
    group: Group::Operations,
    scope: Access::Open,
    does: "Whether requests shall be sent here.",
    parameters: &[],
    answers: "200, the text `ready`, or `ready (read-only: REASON)` while pushes are refused.",
    fails: "503 with the reason while the server starts or stops, and when its catalog is lost.",
    several_tenants: false,
    handler: |verbs| on(verbs, ready),
};

async fn ready(State(app): State<App>) -> Result<Response, Failure> {
    if !app.is_ready() {
        return Err(Failure::new(ErrorKind::Unavailable, "not ready: starting or stopping\n"));
    }
    match app.intake.writable() {
        Ok(()) => Ok(reply::text("ready\n")),
        Err(lost) if lost.status != StatusCode::SERVICE_UNAVAILABLE => {
            Err(Failure::new(ErrorKind::Unavailable, lost.message))
        }
        Err(refusal) => Ok(reply::text(format!("ready (read-only: {})\n", refusal.message))),
    }
}
