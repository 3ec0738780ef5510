//! `status/buildinfo`: which API this is.

use axum::response::Response;
use axum::routing::on;

use super::reply::success_json;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/buildinfo", "/prometheus/api/v1/status/buildinfo"],
    group: Group::Metrics,
    scope: Access::Credential,
    does: "Which version of Prometheus's API this is, for clients that choose features by it, and which \
           version of this program (`revision`).",
    parameters: &[],
    answers: "200, `{\"version\",\"revision\",\"branch\",\"buildUser\",\"buildDate\",\"goVersion\"}` as \
              `data`.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, build_info),
};

/// The version of Prometheus whose API is answered.
pub const API_VERSION: &str = "3.16.0";

async fn build_info() -> Response {
    let own = env!("CARGO_PKG_VERSION");
    // goVersion is there because clients decode it; there is no Go in here.
    success_json(&format!(
        "{{\"version\":\"{API_VERSION}\",\"revision\":\"sandur {own}\",\"branch\":\"\",\"buildUser\":\"\",\
         \"buildDate\":\"\",\"goVersion\":\"\"}}"
    ))
}
