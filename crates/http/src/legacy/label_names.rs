//! `api/prom/label`: names of labels.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_service::Queries;

use super::values;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::loki;
use crate::route::{Access, END, GET_POST, Group, Route, SELECTOR, SINCE, START};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/label"],
    group: Group::Legacy,
    scope: Access::Read,
    does: "Names of labels in the range, of the streams that match.",
    parameters: &[SELECTOR, START, END, SINCE],
    answers: "200, `{\"values\":[\"app\",..]}`; `{}` when there is none.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, names),
};

async fn names(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    Ok(values(&loki::label_names::find(&queries, &call).await?))
}
