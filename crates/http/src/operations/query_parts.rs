//! `/sandur/query_parts`: the parts of a LogQL query, each of which can be asked by itself.

use axum::extract::State;
use axum::response::Response;
use sandur_service::logql::{self, Counted, QueryPart};
use sandur_service::{Queries, on_text};
use serde_json::{Value, json};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Access, END, GET_POST, Group, Handler, QUERY, Route, SINCE, START};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET_POST,
    paths: &["/sandur/query_parts"],
    scope: Access::Read,
    does: "The parts of a LogQL query as a tree: functions, aggregations, operators, stages, selectors. Each \
           part has a query that does its work and returns one number, so that the costs of parts can be \
           compared. Lines of a query without a function are counted over the time range. At most 60 parts \
           are listed. Nothing is read.",
    parameters: &[QUERY, START, END, SINCE],
    answers: "200, `{\"parts\":[{\"depth\",\"title\",\"text\",\"counting\",\"counts\"}],\"hasMore\"}`: \
              a part comes before those that it contains, whose `depth` is larger; `counting` is the \
              query for an instant, and `counts` says whether it counts `lines` or `series`.",
    fails: "400: the query is invalid.",
    several_tenants: true,
    handler: |request, app| query_parts.call(request, app),
    ..Route::of(Group::Query)
};

async fn query_parts(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let context = queries.logs_context(&call.caller.tenant);
    let (_, range) = call.ordered_range(&queries, &context)?;
    let range_ns = range.end.saturating_sub(range.start).max(1);
    let work = move |text: &str| logql::query_parts(text, range_ns);
    let found = on_text(&context, call.params.query(), work).await??;
    let parts: Vec<Value> = found.parts.iter().map(of_part).collect();
    Ok(reply::json(json!({ "parts": parts, "hasMore": found.has_more }).to_string().into_bytes()))
}

fn of_part(part: &QueryPart) -> Value {
    let counts = match part.counted {
        Counted::Lines => "lines",
        Counted::Series => "series",
    };
    json!({
        "depth": part.depth,
        "title": part.title,
        "text": part.text,
        "counting": part.counting,
        "counts": counts,
    })
}
