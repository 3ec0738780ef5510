//! `status/buildinfo`: which version this is.

use axum::response::Response;
use axum::routing::on;

use crate::http::reply;
use crate::http::route::{Access, GET, Group, Route};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/status/buildinfo"],
    group: Group::Operations,
    scope: Access::Credential,
    does: "Which version this is.",
    parameters: &[],
    answers: r#"200, `{"version","revision","branch","buildUser","buildDate","goVersion"}`, not wrapped."#,
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, build_info),
};

async fn build_info() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    // goVersion is there because clients decode it; there is no Go in here.
    let body = format!(
        "{{\"version\":\"{version}\",\"revision\":\"\",\"branch\":\"\",\"buildUser\":\"\",\
         \"buildDate\":\"\",\"goVersion\":\"\"}}\n"
    );
    reply::json(body.into_bytes())
}
