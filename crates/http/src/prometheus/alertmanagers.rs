//! `alertmanagers`: where alerts are sent; always empty, since no rules are evaluated.

use axum::response::Response;
use axum::routing::on;

use super::reply::success_json;
use crate::call::Call;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/alertmanagers", "/prometheus/api/v1/alertmanagers"],
    group: Group::Metrics,
    scope: Access::Read,
    does: "The Alertmanagers that alerts are sent to: none, since rules are not evaluated.",
    parameters: &[],
    answers: "200, `{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}` as `data`.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, alertmanagers),
};

async fn alertmanagers(_call: Call) -> Response {
    success_json("{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}")
}
