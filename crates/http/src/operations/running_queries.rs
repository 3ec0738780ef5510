//! `sandur/queries`: the queries that run now, of a tenant or of all tenants, and the end of one.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_model::MILLISECOND_NS;
use sandur_service::Queries;
use sandur_service::query_log::OpenQuery;
use serde_json::{Value, json};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::operations::query_list::{self, Listed, millis};
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route, Verb, parameter};

/// The row of the endpoint for a tenant in the table of routes.
pub static OWN: Route = Route {
    methods: GET,
    paths: &["/sandur/queries"],
    scope: Access::Read,
    does: "The queries of the tenant that run now, oldest first: what, since when, time in the queue, \
           memory, amounts that were read. With several tenants also queries over several of them. At most \
           4,000 queries of the process are listed.",
    answers: "200, JSON: `{\"queries\": [{\"id\", \"tenant\", \"query\", \"elapsed_ms\", ..}]}`.",
    fails: "503 when there is no memory for the answer.",
    several_tenants: true,
    handler: |request, app| own.call(request, app),
    ..Route::of(Group::Operations)
};

/// The row of the endpoint for operators in the table of routes.
pub static ALL: Route = Route {
    paths: &["/sandur/queries/all"],
    scope: Access::Admin,
    does: "Like `/sandur/queries`, for all tenants.",
    several_tenants: false,
    handler: |request, app| all.call(request, app),
    ..OWN
};

/// The row of the end of a query in the table of routes.
pub static END: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/sandur/queries/{id}"],
    scope: Access::Admin,
    does: "Ends a query of any tenant: it fails at once if it waits, otherwise at its next check. Its \
           client gets the status of a limit (400, or 422 of Prometheus's API) and a text that says so.",
    parameters: &[parameter("{id}", "part of the path: the `id` of the query")],
    answers: "204.",
    fails: "404: no such query runs.",
    several_tenants: false,
    handler: |request, app| end.call(request, app),
    ..OWN
};

async fn own(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    query_list::answer(&queries, &call, queries.open().all(Some(&call.caller.tenant))).await
}

async fn all(State(queries): State<Queries>, call: Call) -> Result<Response, Failure> {
    query_list::answer(&queries, &call, queries.open().all(None)).await
}

async fn end(State(queries): State<Queries>, Path(id): Path<String>) -> Result<Response, Failure> {
    let ended = id.parse().ok().and_then(|id| queries.open().end(id));
    let query = ended.ok_or_else(|| {
        let shown: String = id.chars().filter(|c| !c.is_control()).take(20).collect();
        Failure::new(ErrorKind::NotFound, format!("no query with the id {shown} runs\n"))
    })?;
    tracing::warn!(id = query.id, tenant = query.tenant.as_str(), query = &*query.text, "a query was ended");
    Ok(reply::empty())
}

impl Listed for OpenQuery {
    const LIST: &str = "queries";
    const BYTES: usize = 512;

    fn text_bytes(&self) -> usize {
        self.text_bytes()
    }

    fn shown(&self) -> Value {
        let (query, cost) = (self, self.cost());
        json!({
            "id": query.id.to_string(),
            "tenant": query.tenant.as_str(),
            "signal": query.signal,
            "query_type": query.query_type,
            "query": &*query.text,
            "start_ms": query.start_ns / MILLISECOND_NS,
            "end_ms": query.end_ns / MILLISECOND_NS,
            "elapsed_ms": millis(query.elapsed()),
            "queue_ms": millis(cost.queue()),
            "store_ms": millis(Duration::from_nanos(cost.download_ns())),
            "execution_ms": millis(Duration::from_nanos(cost.counters.execution_ns)),
            "memory_bytes": query.memory_bytes(),
            "total_bytes": cost.bytes(),
            "total_lines": cost.lines(),
            "user_agent": &*query.user_agent,
        })
    }
}
