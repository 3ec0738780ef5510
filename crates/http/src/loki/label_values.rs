//! `label/NAME/values`: values of a label.

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_query::{QueryStats, SeriesRequest, all_texts};
use sandur_service::Queries;
use sandur_service::logql::selector;
use sandur_service::query_log::Asked;

use super::label_names::{Found, strings};
use crate::call::Call;
use crate::failed_request::Failure;
use crate::logged::logged;
use crate::route::{Access, END, GET_POST, Group, Handler, NAME, Route, SELECTOR, SINCE, START};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/label/{name}/values"],
    scope: Access::Read,
    does: "Values of a label in the range, of the streams that match.",
    parameters: &[NAME, SELECTOR, START, END, SINCE],
    answers: "200, `{\"status\":\"success\",\"data\":[\"api\",..]}`; without `data` when there is none.",
    several_tenants: true,
    handler: |request, app| values.call(request, app),
    ..Route::of(Group::Index)
};

async fn values(
    State(queries): State<Queries>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    Ok(strings(&find(&queries, &call, name).await?))
}

/// Finds the values of a label.
pub async fn find(queries: &Queries, call: &Call, name: String) -> Result<Found, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (times, range) = call.range(queries, &context)?;
    let matchers =
        selector::optional_selecting(&context, &queries.limits(&call.caller.tenant), call.params.query())
            .await?;
    let asked = Asked::labels(&name, call.params.query(), times);
    let work = async {
        let (values, _) =
            all_texts(queries.logs(), &context, SeriesRequest::new(matchers, range).values(name)).await?;
        QueryStats::add(&context.stats().entries_returned, values.len() as u64);
        Ok(values)
    };
    let (items, _) = logged((queries, &call.caller), &context, asked, work).await?;
    Ok(Found { items, warnings: context.warnings() })
}
