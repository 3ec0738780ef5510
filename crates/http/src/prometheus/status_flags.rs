//! `status/flags`: options and their values.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_config::Named;
use sandur_config::Settings;

use super::reply::success;
use crate::marshal::json;
use crate::operations::without_secrets;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/status/flags", "/prometheus/api/v1/status/flags"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "Options and their values, including some of Prometheus that clients read, with Prometheus's \
           names.",
    parameters: &[],
    answers: "200, `{\"query.max-samples\":\"1000000000\",..}` as `data`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, flags),
};

async fn flags(State(settings): State<Arc<Settings>>) -> Response {
    let mut settings = Settings::clone(&settings);
    settings.store = without_secrets(&settings.store);
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
