//! `sandur/slow_queries`: the last slow queries, of a tenant or of all tenants.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use sandur_model::MILLISECOND_NS;
use sandur_service::Queries;
use sandur_service::query_log::{SLOW_QUERIES_MAX, SlowQuery};
use serde_json::{Value, json};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::operations::query_list::{self, Listed, millis};
use crate::params::Params;
use crate::route::{Access, GET, Group, Handler, Parameter, Route, parameter};

/// Queries of an answer if the client gives no limit.
const LIMIT_DEFAULT: u32 = 100;
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
    let found = queries.slow().newest(Some(&call.caller.tenant), limit(&call.params)?);
    query_list::answer(&queries, &call, found).await
}

async fn all(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    let found = queries.slow().newest(None, limit(&call.params)?);
    query_list::answer(&queries, &call, found).await
}

/// The number of queries that a client asks for.
fn limit(params: &Params) -> Result<usize, Failure> {
    Ok(usize::try_from(params.limit(LIMIT_DEFAULT)?).unwrap_or(usize::MAX).min(SLOW_QUERIES_MAX))
}

impl Listed for Arc<SlowQuery> {
    const LIST: &str = "slow_queries";
    const BYTES: usize = 1_024;

    fn text_bytes(&self) -> usize {
        SlowQuery::text_bytes(self)
    }

    fn shown(&self) -> Value {
        let (query, counters) = (self, &self.cost.counters);
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
}
