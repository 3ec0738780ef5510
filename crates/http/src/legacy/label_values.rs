//! `api/prom/label/NAME/values`: values of a label.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::on;
use sandur_service::Queries;

use super::values;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::loki;
use crate::route::{Access, END, GET_POST, Group, NAME, Route, SELECTOR, SINCE, START};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/label/{name}/values"],
    group: Group::Legacy,
    scope: Access::Read,
    does: "Values of a label in the range, of the streams that match.",
    parameters: &[NAME, SELECTOR, START, END, SINCE],
    answers: "200, `{\"values\":[\"api\",..]}`; `{}` when there is none.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, of_label),
};

async fn of_label(
    State(queries): State<Queries>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    Ok(values(&loki::label_values::find(&queries, &call, name).await?))
}
