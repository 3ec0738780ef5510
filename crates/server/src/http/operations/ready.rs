//! `ready`: whether requests shall be sent here.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_base::ErrorKind;

use crate::http::app::App;
use crate::http::failure::Failure;
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
    answers: "200, the text `ready`.",
    fails: "503 with the reason while the server starts, stops, or cannot take pushes.",
    several_tenants: false,
    handler: |verbs| on(verbs, ready),
};

async fn ready(State(app): State<App>) -> Result<Response, Failure> {
    if !app.is_ready() {
        return Err(Failure::new(ErrorKind::Unavailable, "not ready: starting or stopping\n"));
    }
    app.intake.writable().map_err(|f| Failure::new(ErrorKind::Unavailable, f.message))?;
    Ok(reply::text("ready\n"))
}
