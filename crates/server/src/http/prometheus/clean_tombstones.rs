//! `admin/tsdb/clean_tombstones`: removes what was deleted from the store: that goes on by itself.

use axum::response::Response;
use axum::routing::on;

use crate::http::call::Call;
use crate::http::reply;
use crate::http::route::{Access, Group, Route, Verb};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/api/v1/admin/tsdb/clean_tombstones", "/prometheus/api/v1/admin/tsdb/clean_tombstones"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "Accepted for Prometheus's sake: deleted samples are removed from the store in the background, \
           when `compaction.delete_request_cancel_period` is over, and this does not hurry it.",
    parameters: &[],
    answers: "204.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, clean),
};

async fn clean(_call: Call) -> Response {
    reply::empty()
}
