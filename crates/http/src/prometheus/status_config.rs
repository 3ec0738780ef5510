//! `status/config`: the configuration in effect.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_config::Settings;

use super::reply::success;
use crate::marshal::json;
use crate::operations::shown_configuration;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/config", "/prometheus/api/v1/status/config"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "The configuration in effect, as `/config` shows it.",
    parameters: &[],
    answers: "200, `{\"yaml\":\"..\"}` as `data`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, config),
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
