//! `detected_fields`: the fields of lines with their types.

use axum::extract::State;
use axum::response::Response;
use sandur_service::Queries;

use super::fields::{collect, limit, type_of};
use crate::call::Call;
use crate::failed_request::Failure;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SINCE, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/detected_fields"],
    scope: Access::Read,
    does: "Fields that a sample of lines has, with their types.",
    parameters: &[
        parameter("query", "LogQL without aggregation; required"),
        START,
        END,
        SINCE,
        parameter("line_limit", "number of newest lines that are examined; 100"),
        parameter("limit", "maximum number of fields; 1000"),
    ],
    answers: "200, \
              `{\"fields\":[{\"label\",\"type\",\"cardinality\",\"parsers\",\"jsonPath\"},..],\"limit\":N}`; \
              the type is string, int, float, boolean, duration or bytes; `parsers` is null for structured \
              metadata; `jsonPath` is present for fields of JSON lines; `{}` when there is none.",
    fails: "400: not a query of lines, `line_limit` exceeds `max_entries_limit_per_query`.",
    several_tenants: true,
    handler: |request, app| fields.call(request, app),
    ..Route::of(Group::Discovery)
};

/// Like Loki, an empty list and its limit are left out.
async fn fields(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let limit = limit(&call)?;
    let fields = collect(&queries, &call).await?;
    if fields.is_empty() {
        return Ok(reply::json(b"{}\n".to_vec()));
    }
    let mut body = b"{\"fields\":[".to_vec();
    for (n, (name, field)) in fields.iter().take(limit as usize).enumerate() {
        body.extend_from_slice(if n == 0 { b"{\"label\":" } else { b",{\"label\":" });
        json::utf8(&mut body, name);
        let (kind, cardinality) = (type_of(&field.values), field.values.len());
        json::push(
            &mut body,
            format_args!(",\"type\":\"{kind}\",\"cardinality\":{cardinality},\"parsers\":"),
        );
        match field.parsers.is_empty() {
            true => body.extend_from_slice(b"null"),
            false => json::strings(&mut body, field.parsers.iter().map(|parser| parser.name())),
        }
        if !field.path.is_empty() {
            body.extend_from_slice(b",\"jsonPath\":");
            json::strings(&mut body, field.path.iter().map(String::as_str));
        }
        body.push(b'}');
    }
    json::push(&mut body, format_args!("],\"limit\":{limit}}}\n"));
    Ok(reply::json(body))
}
