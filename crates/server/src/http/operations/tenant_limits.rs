//! `config/tenant/v1/limits`: the limits that hold for a tenant.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use crate::config::{LIMITS, LimitSpec};
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::reply;
use crate::http::route::{GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/config/tenant/v1/limits"],
    group: Group::Operations,
    does: "The limits that hold for the tenant.",
    parameters: &[],
    answers: "200, YAML.",
    fails: "",
    handler: |verbs| on(verbs, tenant_limits),
};

async fn tenant_limits(State(app): State<App>, call: Call) -> Response {
    let mut limits = app.limits(&call.tenant).clone();
    let line = |spec: &LimitSpec| format!("{}: {:?}\n", spec.key, (spec.slot)(&mut limits).print());
    reply::text(LIMITS.iter().map(line).collect::<String>())
}
