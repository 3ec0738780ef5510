//! `detected_fields`: fields of lines with their types.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use super::fields::{FIELDS_DEFAULT, collect, type_of};
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::json;
use crate::http::reply;
use crate::http::route::{END, GET_POST, Group, Route, SINCE, START, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/detected_fields"],
    group: Group::Discovery,
    does: "Fields that a sample of lines has, with their types.",
    parameters: &[
        parameter("query", "LogQL without aggregation; required"),
        START,
        END,
        SINCE,
        parameter("line_limit", "lines that are looked at; 1000"),
        parameter("limit", "most fields; 1000"),
    ],
    answers: "200, `{\"fields\":[{\"label\",\"type\",\"cardinality\",\"parsers\"},..],\"limit\":N}`.",
    fails: "400: not a query of lines.",
    handler: |verbs| on(verbs, fields),
};

/// `detected_fields`.
async fn fields(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let limit = call.params.limit(FIELDS_DEFAULT)?;
    let fields = collect(&app, &call).await?;
    let mut body = b"{\"fields\":[".to_vec();
    for (n, (name, field)) in fields.iter().take(limit as usize).enumerate() {
        body.extend_from_slice(if n == 0 { b"{\"label\":" } else { b",{\"label\":" });
        json::string(&mut body, name.as_bytes());
        let (kind, cardinality) = (type_of(&field.values), field.values.len());
        json::push(
            &mut body,
            format_args!(",\"type\":\"{kind}\",\"cardinality\":{cardinality},\"parsers\":"),
        );
        match field.parsers.is_empty() {
            true => body.extend_from_slice(b"null"),
            false => json::strings(&mut body, field.parsers.iter().copied()),
        }
        body.push(b'}');
    }
    json::push(&mut body, format_args!("],\"limit\":{limit}}}\n"));
    Ok(reply::json(body))
}
