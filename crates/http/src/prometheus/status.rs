//! `status`: the process, its version and its configuration.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_config::{Named, Settings};
use sandur_service::Queries;

use super::reply::{success, success_json};
use crate::call::Call;
use crate::marshal::json;
use crate::operations::{hide_secrets, shown_configuration};
use crate::route::{Access, GET, Group, Handler, Route};

/// The version of the API.
pub static BUILD_INFO: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/buildinfo", "/prometheus/api/v1/status/buildinfo"],
    scope: Access::Credential,
    does: "The version of Prometheus whose API this is, by which clients choose features, and the version of \
           this program (`revision`).",
    answers: "200, `{\"version\",\"revision\",\"branch\",\"buildUser\",\"buildDate\",\"goVersion\",\
              \"features\"}` as `data`; `features` says that there is an API of stored rules, as Mimir does.",
    several_tenants: true,
    handler: |request, app| build_info.call(request, app),
    ..Route::of(Group::Metrics)
};

/// The version of Prometheus whose API this is.
pub const API_VERSION: &str = "3.16.0";

async fn build_info() -> Response {
    let own = env!("CARGO_PKG_VERSION");
    // Clients decode `goVersion`, so it is present; this program has no Go.
    success_json(&format!(
        "{{\"version\":\"{API_VERSION}\",\"revision\":\"sandur {own}\",\"branch\":\"\",\"buildUser\":\"\",\
         \"buildDate\":\"\",\"goVersion\":\"\",\"features\":{{\"ruler_config_api\":\"true\"}}}}"
    ))
}

/// Start time, current time and retention.
pub static RUNTIME_INFO: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/runtimeinfo", "/prometheus/api/v1/status/runtimeinfo"],
    scope: Access::Read,
    does: "The process: start time, current time, and retention of samples. Fields of Go are present and \
           empty.",
    answers: "200, `{\"startTime\",\"serverTime\",\"storageRetention\",..}` as `data`.",
    handler: |request, app| runtime_info.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn runtime_info(
    State(queries): State<Queries>,
    State(settings): State<Arc<Settings>>,
    call: Call,
) -> Response {
    let now = queries.env().now_ns();
    let began = now.saturating_sub(i64::try_from(queries.env().monotonic().as_nanos()).unwrap_or(0));
    let show = |ns: i64| {
        let at = jiff::Timestamp::from_nanosecond(i128::from(ns));
        at.map(|at| at.to_string()).unwrap_or_default()
    };
    let retention = match queries.limits(&call.caller.tenant).retention_period {
        0 => "unlimited".to_owned(),
        ns => sandur_model::go_text::format_go_duration(ns),
    };
    let object = serde_json::json!({
        "startTime": show(began),
        "CWD": "",
        "hostname": "",
        "serverTime": show(now),
        "reloadConfigSuccess": true,
        "lastConfigTime": show(began),
        "corruptionCount": 0,
        "goroutineCount": 0,
        "GOMAXPROCS": sandur_runtime::machine::processors(),
        "GOMEMLIMIT": settings.memory_limit,
        "GOGC": "",
        "GODEBUG": "",
        "storageRetention": retention,
    });
    success_json(&object.to_string())
}

/// The configuration in effect.
pub static CONFIG: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/config", "/prometheus/api/v1/status/config"],
    scope: Access::Admin,
    does: "The configuration in effect, as `/config` shows it.",
    answers: "200, `{\"yaml\":\"..\"}` as `data`.",
    handler: |request, app| config.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn config(State(settings): State<Arc<Settings>>) -> Response {
    let page = shown_configuration(&settings, "");
    let data = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"yaml\":");
        json::utf8(out, &page);
        out.push(b'}');
    };
    success(data, &[])
}

/// Options and their values.
pub static FLAGS: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/flags", "/prometheus/api/v1/status/flags"],
    scope: Access::Admin,
    does: "Options and their values, including some of Prometheus that clients read, with Prometheus's \
           names.",
    answers: "200, `{\"query.max-samples\":\"1000000000\",..}` as `data`.",
    handler: |request, app| flags.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn flags(State(settings): State<Arc<Settings>>) -> Response {
    let mut settings = Settings::clone(&settings);
    hide_secrets(&mut settings);
    let own = Named::every().into_iter().map(|named| {
        let value = named.slot(&mut settings).print();
        (named.key.replace('_', "-"), value)
    });
    let mut all: Vec<(String, String)> = own.collect();
    all.push(("web.enable-admin-api".to_owned(), "true".to_owned()));
    all.push(("web.enable-remote-write-receiver".to_owned(), "true".to_owned()));
    all.sort();
    let data =
        |out: &mut Vec<u8>| json::labels(out, all.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    success(data, &[])
}

/// Progress of replaying the WAL; always complete, since no request is answered before.
pub static WAL_REPLAY: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/walreplay", "/prometheus/api/v1/status/walreplay"],
    scope: Access::Credential,
    does: "Progress of replaying the WAL at the start: always complete, since requests are answered only \
           after that.",
    answers: "200, `{\"min\":0,\"max\":0,\"current\":0}` as `data`.",
    several_tenants: true,
    handler: |request, app| wal_replay.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn wal_replay() -> Response {
    success_json("{\"min\":0,\"max\":0,\"current\":0}")
}
