//! Small pages: health, version, parts of the process.

use axum::extract::State;
use axum::response::Response;

use crate::app::App;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// Answers whenever the process does.
pub static HEALTHY: Route = Route {
    methods: GET,
    paths: &["/healthy", "/-/healthy"],
    scope: Access::Open,
    does: "Answers as long as the process runs.",
    answers: "200, the text `healthy`.",
    handler: |request, app| healthy.call(request, app),
    ..Route::of(Group::Operations)
};

async fn healthy() -> Response {
    reply::text("healthy\n")
}

/// The version of the program.
pub static BUILD_INFO: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/status/buildinfo"],
    scope: Access::Credential,
    does: "The version of the program.",
    answers: r#"200, `{"version","revision","branch","buildUser","buildDate","goVersion"}`, not wrapped."#,
    handler: |request, app| build_info.call(request, app),
    ..Route::of(Group::Operations)
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

/// The parts of the process, with Loki's names, and their states.
pub static SERVICES: Route = Route {
    methods: GET,
    paths: &["/services"],
    scope: Access::Credential,
    does: "Parts of the process, with Loki's names, and their states.",
    answers: "200, a line `name => Running` or `name => Stopping` per part.",
    handler: |request, app| services.call(request, app),
    ..Route::of(Group::Operations)
};

async fn services(State(app): State<App>) -> Response {
    let state = if app.is_ready() { "Running" } else { "Stopping" };
    let names = ["server", "distributor", "ingester", "querier", "compactor"];
    reply::text(names.iter().map(|n| format!("{n} => {state}\n")).collect::<String>())
}
