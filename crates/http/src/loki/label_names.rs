//! `labels`: names of labels.

use axum::extract::State;
use axum::response::Response;
use sandur_query::{QueryStats, SeriesRequest, all_texts};
use sandur_service::Queries;
use sandur_service::logql::selector;
use sandur_service::query_log::Asked;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::marshal::json;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, Route, SELECTOR, SINCE, START};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/labels", "/loki/api/v1/label"],
    scope: Access::Read,
    does: "Names of labels in the range, of the streams that match.",
    parameters: &[SELECTOR, START, END, SINCE],
    answers: "200, `{\"status\":\"success\",\"data\":[\"app\",..]}`; without `data` when there is none.",
    several_tenants: true,
    handler: |request, app| names.call(request, app),
    ..Route::of(Group::Index)
};

async fn names(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    Ok(strings(&find(&queries, &call).await?))
}

/// Names or values, and warnings.
pub struct Found {
    /// Names or values.
    pub items: Vec<String>,
    /// Warnings: objects that could not be read.
    pub warnings: Vec<String>,
}

/// Finds the names of labels.
pub async fn find(queries: &Queries, call: &Call) -> Result<Found, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.range(queries, &context)?;
    let matchers =
        selector::optional(&context, &queries.limits(&call.caller.tenant), call.params.query()).await?;
    let asked = Asked::labels("", call.params.query(), times);
    let work = async {
        let (names, _) =
            all_texts(queries.logs(), &context, SeriesRequest::new(matchers, range).names()).await?;
        QueryStats::add(&context.stats().entries_returned, names.len() as u64);
        Ok(names)
    };
    let (items, _) = logged((queries, &call.caller), &context, asked, work).await?;
    Ok(Found { items, warnings: context.warnings() })
}

/// Formats the answer. Like Loki, an empty `data` is left out.
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
