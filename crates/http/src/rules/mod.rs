//! Rules are not stored or evaluated. The endpoints answer as Loki does for a tenant without rules, so
//! that Grafana's pages work; storing a rule fails with an explanation. One file per endpoint.

pub mod alerts;
pub mod create;
pub mod delete;
pub mod discovery;
pub mod group;
pub mod list;

use axum::http::HeaderValue;
use axum::response::Response;
use sandur_base::ErrorKind;

use super::reply;
use crate::failed_request::Failure;

/// Loki's answer when something does not exist; its text ends with a line break.
fn missing(text: &str) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("{text}\n"))
}

/// An empty answer in Prometheus' envelope.
fn nothing(data: &str) -> Response {
    let body = format!("{{\"status\":\"success\",\"data\":{data},\"errorType\":\"\",\"error\":\"\"}}");
    reply::with_type(HeaderValue::from_static("application/json"), body.into())
}
