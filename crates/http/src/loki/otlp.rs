//! `otlp/v1/logs`: stores log records by OTLP over HTTP.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::app::App;
use crate::failed_request::Failure;
use crate::marshal::json;
use crate::receive::push_lines;
use crate::reply;
use crate::route::{Access, Group, Handler, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/otlp/v1/logs", "/v1/logs"],
    scope: Access::Write,
    does: "Stores log records; answers when they are durable and can be queried. The body is an \
           `ExportLogsServiceRequest` in protobuf or JSON, plain or compressed.",
    answers: "200, an empty `ExportLogsServiceResponse` in the format of the request.",
    fails: "like `push`, with a `google.rpc.Status` as body, and with 503, which exporters retry, instead of \
            500.",
    handler: |request, app| otlp.call(request, app),
    ..Route::of(Group::Write)
};

/// `POST /otlp/v1/logs`.
async fn otlp(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let json = is_json(&parts.headers);
    let outcome = match push_lines(&app, &parts, body, sandur_ingest::otlp_logs_within).await {
        Ok(refused) => match refused.text() {
            None => return accepted(json),
            Some(text) => Failure::invalid(text),
        },
        Err(failure) => failure,
    };
    failed(json, outcome)
}

/// Whether the body of a request is JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    kind.is_some_and(|k| k.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

/// An empty response of any OTLP service; in protobuf it has no bytes.
pub fn accepted(json: bool) -> Response {
    match json {
        true => reply::with_type(HeaderValue::from_static("application/json"), Bytes::from_static(b"{}")),
        false => reply::with_type(HeaderValue::from_static("application/x-protobuf"), Bytes::new()),
    }
}

/// A `google.rpc.Status` in the client's format. Exporters retry only after 429, 502, 503 and 504, so a
/// failure of the server is 503.
pub fn failed(json: bool, failure: Failure) -> Response {
    let failure = match failure.status {
        StatusCode::INTERNAL_SERVER_ERROR => failure.with_status(StatusCode::SERVICE_UNAVAILABLE),
        _ => failure,
    };
    let (kind, body) = match json {
        true => {
            let mut body = b"{\"message\":".to_vec();
            json::utf8(&mut body, &failure.message);
            body.push(b'}');
            ("application/json", Bytes::from(body))
        }
        false => ("application/x-protobuf", sandur_ingest::otlp_status(&failure.message)),
    };
    let mut headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
    failure.show_retry_after(&mut headers);
    (failure.status, headers, body).into_response()
}
