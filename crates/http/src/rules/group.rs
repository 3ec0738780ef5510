//! One rule group: there is none, so always 404.

use axum::response::Response;
use axum::routing::on;

use super::missing;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}"],
    group: Group::Rules,
    scope: Access::Read,
    does: "A rule group; rules are not stored, so there is none.",
    parameters: &[],
    answers: "none.",
    fails: "404 `group does not exist`.",
    several_tenants: false,
    handler: |verbs| on(verbs, group),
};

async fn group(_call: Call) -> Result<Response, Failure> {
    Err(missing("group does not exist"))
}
