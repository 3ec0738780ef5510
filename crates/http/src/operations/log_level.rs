//! `log_level`: reads and changes the log level while the process runs.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use sandur_terminal::logging;

use crate::marshal::json;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/log_level"],
    scope: Access::Admin,
    does: "The log level; POST changes it until the process ends.",
    parameters: &[parameter("log_level", "with POST: `trace`, `debug`, `info`, `warn` or `error`")],
    answers: "200, `{\"message\":\"Current log level is info\"}`, after a change \
              `{\"status\":\"success\",\"message\":\"Log level set to debug\"}`.",
    fails: "400, `{\"status\":\"failed\",\"message\":\"..\"}`.",
    handler: |request, app| log_level.call(request, app),
    ..Route::of(Group::Operations)
};

async fn log_level(method: Method, params: Params) -> Response {
    if method != Method::POST {
        return answer(StatusCode::OK, None, &format!("Current log level is {}", logging::level()));
    }
    let wanted = params.get("log_level").unwrap_or("");
    match logging::set_level(wanted) {
        Ok(()) => {
            let text = format!("Log level set to {wanted}");
            tracing::info!("{text}");
            answer(StatusCode::OK, Some("success"), &text)
        }
        Err(reason) => answer(StatusCode::BAD_REQUEST, Some("failed"), &reason),
    }
}

fn answer(status: StatusCode, outcome: Option<&str>, message: &str) -> Response {
    let mut body = b"{".to_vec();
    if let Some(outcome) = outcome {
        json::push(&mut body, format_args!("\"status\":\"{outcome}\","));
    }
    body.extend_from_slice(b"\"message\":");
    json::utf8(&mut body, message);
    body.extend_from_slice(b"}\n");
    reply::json_with(status, body)
}
