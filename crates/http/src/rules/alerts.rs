//! `prometheus/api/v1/alerts`: firing alerts; always empty.

use axum::response::Response;
use axum::routing::on;

use super::nothing;
use crate::call::Call;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/prometheus/api/v1/alerts", "/api/v1/alerts"],
    group: Group::Rules,
    scope: Access::Read,
    does: "Firing alerts, in Prometheus' format; always empty.",
    parameters: &[],
    answers: "200, `{\"status\":\"success\",\"data\":{\"alerts\":[]},\"errorType\":\"\",\"error\":\"\"}`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, alerts),
};

async fn alerts(_call: Call) -> Response {
    nothing("{\"alerts\":[]}")
}
