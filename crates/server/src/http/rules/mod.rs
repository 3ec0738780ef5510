//! Rules. None are kept or evaluated here: the endpoints answer as Loki does for a tenant without rules, so
//! that Grafana's pages work, and say so when one is to be stored. One file per endpoint.

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

/// What Loki says when there is no such thing; its text ends with a line break.
fn missing(text: &str) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("{text}\n"))
}

/// Prometheus' envelope around an empty answer.
fn nothing(data: &str) -> Response {
    let body = format!("{{\"status\":\"success\",\"data\":{data},\"errorType\":\"\",\"error\":\"\"}}");
    reply::with_type(HeaderValue::from_static("application/json"), body.into())
}
