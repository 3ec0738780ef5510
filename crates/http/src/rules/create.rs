//! Stores a rule group: refused, because rules are not evaluated.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, Group, POST, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"],
    group: Group::Rules,
    scope: Access::Write,
    does: "Refused: rules are not stored or evaluated.",
    parameters: &[],
    answers: "none.",
    fails: "501: rules are not evaluated.",
    several_tenants: false,
    handler: |verbs| on(verbs, create),
};

async fn create(_call: Call) -> Result<Response, Failure> {
    let text = "rules are not evaluated by this server: keep them in Grafana's alerting, \
                or in a ruler that queries it\n";
    Err(Failure::invalid(text).with_status(StatusCode::NOT_IMPLEMENTED))
}
