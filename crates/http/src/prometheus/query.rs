//! `query`: evaluates PromQL at one instant.

use axum::extract::State;
use axum::response::Response;
use sandur_promql::Times;
use sandur_service::Queries;

use super::params;
use super::queries::{LIMIT, LOOKBACK, QUERY, STATS, TIMEOUT, answer, asked};
use super::refused::Refused;
use crate::call::Call;
use crate::route::{Access, GET_POST, Group, Handler, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/v1/query", "/prometheus/api/v1/query"],
    scope: Access::Read,
    does: "Evaluates PromQL at one instant.",
    parameters: &[QUERY, parameter("time", "the instant; by default now"), TIMEOUT, LIMIT, LOOKBACK, STATS],
    answers: "200, `vector`, `scalar`, `string` or `matrix`, with `warnings` and `infos`.",
    fails: "400 `bad_data`; 422 `execution`, also for limits; 429; 503 `timeout`.",
    several_tenants: true,
    handler: |request, app| instant.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn instant(State(queries): State<Queries>, call: Call) -> Result<Response, Refused> {
    let now_ms = queries.env().now_ns().div_euclid(1_000_000);
    params::limit(&call.params)?;
    let at = params::instant_or(&call.params, "time", now_ms)?;
    let asked = asked(&call, Times { start: at, end: at, step: 0 })?;
    answer(queries, call, asked).await
}
