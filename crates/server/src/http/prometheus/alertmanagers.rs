//! `alertmanagers`: where alerts are sent: nowhere.

use axum::response::Response;
use axum::routing::on;

use super::reply::success_json;
use crate::http::call::Call;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/alertmanagers", "/prometheus/api/v1/alertmanagers"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "Where alerts are sent: nowhere, since no rules are evaluated here.",
    parameters: &[],
    answers: "200, `{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}` as `data`.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, alertmanagers),
};

async fn alertmanagers(_call: Call) -> Response {
    success_json("{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}")
}
