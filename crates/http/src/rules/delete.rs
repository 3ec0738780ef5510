//! Deletes rules: there are none, so always 404.

use axum::response::Response;
use axum::routing::on;

use super::missing;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, Group, Route, Verb};

/// The row of this endpoint in the table of routes.
pub static NAMESPACE: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"],
    group: Group::Rules,
    scope: Access::Delete,
    does: "Fails, because rules are not stored and there is no namespace to delete.",
    parameters: &[],
    answers: "none.",
    fails: "404 `group namespace does not exist`.",
    several_tenants: false,
    handler: |verbs| on(verbs, namespace),
};

/// The row of this endpoint in the table of routes.
pub static GROUP: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}"],
    group: Group::Rules,
    scope: Access::Delete,
    does: "Fails, because rules are not stored and there is no group to delete.",
    parameters: &[],
    answers: "none.",
    fails: "404 `group does not exist`.",
    several_tenants: false,
    handler: |verbs| on(verbs, group),
};

async fn namespace(_call: Call) -> Result<Response, Failure> {
    Err(missing("group namespace does not exist"))
}

async fn group(_call: Call) -> Result<Response, Failure> {
    Err(missing("group does not exist"))
}
