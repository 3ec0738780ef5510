//! `prometheus/api/v1/rules`: rules with their state; always empty.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::on;

use super::nothing;
use crate::call::Call;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, GET, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/prometheus/api/v1/rules", "/api/v1/rules"],
    group: Group::Rules,
    scope: Access::Read,
    does: "Rules with their state, in Prometheus' format; always empty.",
    parameters: &[parameter("type", "`alert` or `record`")],
    answers: "200, `{\"status\":\"success\",\"data\":{\"groups\":[]},\"errorType\":\"\",\"error\":\"\"}`.",
    fails: "400 for another `type`, as JSON.",
    several_tenants: false,
    handler: |verbs| on(verbs, rules),
};

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
