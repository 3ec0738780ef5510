//! How receivers are told: `status` and `receivers`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_base::units::format_duration;
use sandur_config::Settings;
use sandur_rules::RulesShown;
use serde_json::{Value, json};

use crate::call::Call;
use crate::prometheus::reply::JSON;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The version and the configuration.
pub static STATUS: Route = Route {
    methods: GET,
    paths: &["/alertmanager/api/v2/status"],
    scope: Access::RulesRead,
    does: "The version, and how receivers are told about groups of alerts, in the form of Alertmanager's \
           API v2.",
    answers: "200, `{\"cluster\",\"config\",\"uptime\",\"versionInfo\"}`. `config.original` is YAML.",
    handler: |request, app| status.call(request, app),
    ..Route::of(Group::Rules)
};

/// The receivers.
pub static RECEIVERS: Route = Route {
    methods: GET,
    paths: &["/alertmanager/api/v2/receivers"],
    scope: Access::RulesRead,
    does: "The kinds of receivers that this process tells about groups of alerts.",
    answers: "200, `[{\"name\"},..]`.",
    handler: |request, app| receivers.call(request, app),
    ..Route::of(Group::Rules)
};

/// The time that clients read as unknown.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00.000Z";

async fn status(
    State(settings): State<Arc<Settings>>,
    State(shown): State<RulesShown>,
    _call: Call,
) -> Response {
    let notify = &settings.notify;
    let names = receiver_names(&shown);
    let receivers: String = names.iter().map(|name| format!("- name: {name}\n")).collect();
    let labels: Vec<Value> = notify.group_by.iter().map(|name| Value::from(name.as_str())).collect();
    let config = format!(
        "route:\n  receiver: {}\n  group_by: {}\n  group_wait: {}\n  group_interval: {}\n  \
         repeat_interval: {}\nreceivers:\n{receivers}",
        names.first().copied().unwrap_or("none"),
        Value::from(labels),
        format_duration(notify.group_wait),
        format_duration(notify.group_interval),
        format_duration(notify.repeat_interval),
    );
    let body = json!({
        "cluster": { "status": "disabled", "peers": [] },
        "config": { "original": config },
        "uptime": UNKNOWN_TIME,
        "versionInfo": {
            "version": env!("CARGO_PKG_VERSION"),
            "branch": "",
            "buildDate": "",
            "buildUser": "",
            "goVersion": "",
            "revision": "",
        },
    });
    reply::with_type(JSON, body.to_string().into())
}

async fn receivers(State(shown): State<RulesShown>, _call: Call) -> Response {
    let names = receiver_names(&shown).into_iter().map(|name| json!({ "name": name }));
    reply::with_type(JSON, Value::from(names.collect::<Vec<_>>()).to_string().into())
}

/// The kinds of receivers, each once.
pub fn receiver_names(shown: &RulesShown) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = shown.receivers().iter().map(|receiver| receiver.kind).collect();
    names.sort_unstable();
    names.dedup();
    names
}
