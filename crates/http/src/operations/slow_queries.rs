//! `sandur/slow_queries`: the last slow queries, of a tenant or of all tenants.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_memory::Reservation;
use sandur_model::{MILLISECOND_NS, TenantId};
use sandur_service::Queries;
use sandur_service::query_log::{SLOW_QUERIES_MAX, SlowQuery};
use serde_json::{Value, json};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Parameter, Route, parameter};

/// Queries of an answer if the client gives no limit.
const LIMIT_DEFAULT: u32 = 100;
/// Maximum bytes of a query in an answer without its texts.
const BYTES_OF_ONE: usize = 1_024;
/// Bytes that a byte of text needs in JSON, at most: `\u0000`.
const BYTES_OF_BYTE: usize = 6;

const PARAMETERS: &[Parameter] = &[parameter("limit", "maximum number of queries; 100, at most 1,000")];

/// The row of the endpoint for a tenant in the table of routes.
pub static OWN: Route = Route {
    methods: GET,
    paths: &["/sandur/slow_queries"],
    scope: Access::Read,
    does: "The last queries of the tenant that took at least `query.slow_threshold`, newest first: when, \
           what, and where the time went ([query-log.md](query-log.md#slow-queries)). With several tenants \
           also queries over several of them.",
    parameters: PARAMETERS,
    answers: "200, JSON: `{\"slow_queries\": [{\"tenant\", \"ended_ms\", \"query\", ..}]}`.",
    fails: "503 when there is no memory for the answer.",
    several_tenants: true,
    handler: |request, app| own.call(request, app),
    ..Route::of(Group::Operations)
};

/// The row of the endpoint for operators in the table of routes.
pub static ALL: Route = Route {
    paths: &["/sandur/slow_queries/all"],
    scope: Access::Admin,
    does: "Like `/sandur/slow_queries`, for all tenants.",
    several_tenants: false,
    handler: |request, app| all.call(request, app),
    ..OWN
};

async fn own(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let (body, memory) = page(&queries, Some(&call.caller.tenant), &call.params)?;
    Ok(reply::large_json(queries.env(), &call, body, Some(memory)).await)
}

async fn all(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let (body, memory) = page(&queries, None, &call.params)?;
    Ok(reply::large_json(queries.env(), &call, body, Some(memory)).await)
}

/// The body of the answer with its memory, which is reserved first.
fn page(
    queries: &Queries,
    tenants: Option<&TenantId>,
    params: &Params,
) -> Result<(Vec<u8>, Reservation), Failure> {
    let limit = usize::try_from(params.limit(LIMIT_DEFAULT)?).unwrap_or(usize::MAX).min(SLOW_QUERIES_MAX);
    let found = queries.slow().newest(tenants, limit);
    let bytes_max = |query: &Arc<SlowQuery>| BYTES_OF_ONE + query.text_bytes() * BYTES_OF_BYTE;
    let bytes: usize = found.iter().map(bytes_max).sum();
    let mut memory = queries
        .memory()
        .reserve(bytes as u64)
        .map_err(|short| Failure::new(ErrorKind::Busy, format!("no memory for the answer: {short}")))?;
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(b"{\"slow_queries\":[");
    for (n, query) in found.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, &shown(query)).expect("writing to a Vec does not fail");
    }
    body.extend_from_slice(b"]}");
    body.shrink_to_fit();
    memory.shrink(memory.bytes().saturating_sub(body.len() as u64));
    Ok((body, memory))
}

fn shown(query: &SlowQuery) -> Value {
    let counters = &query.cost.counters;
    json!({
        "tenant": query.tenant.as_str(),
        "ended_ms": query.ended_ns / MILLISECOND_NS,
        "signal": query.signal,
        "query_type": query.query_type,
        "query": query.text,
        "query_hash": query.hash,
        "label": query.label,
        "start_ms": query.start_ns / MILLISECOND_NS,
        "end_ms": query.end_ns / MILLISECOND_NS,
        "step_ms": query.step_ns / MILLISECOND_NS,
        "status": query.status,
        "error": query.failure,
        "duration_ms": millis(query.cost.execution),
        "queue_ms": millis(query.cost.queue()),
        "index_ms": millis(Duration::from_nanos(counters.index_ns)),
        "store_ms": millis(Duration::from_nanos(query.cost.download_ns())),
        "execution_ms": millis(Duration::from_nanos(counters.execution_ns)),
        "total_bytes": query.cost.bytes(),
        "total_lines": query.cost.lines(),
        "store_bytes": counters.store_bytes,
        "returned_entries": counters.entries_returned,
        "result_bytes": query.result_bytes,
        "user_agent": query.user_agent,
        "tags": query.tags,
        "trace_id": query.trace,
    })
}

/// Milliseconds with three digits.
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}
