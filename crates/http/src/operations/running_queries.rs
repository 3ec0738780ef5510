//! `sandur/queries`: the queries that run now in all processes of the store, of a tenant or of all tenants,
//! and the end of one.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_model::{MILLISECOND_NS, TenantId};
use sandur_service::{
    EndedQuery, FoundQuery, OtherProcesses, ProcessName, Queries, QueryId, RunningEverywhere, end_anywhere,
    running_everywhere,
};
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
    does: "The queries of the tenant that run now in the processes of the store, oldest first: what, since \
           when, time in the queue, memory, amounts that were read. With several tenants also queries over \
           several of them. At most 4,000 queries are listed. The other processes are asked over calls of \
           peers (`cluster.secret_file`, [cluster.md](../cluster.md#running-queries)).",
    answers: "200, JSON: `{\"queries\": [{\"id\", \"node\", \"tenant\", \"query\", \"elapsed_ms\", ..}], \
              \"left_out\", \"answered\", \"unanswered\": [{\"node\", \"process\", \"reason\"}]}`: \
              `left_out` queries run but are not listed, `answered` processes answered, and the queries of \
              the processes in `unanswered` are not known.",
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
    does: "Ends a query of any tenant in any process of the store: it fails at once if it waits, otherwise \
           at its next check. Its client gets the status of a limit (400, or 422 of Prometheus's API) and a \
           text that says so.",
    parameters: &[parameter("{id}", "part of the path: the `id` of the query")],
    answers: "204.",
    fails: "404: no such query runs; 503: the query was not ended because its process cannot be \
            asked, or it is not known whether it was ended because there was no answer; the text says which.",
    several_tenants: false,
    handler: |request, app| end.call(request, app),
    ..OWN
};

type Others = State<Arc<dyn OtherProcesses>>;

async fn own(State(queries): State<Queries>, others: Others, call: Call) -> Result<Response, Failure> {
    list(&queries, &*others.0, &call, Some(&call.caller.tenant)).await
}

async fn all(State(queries): State<Queries>, others: Others, call: Call) -> Result<Response, Failure> {
    list(&queries, &*others.0, &call, None).await
}

async fn list(
    queries: &Queries,
    others: &dyn OtherProcesses,
    call: &Call,
    tenant: Option<&TenantId>,
) -> Result<Response, Failure> {
    let RunningEverywhere { queries: found, left_out, answered, unanswered, memory } =
        running_everywhere(queries, others, tenant).await?;
    let unanswered: Vec<Value> = unanswered.iter().map(|one| of_unanswered(&one.name, &one.reason)).collect();
    let more =
        [("left_out", json!(left_out)), ("answered", json!(answered)), ("unanswered", json!(unanswered))];
    let answer = query_list::answer_with(queries, call, found, &more).await;
    drop(memory);
    answer
}

/// A process that did not answer.
pub(super) fn of_unanswered(name: &ProcessName, reason: &str) -> Value {
    json!({ "node": name.node, "process": name.process.to_string(), "reason": reason })
}

async fn end(
    State(queries): State<Queries>,
    others: Others,
    Path(text): Path<String>,
) -> Result<Response, Failure> {
    let id: QueryId = text.parse().map_err(|()| {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
        Failure::new(ErrorKind::NotFound, format!("no query with the id {shown} runs\n"))
    })?;
    let EndedQuery { tenant, text } = end_anywhere(&queries, &*others.0, id).await?;
    tracing::warn!(%id, tenant, query = text, "a query was ended");
    Ok(reply::empty())
}

impl Listed for FoundQuery {
    const LIST: &str = "queries";
    const BYTES: usize = 640;

    fn text_bytes(&self) -> usize {
        let query = &self.query;
        let texts = [&query.text, &query.query_type, &query.signal, &query.user_agent, &self.node];
        query.tenant.as_str().len() + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    fn shown(&self) -> Value {
        let query = &self.query;
        json!({
            "id": self.id.to_string(),
            "node": self.node,
            "tenant": query.tenant.as_str(),
            "signal": query.signal,
            "query_type": query.query_type,
            "query": query.text,
            "start_ms": query.start_ns / MILLISECOND_NS,
            "end_ms": query.end_ns / MILLISECOND_NS,
            "elapsed_ms": millis(query.elapsed),
            "queue_ms": millis(query.queue),
            "store_ms": millis(query.store),
            "execution_ms": millis(query.execution),
            "memory_bytes": query.memory_bytes,
            "total_bytes": query.read_bytes,
            "total_lines": query.read_rows,
            "user_agent": query.user_agent,
        })
    }
}
