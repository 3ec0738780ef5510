//! `status/buildinfo`: the version of the API.

use axum::response::Response;
use axum::routing::on;

use super::reply::success_json;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/buildinfo", "/prometheus/api/v1/status/buildinfo"],
    group: Group::Metrics,
    scope: Access::Credential,
    does: "The version of Prometheus whose API this is, by which clients choose features, and the version of \
           this program (`revision`).",
    parameters: &[],
    answers: "200, `{\"version\",\"revision\",\"branch\",\"buildUser\",\"buildDate\",\"goVersion\"}` as \
              `data`.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, build_info),
};

/// The version of Prometheus whose API this is.
pub const API_VERSION: &str = "3.16.0";

async fn build_info() -> Response {
    let own = env!("CARGO_PKG_VERSION");
    // Clients decode `goVersion`, so it is present; this program has no Go.
    success_json(&format!(
        "{{\"version\":\"{API_VERSION}\",\"revision\":\"sandur {own}\",\"branch\":\"\",\"buildUser\":\"\",\
         \"buildDate\":\"\",\"goVersion\":\"\"}}"
    ))
}
