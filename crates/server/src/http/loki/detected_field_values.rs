//! `detected_field/NAME/values`: values of one field.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::on;

use super::fields::{FIELDS_DEFAULT, collect};
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::marshal::json;
use crate::http::reply;
use crate::http::route::{END, GET_POST, Group, NAME, Route, SINCE, START, parameter};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/detected_field/{name}/values"],
    group: Group::Discovery,
    does: "Values of one field in a sample of lines.",
    parameters: &[
        NAME,
        parameter("query", "LogQL without aggregation; required"),
        START,
        END,
        SINCE,
        parameter("line_limit", "lines that are looked at; 1000"),
        parameter("limit", "most values; 1000"),
    ],
    answers: "200, `{\"values\":[..],\"limit\":N}`.",
    fails: "400: not a query of lines.",
    handler: |verbs| on(verbs, values),
};

/// `detected_field/NAME/values`.
async fn values(State(app): State<App>, Path(name): Path<String>, call: Call) -> Result<Response, Failure> {
    let limit = call.params.limit(FIELDS_DEFAULT)?;
    let fields = collect(&app, &call).await?;
    let mut body = Vec::new();
    json::push(&mut body, format_args!("{{\"limit\":{limit},\"values\":"));
    let values = fields.get(&name).map(|f| &f.values);
    json::strings(&mut body, values.into_iter().flatten().take(limit as usize).map(String::as_str));
    body.extend_from_slice(b"}\n");
    Ok(reply::json(body))
}
