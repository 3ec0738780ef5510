//! `label/NAME/values`: values of a label.

use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::on;
use sandur_query::SeriesIndex;
use sandur_service::Queries;
use sandur_service::query_log::Asked;

use super::refused::Refused;
use super::selectors::{END, LIMIT, MATCH, Request, START, label_name};
use super::streamed::{Items, streamed};
use crate::call::Call;
use crate::route::{Access, GET, Group, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/label/{name}/values", "/prometheus/api/v1/label/{name}/values"],
    group: Group::Metrics,
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
    handler: |verbs| on(verbs, values),
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
