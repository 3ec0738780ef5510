//! `ready`: whether requests shall be sent here.
//!
//! A process whose store can only be read now is ready: queries and deletes work, pushes are refused with 503
//! and tried again by their senders, and a load balancer that took it away would take the data away.
//!
//! So is one whose flushes fail: it takes pushes as long as it has memory for their rows, and since all
//! processes of a bucket fail together, a load balancer would take all of them away. Loki, Mimir and
//! Prometheus say nothing of their stores either.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use sandur_base::ErrorKind;
use sandur_base::units::format_duration;

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
    answers: "200, the text `ready`, `ready (read-only: REASON)` while pushes are refused, or `ready \
              (flushes fail for DURATION: ...)` while rows cannot be put into blocks.",
    fails: "503 with the reason while the server starts or stops, and when its catalog is lost.",
    several_tenants: false,
    handler: |verbs| on(verbs, ready),
};

async fn ready(State(app): State<App>) -> Result<Response, Failure> {
    if !app.is_ready() {
        return Err(Failure::new(ErrorKind::Unavailable, "not ready: starting or stopping\n"));
    }
    match app.intake.writable() {
        Ok(()) => Ok(reply::text(match app.intake.flushes_fail_for() {
            None => "ready\n".to_owned(),
            Some(since) => format!(
                "ready (flushes fail for {}: rows are safe in the WAL, pushes are taken while memory_limit \
                 has room; the log says why)\n",
                format_duration(Duration::from_secs(since.as_secs()))
            ),
        })),
        Err(lost) if lost.status != StatusCode::SERVICE_UNAVAILABLE => {
            Err(Failure::new(ErrorKind::Unavailable, lost.message))
        }
        Err(refusal) => Ok(reply::text(format!("ready (read-only: {})\n", refusal.message))),
    }
}
