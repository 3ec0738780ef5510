//! `admin/tsdb/clean_tombstones`: accepted without effect; deleted samples are removed in the background.

use axum::response::Response;
use axum::routing::on;

use crate::call::Call;
use crate::reply;
use crate::route::{Access, Group, Route, Verb};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/api/v1/admin/tsdb/clean_tombstones", "/prometheus/api/v1/admin/tsdb/clean_tombstones"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "Accepted for compatibility, without effect: deleted samples are removed from the store in the \
           background, after `compaction.delete_request_cancel_period`.",
    parameters: &[],
    answers: "204.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, clean),
};

async fn clean(_call: Call) -> Response {
    reply::empty()
}
