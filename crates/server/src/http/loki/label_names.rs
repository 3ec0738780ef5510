//! `labels`: names of labels.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_query::QueryStats;

use super::selector;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::marshal::json;
use crate::http::query_log::{Asked, logged};
use crate::http::reply;
use crate::http::route::{Access, END, GET_POST, Group, Route, SELECTOR, SINCE, START};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/labels", "/loki/api/v1/label"],
    group: Group::Index,
    scope: Access::Read,
    does: "Names of labels in the range, of the streams that match.",
    parameters: &[SELECTOR, START, END, SINCE],
    answers: "200, `{\"status\":\"success\",\"data\":[\"app\",..]}`; without `data` when there is none.",
    fails: "",
    several_tenants: true,
    handler: |verbs| on(verbs, names),
};

async fn names(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    Ok(strings(&find(&app, &call).await?))
}

/// Names or values, and what may be lacking.
pub struct Found {
    /// What was found.
    pub items: Vec<String>,
    /// Which objects could not be read.
    pub warnings: Vec<String>,
}

/// Names of labels that the call asks for.
pub async fn find(app: &App, call: &Call) -> Result<Found, Failure> {
    let context = app.query_context(&call.tenant);
    let (times, range) = call.range(app, &context)?;
    let matchers = selector::optional(&context, &app.limits(&call.tenant), call.params.query()).await?;
    let asked = Asked::labels("", call.params.query(), times);
    let work = async {
        let names = app.sources.logs.label_names(&context, matchers, range).await?;
        QueryStats::add(&context.stats().entries_returned, names.len() as u64);
        Ok(names)
    };
    let (items, _) = logged((app, call), &context, asked, work).await?;
    Ok(Found { items, warnings: context.warnings() })
}

/// Loki leaves `data` out when there is nothing.
pub fn strings(found: &Found) -> Response {
    let mut body = b"{\"status\":\"success\"".to_vec();
    json::warnings(&mut body, &found.warnings);
    if !found.items.is_empty() {
        body.extend_from_slice(b",\"data\":");
        json::strings(&mut body, found.items.iter().map(String::as_str));
    }
    body.extend_from_slice(b"}\n");
    reply::json(body)
}
