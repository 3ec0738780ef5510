//! `status/buildinfo`: the version of the program.

use axum::response::Response;
use axum::routing::on;

use crate::reply;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/status/buildinfo"],
    group: Group::Operations,
    scope: Access::Credential,
    does: "The version of the program.",
    parameters: &[],
    answers: r#"200, `{"version","revision","branch","buildUser","buildDate","goVersion"}`, not wrapped."#,
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, build_info),
};

async fn build_info() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    // Clients decode `goVersion`, so it is present; this program has no Go.
    let body = format!(
        "{{\"version\":\"{version}\",\"revision\":\"\",\"branch\":\"\",\"buildUser\":\"\",\
         \"buildDate\":\"\",\"goVersion\":\"\"}}\n"
    );
    reply::json(body.into_bytes())
}
