//! Paths and formats of Loki before version 1, which old agents and scripts still use. `series` is the
//! same as in version 1 and is implemented there.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use sandur_service::Queries;
use sandur_service::logql::{QueryKind, QueryText};

use super::loki::label_names::Found;
use super::marshal::json;
use super::reply;
use crate::app::App;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::loki;
use crate::loki::push::store;
use crate::loki::queries::{Shape, answer_in};
use crate::loki::tail::tail_in;
use crate::route::{
    Access, END, GET_POST, Group, Handler, NAME, POST, QUERY, Route, SELECTOR, SINCE, START, parameter,
};

/// Formats `{"values":[..]}`; like Loki, an empty list is left out.
fn values(found: &Found) -> Response {
    let mut body = b"{".to_vec();
    if !found.items.is_empty() || !found.warnings.is_empty() {
        body.extend_from_slice(b"\"values\":");
        json::strings(&mut body, found.items.iter().map(String::as_str));
        json::warnings(&mut body, &found.warnings);
    }
    body.extend_from_slice(b"}\n");
    reply::json(body)
}

/// Stores log entries by Loki's protocol; JSON may also have the format before version 1.
pub static PUSH: Route = Route {
    methods: POST,
    paths: &["/api/prom/push"],
    scope: Access::Write,
    does: "Stores lines as `/loki/api/v1/push` does. In JSON, streams may also have the format before \
           version 1: `{\"labels\":\"{..}\",\"entries\":[{\"ts\":\"<RFC 3339>\",\"line\":\"..\"},..]}`.",
    answers: "204.",
    fails: "like `/loki/api/v1/push`.",
    handler: |request, app| push.call(request, app),
    ..Route::of(Group::Legacy)
};

async fn push(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    store(&app, request, sandur_ingest::loki_push_legacy_within).await
}

/// Reads the lines of a range, in the format before version 1.
pub static LINES: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/query"],
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
    handler: |request, app| query.call(request, app),
    ..Route::of(Group::Legacy)
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

/// Follows new lines, in the format before version 1.
pub static TAIL: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/tail"],
    scope: Access::Read,
    does: "Sends new lines over a websocket, after past lines.",
    parameters: &[
        QUERY,
        START,
        parameter("limit", "maximum number of past lines; 100"),
        parameter("delay_for", "seconds to wait for late lines; 0, at most 5"),
    ],
    answers: r#"101; frames `{"streams":[{"labels","entries":[{"ts","line"}]}],"dropped_entries"}`."#,
    fails: "400: not a websocket, too many followers.",
    handler: |request, app| tail.call(request, app),
    ..Route::of(Group::Legacy)
};

async fn tail(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    tail_in(Shape::Legacy, app, request).await
}

/// Names of labels.
pub static LABEL_NAMES: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/label"],
    scope: Access::Read,
    does: "Names of labels in the range, of the streams that match.",
    parameters: &[SELECTOR, START, END, SINCE],
    answers: "200, `{\"values\":[\"app\",..]}`; `{}` when there is none.",
    several_tenants: true,
    handler: |request, app| names.call(request, app),
    ..Route::of(Group::Legacy)
};

async fn names(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    Ok(values(&loki::label_names::find(&queries, &call).await?))
}

/// Values of a label.
pub static LABEL_VALUES: Route = Route {
    methods: GET_POST,
    paths: &["/api/prom/label/{name}/values"],
    scope: Access::Read,
    does: "Values of a label in the range, of the streams that match.",
    parameters: &[NAME, SELECTOR, START, END, SINCE],
    answers: "200, `{\"values\":[\"api\",..]}`; `{}` when there is none.",
    several_tenants: true,
    handler: |request, app| of_label.call(request, app),
    ..Route::of(Group::Legacy)
};

async fn of_label(
    State(queries): State<Queries>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    Ok(values(&loki::label_values::find(&queries, &call, name).await?))
}
