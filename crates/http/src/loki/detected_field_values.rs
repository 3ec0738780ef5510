//! `detected_field/NAME/values`: the values of one field.

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_service::Queries;

use super::fields::{collect, limit};
use crate::call::Call;
use crate::failed_request::Failure;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, NAME, Route, SINCE, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/detected_field/{name}/values"],
    scope: Access::Read,
    does: "Values of one field in a sample of lines.",
    parameters: &[
        NAME,
        parameter("query", "LogQL without aggregation; required"),
        START,
        END,
        SINCE,
        parameter("line_limit", "number of newest lines that are examined; 100"),
        parameter("limit", "maximum number of values; 1000"),
    ],
    answers: "200, `{\"limit\":N,\"values\":[..]}`; `{}` when there is none.",
    fails: "400: not a query of lines.",
    several_tenants: true,
    handler: |request, app| values.call(request, app),
    ..Route::of(Group::Discovery)
};

/// Like Loki, an empty list and its limit are left out.
async fn values(
    State(queries): State<Queries>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    let limit = limit(&call)?;
    let fields = collect(&queries, &call).await?;
    let Some(field) = fields.get(&name) else { return Ok(reply::json(b"{}\n".to_vec())) };
    let mut body = Vec::new();
    json::push(&mut body, format_args!("{{\"limit\":{limit},\"values\":"));
    json::strings(&mut body, field.values.iter().take(limit as usize).map(String::as_str));
    body.extend_from_slice(b"}\n");
    Ok(reply::json(body))
}
