//! `query`: evaluates a metric query at one instant.

use axum::extract::State;
use axum::response::Response;
use sandur_service::Queries;
use sandur_service::logql::{QueryKind, QueryText};

use super::queries::answer;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::params::LIMIT_DEFAULT;
use crate::route::{Access, GET_POST, Group, Handler, QUERY, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/query"],
    scope: Access::Read,
    does: "Evaluates a metric query at one instant.",
    parameters: &[QUERY, parameter("time", "the instant; by default now")],
    answers: "200, `vector` or `scalar`, with `stats`.",
    fails: "400: a query that does not parse, a query of lines, a limit; 429; 504.",
    several_tenants: true,
    handler: |request, app| instant.call(request, app),
    ..Route::of(Group::Query)
};

/// `query`.
async fn instant(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let time_ns = call.params.time(queries.env().now_ns())?;
    let request = QueryText {
        query: call.params.query().to_owned(),
        kind: QueryKind::Instant { time_ns },
        limit: call.params.limit(LIMIT_DEFAULT)?,
        direction: call.params.direction()?,
        interval_ns: 0,
    };
    answer(queries, call, request).await
}
