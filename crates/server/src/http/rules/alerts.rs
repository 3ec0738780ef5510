//! `prometheus/api/v1/alerts`: firing alerts: there are none.

use axum::response::Response;
use axum::routing::on;

use super::nothing;
use crate::http::call::Call;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/prometheus/api/v1/alerts", "/api/v1/alerts"],
    group: Group::Rules,
    scope: Access::Read,
    does: "Firing alerts, in Prometheus' shape; there is none.",
    parameters: &[],
    answers: "200, `{\"status\":\"success\",\"data\":{\"alerts\":[]},\"errorType\":\"\",\"error\":\"\"}`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, alerts),
};

async fn alerts(_call: Call) -> Response {
    nothing("{\"alerts\":[]}")
}
