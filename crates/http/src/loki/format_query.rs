//! `format_query`: the canonical form of a query.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use sandur_service::{Queries, logql, on_text};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, GET_POST, Group, Handler, QUERY, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/format_query"],
    scope: Access::Read,
    does: "Formats a query in its canonical form.",
    parameters: &[QUERY],
    answers: "200, `{\"status\":\"success\",\"data\":\"..\"}`.",
    fails: "400, `{\"status\":\"invalid-query\",\"error\":\"..\"}`.",
    several_tenants: true,
    handler: |request, app| format.call(request, app),
    ..Route::of(Group::Query)
};

/// Answers with the formatted query; for a query that does not parse with a JSON error and status 400.
async fn format(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let formatted = on_text(&context, call.params.query(), logql::format_query).await?;
    let (head, text, status) = match &formatted {
        Ok(text) => (&b"{\"status\":\"success\",\"data\":"[..], text, StatusCode::OK),
        Err(failure) => {
            (&b"{\"status\":\"invalid-query\",\"error\":"[..], &failure.message, StatusCode::BAD_REQUEST)
        }
    };
    let mut body = head.to_vec();
    json::utf8(&mut body, text);
    body.extend_from_slice(b"}\n");
    Ok(reply::json_with(status, body))
}
