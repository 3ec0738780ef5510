//! `labels`, `label/NAME/values` and `series`: names and values of labels, and label sets.

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_query::{SeriesIndex, all_texts};
use sandur_service::Queries;
use sandur_service::query_log::Asked;

use super::queries::refuse;
use super::refused::Refused;
use super::selectors::{END, LIMIT, MATCH, Request, START, label_name, listed, write_text};
use super::streamed::{Items, streamed};
use crate::call::Call;
use crate::route::{Access, GET, GET_POST, Group, Handler, Route, parameter};

/// Names of labels.
pub static NAMES: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/labels", "/prometheus/api/v1/labels"],
    scope: Access::Read,
    does: "Names of labels of the series that match any selector.",
    parameters: &[MATCH, START, END, LIMIT],
    answers: "200, `{\"status\":\"success\",\"data\":[\"__name__\",..]}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| names.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn names(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let request = Request::read(&context, &call, (i64::MIN, i64::MAX)).await?;
    let selectors = call.params.all("match[]").collect::<Vec<_>>().join(":");
    let asked = Asked::labels("", &selectors, request.times).of_metrics();
    let work = async {
        let (names, memory) = all_texts(&queries.samples(), &context, request.series().names()).await?;
        Ok((names, Some(memory)))
    };
    listed((&queries, &call), (&context, asked), (request.limit, write_text), work).await
}

/// Values of a label.
pub static VALUES: Route = Route {
    methods: GET,
    paths: &["/api/v1/label/{name}/values", "/prometheus/api/v1/label/{name}/values"],
    scope: Access::Read,
    does: "Values of a label of the series that match any selector.",
    parameters: &[
        parameter("{name}", "part of the path: the name; a name with escaped characters begins with `U__`"),
        MATCH,
        START,
        END,
        LIMIT,
    ],
    answers: "200, `{\"status\":\"success\",\"data\":[\"node\",..]}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| values.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn values(
    State(queries): State<Queries>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    let name = label_name(&name)?;
    let request = Request::read(&context, &call, (i64::MIN, i64::MAX)).await?;
    let selectors = call.params.all("match[]").collect::<Vec<_>>().join(":");
    let asked = Asked::labels(&name, &selectors, request.times).of_metrics();
    let source = queries.samples();
    let open =
        || async { source.texts(&context, request.series().values(name.as_str())).await.map(Items::Texts) };
    streamed((&queries, &call), (&context, asked), request.limit, open).await
}

/// Label sets of series.
pub static SERIES: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/series", "/prometheus/api/v1/series"],
    scope: Access::Read,
    does: "Label sets of the series that match any selector, by metric.",
    parameters: &[parameter("match[]", "a selector; may be repeated; required"), START, END, LIMIT],
    answers: "200, `{\"status\":\"success\",\"data\":[{\"__name__\":\"up\"},..]}`.",
    fails: "400 `bad_data`.",
    several_tenants: true,
    handler: |request, app| series.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn series(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let context = queries.samples_context(&call.caller.tenant, None);
    if call.params.all("match[]").next().is_none() {
        return Err(refuse("no match[] parameter provided"));
    }
    let request = Request::read(&context, &call, (i64::MIN, i64::MAX)).await?;
    let asked = Asked::series(call.params.all("match[]"), request.times).of_metrics();
    let source = queries.samples();
    let open = || async { source.series(&context, request.series()).await.map(Items::Series) };
    streamed((&queries, &call), (&context, asked), request.limit, open).await
}
