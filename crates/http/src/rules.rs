//! Rules are not stored or evaluated. The endpoints answer as Loki does for a tenant without rules, so
//! that Grafana's pages work; storing a rule fails with an explanation.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use sandur_base::ErrorKind;

use super::reply;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::marshal::json;
use crate::route::{Access, GET, Group, Handler, POST, Route, Verb, parameter};

/// The rule groups of a tenant.
pub static LIST: Route = Route {
    methods: GET,
    paths: &[
        "/loki/api/v1/rules",
        "/api/prom/rules",
        "/loki/api/v1/rules/{namespace}",
        "/api/prom/rules/{namespace}",
    ],
    scope: Access::Read,
    does: "Rule groups of the tenant; rules are not stored, so there are none.",
    answers: "none.",
    fails: "404 `no rule groups found`, which Grafana reads as an empty list.",
    handler: |request, app| no_groups.call(request, app),
    ..Route::of(Group::Rules)
};

/// A rule group.
pub static GROUP: Route = Route {
    methods: GET,
    paths: &["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}"],
    scope: Access::Read,
    does: "A rule group; rules are not stored, so there is none.",
    answers: "none.",
    fails: "404 `group does not exist`.",
    handler: |request, app| no_group.call(request, app),
    ..Route::of(Group::Rules)
};

/// Stores a rule group.
pub static CREATE: Route = Route {
    methods: POST,
    paths: &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"],
    scope: Access::Write,
    does: "Refused: rules are not stored or evaluated.",
    answers: "none.",
    fails: "501: rules are not evaluated.",
    handler: |request, app| create.call(request, app),
    ..Route::of(Group::Rules)
};

/// Deletes the rule groups of a namespace.
pub static DELETE_NAMESPACE: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"],
    scope: Access::Delete,
    does: "Fails, because rules are not stored and there is no namespace to delete.",
    answers: "none.",
    fails: "404 `group namespace does not exist`.",
    handler: |request, app| no_namespace.call(request, app),
    ..Route::of(Group::Rules)
};

/// Deletes a rule group.
pub static DELETE_GROUP: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}"],
    scope: Access::Delete,
    does: "Fails, because rules are not stored and there is no group to delete.",
    answers: "none.",
    fails: "404 `group does not exist`.",
    handler: |request, app| no_group.call(request, app),
    ..Route::of(Group::Rules)
};

/// Rules with their state.
pub static RULES: Route = Route {
    methods: GET,
    paths: &["/prometheus/api/v1/rules", "/api/v1/rules"],
    scope: Access::Read,
    does: "Rules with their state, in Prometheus' format; always empty.",
    parameters: &[parameter("type", "`alert` or `record`")],
    answers: "200, `{\"status\":\"success\",\"data\":{\"groups\":[]},\"errorType\":\"\",\"error\":\"\"}`.",
    fails: "400 for another `type`, as JSON.",
    handler: |request, app| rules.call(request, app),
    ..Route::of(Group::Rules)
};

/// Firing alerts.
pub static ALERTS: Route = Route {
    methods: GET,
    paths: &["/prometheus/api/v1/alerts", "/api/v1/alerts"],
    scope: Access::Read,
    does: "Firing alerts, in Prometheus' format; always empty.",
    answers: "200, `{\"status\":\"success\",\"data\":{\"alerts\":[]},\"errorType\":\"\",\"error\":\"\"}`.",
    handler: |request, app| alerts.call(request, app),
    ..Route::of(Group::Rules)
};

async fn no_groups(_call: Call) -> Failure {
    missing("no rule groups found")
}

async fn no_group(_call: Call) -> Failure {
    missing("group does not exist")
}

async fn no_namespace(_call: Call) -> Failure {
    missing("group namespace does not exist")
}

async fn create(_call: Call) -> Failure {
    let text = "rules are not evaluated by this server: keep them in Grafana's alerting, \
                or in a ruler that queries it\n";
    Failure::invalid(text).with_status(StatusCode::NOT_IMPLEMENTED)
}

async fn rules(call: Call) -> Response {
    let kind = call.params.get("type").unwrap_or("").to_lowercase();
    if matches!(kind.as_str(), "" | "alert" | "record") {
        return nothing("{\"groups\":[]}");
    }
    let mut body = b"{\"status\":\"error\",\"data\":null,\"errorType\":\"bad_data\",\"error\":".to_vec();
    json::utf8(&mut body, &format!("not supported value {kind:?}"));
    body.push(b'}');
    let mut response = reply::with_type(HeaderValue::from_static("application/json"), body.into());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

async fn alerts(_call: Call) -> Response {
    nothing("{\"alerts\":[]}")
}

/// Loki's answer when something does not exist; its text ends with a line break.
fn missing(text: &str) -> Failure {
    Failure::new(ErrorKind::NotFound, format!("{text}\n"))
}

/// An empty answer in Prometheus' envelope.
fn nothing(data: &str) -> Response {
    let body = format!("{{\"status\":\"success\",\"data\":{data},\"errorType\":\"\",\"error\":\"\"}}");
    reply::with_type(HeaderValue::from_static("application/json"), body.into())
}
