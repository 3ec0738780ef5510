//! `query_range`: reads the lines of a range, or evaluates a metric query at each step of it.

use axum::extract::State;
use axum::response::Response;
use sandur_service::Queries;
use sandur_service::logql::{QueryKind, QueryText};

use super::queries::answer;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, END, GET_POST, Group, Handler, QUERY, Route, SINCE, START, STEP, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/loki/api/v1/query_range"],
    scope: Access::Read,
    does: "Reads the lines of a range, or evaluates a metric query at each step of it.",
    parameters: &[
        QUERY,
        START,
        END,
        SINCE,
        STEP,
        parameter("limit", "maximum number of lines; 100"),
        parameter("direction", "`backward` (default, newest first) or `forward`"),
        parameter("interval", "minimum distance between two lines of a stream; 0"),
    ],
    answers: "200, `streams` or `matrix`, with `stats`; with the header `X-Loki-Response-Encoding-Flags: \
              categorize-labels` labels are grouped by category.",
    fails: "400: a query that does not parse, a limit, more than 11,000 points; 429; 504.",
    several_tenants: true,
    handler: |request, app| range.call(request, app),
    ..Route::of(Group::Query)
};

/// `query_range`.
async fn range(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let asked = call.params.range_query(queries.env().now_ns())?;
    let (start_ns, end_ns, step_ns) = (asked.start_ns, asked.end_ns, asked.step_ns);
    let request = QueryText {
        query: asked.query,
        kind: QueryKind::Range { start_ns, end_ns, step_ns },
        limit: asked.limit,
        direction: asked.direction,
        interval_ns: asked.interval_ns,
    };
    answer(queries, call, request).await
}
