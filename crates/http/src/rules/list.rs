//! Rule groups of a tenant: there are none, so always 404.

use axum::response::Response;
use axum::routing::on;

use super::missing;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &[
        "/loki/api/v1/rules",
        "/api/prom/rules",
        "/loki/api/v1/rules/{namespace}",
        "/api/prom/rules/{namespace}",
    ],
    group: Group::Rules,
    scope: Access::Read,
    does: "Rule groups of the tenant; rules are not stored, so there are none.",
    parameters: &[],
    answers: "none.",
    fails: "404 `no rule groups found`, which Grafana reads as an empty list.",
    several_tenants: false,
    handler: |verbs| on(verbs, list),
};

async fn list(_call: Call) -> Result<Response, Failure> {
    Err(missing("no rule groups found"))
}
