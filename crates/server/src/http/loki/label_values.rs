//! `label/NAME/values`: values of a label.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::on;
use sandur_model::TimeRange;
use sandur_query::QueryStats;

use super::label_names::strings;
use super::selector;
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::failure::Failure;
use crate::http::query_log::{Asked, Times, logged};
use crate::http::route::{END, GET_POST, Group, NAME, Route, SELECTOR, SINCE, START};

/// This endpoint.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/label/{name}/values"],
    group: Group::Index,
    does: "Values of a label in the range, of the streams that match.",
    parameters: &[NAME, SELECTOR, START, END, SINCE],
    answers: "200, `{\"status\":\"success\",\"data\":[\"api\",..]}`; without `data` when there is none.",
    fails: "",
    handler: |verbs| on(verbs, values),
};

async fn values(State(app): State<App>, Path(name): Path<String>, call: Call) -> Result<Response, Failure> {
    Ok(strings(&find(&app, &call, name).await?))
}

/// Values of the label that the call asks for.
pub async fn find(app: &App, call: &Call, name: String) -> Result<Vec<String>, Failure> {
    let (start, end) = call.params.bounds(app.env.now_ns())?;
    let matchers = selector::optional(call.params.query())?;
    let context = app.query_context(&call.tenant);
    let asked = Asked::labels(&name, call.params.query(), Times { start_ns: start, end_ns: end });
    let work = async {
        let range = TimeRange::inclusive(start, end);
        let values = app.source.label_values(&context, name, matchers, range).await?;
        QueryStats::add(&context.stats().entries_returned, values.len() as u64);
        Ok(values)
    };
    logged((app, call), &context, asked, work).await
}
