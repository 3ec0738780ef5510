//! `api/prom/query`: reads the lines of a range, in the format before version 1.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_service::Queries;
use sandur_service::logql::{QueryKind, QueryText};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::loki::queries::{Shape, answer_in};
use crate::route::{Access, END, GET_POST, Group, QUERY, Route, SINCE, START, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/query"],
    group: Group::Legacy,
    scope: Access::Read,
    does: "Lines of a range.",
    parameters: &[
        QUERY,
        parameter("regexp", "a regular expression that lines must match as well"),
        START,
        END,
        SINCE,
        parameter("limit", "maximum number of lines; 100"),
        parameter("direction", "`backward` (default, newest first) or `forward`"),
    ],
    answers: r#"200, `{"stats":{..},"streams":[{"labels":"{..}","entries":[{"ts","line"},..]},..]}`."#,
    fails: "400: a query that does not parse, or not a query of lines; 429; 504.",
    several_tenants: true,
    handler: |verbs| on(verbs, query),
};

async fn query(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let asked = call.params.range_query(queries.env().now_ns())?;
    let query = match call.params.get("regexp") {
        None => asked.query,
        Some(expression) => format!("{} |~ {}", asked.query, sandur_model::go_text::quote(expression)),
    };
    let (start_ns, end_ns, step_ns) = (asked.start_ns, asked.end_ns, asked.step_ns);
    let request = QueryText {
        query,
        kind: QueryKind::Range { start_ns, end_ns, step_ns },
        limit: asked.limit,
        direction: asked.direction,
        interval_ns: asked.interval_ns,
    };
    answer_in(Shape::Legacy, queries, call, request).await
}
