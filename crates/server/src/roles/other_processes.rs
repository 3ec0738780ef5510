//! The other processes of the bucket for operators: their running queries, the end of one, and their requests
//! to the store, by calls of peers.
//!
//! Which processes exist follows from the catalog. Without `cluster.secret_file` none can be called, so each
//! of them is reported with that reason.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_engine::{Engine, OtherProcess, StoreUsage};
use sandur_model::{TenantError, TenantId};
use sandur_peers::{Answer, PeerCaller, PeerQuery, PeerUsage, Request};
use sandur_service::{EndedQuery, ListedQueries, OtherProcesses, ProcessName, RunningQuery, UsageShown};

/// How long an answer is awaited.
const RUNNING_PATIENCE: Duration = Duration::from_secs(2);
const END_PATIENCE: Duration = Duration::from_secs(5);
const USAGE_PATIENCE: Duration = Duration::from_secs(1);
/// Maximum size of an answer without a list: a query with its texts.
const SHORT_ANSWER_MAX: usize = 64 << 10;

/// The other processes, as this one can call them.
pub struct CalledProcesses {
    engine: Arc<Engine>,
    /// `None` without a secret.
    caller: Option<PeerCaller>,
}

impl CalledProcesses {
    /// The processes of the engine's store.
    pub fn new(engine: &Arc<Engine>, caller: Option<&PeerCaller>) -> Self {
        Self { engine: Arc::clone(engine), caller: caller.cloned() }
    }

    async fn call(
        &self,
        process: &ProcessName,
        request: Request,
        (patience, most): (Duration, usize),
    ) -> Result<Answer, String> {
        let Some(caller) = &self.caller else {
            return Err("this process has no secret to call others (cluster.secret_file)".to_owned());
        };
        if process.address.is_empty() {
            return Err("it states no address (cluster.advertise_address)".to_owned());
        }
        match caller.call(&process.address, &request, patience, most).await {
            Ok(Answer::Gone) => Err("another process answers at its address".to_owned()),
            Ok(Answer::Busy) => Err("it has no memory for the answer now".to_owned()),
            Ok(Answer::Unknown) => Err("its program is older and does not know this call".to_owned()),
            Ok(answer) => Ok(answer),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// An answer to another call.
fn other(_: Answer) -> String {
    "its answer is not one to this call".to_owned()
}

impl OtherProcesses for CalledProcesses {
    fn own(&self) -> ProcessName {
        let process = self.engine.incarnation();
        ProcessName { node: self.engine.node_id(), process, address: String::new() }
    }

    fn others(&self) -> Vec<ProcessName> {
        let named =
            |OtherProcess { node, incarnation, address }| ProcessName { node, process: incarnation, address };
        self.engine.other_processes().into_iter().map(named).collect()
    }

    fn running<'a>(
        &'a self,
        name: &'a ProcessName,
        tenant: Option<&'a TenantId>,
        most_bytes: u64,
    ) -> BoxFuture<'a, Result<ListedQueries, String>> {
        let tenant = tenant.map(|tenant| tenant.as_str().to_owned());
        let request = Request::Running { process: name.process, tenant, most_bytes };
        let most = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        Box::pin(async move {
            match self.call(name, request, (RUNNING_PATIENCE, most)).await? {
                Answer::Running(list) => {
                    let queries = list.queries.into_iter().map(running_query).collect::<Result<_, _>>()?;
                    Ok(ListedQueries { queries, left_out: list.left_out })
                }
                answer => Err(other(answer)),
            }
        })
    }

    fn end<'a>(
        &'a self,
        name: &'a ProcessName,
        query: u64,
    ) -> BoxFuture<'a, Result<Option<EndedQuery>, String>> {
        let request = Request::Cancel { process: name.process, query };
        Box::pin(async move {
            match self.call(name, request, (END_PATIENCE, SHORT_ANSWER_MAX)).await? {
                Answer::Cancelled(PeerQuery { tenant, text, .. }) => Ok(Some(EndedQuery { tenant, text })),
                Answer::Absent => Ok(None),
                answer => Err(other(answer)),
            }
        })
    }

    fn own_usage(&self) -> UsageShown {
        let StoreUsage { requests, dollars, dollars_per_month } = self.engine.store_usage();
        UsageShown { requests, dollars, dollars_per_month }
    }

    fn usage<'a>(&'a self, name: &'a ProcessName) -> BoxFuture<'a, Result<UsageShown, String>> {
        let request = Request::Usage { process: name.process };
        Box::pin(async move {
            match self.call(name, request, (USAGE_PATIENCE, SHORT_ANSWER_MAX)).await? {
                Answer::Usage(PeerUsage { requests, dollars, dollars_per_month }) => {
                    Ok(UsageShown { requests, dollars, dollars_per_month })
                }
                answer => Err(other(answer)),
            }
        })
    }
}

/// The tenants that a text of [`TenantId::as_str`] names.
pub fn tenant_of(text: &str) -> Result<TenantId, TenantError> {
    TenantId::several(text.split('|').map(TenantId::new).collect::<Result<Vec<_>, _>>()?)
}

fn running_query(query: PeerQuery) -> Result<RunningQuery, String> {
    let tenant = tenant_of(&query.tenant).map_err(|error| format!("a query of it has no tenant: {error}"))?;
    Ok(RunningQuery {
        number: query.id,
        tenant,
        text: query.text,
        query_type: query.query_type,
        signal: query.signal,
        user_agent: query.user_agent,
        start_ns: query.start_ns,
        end_ns: query.end_ns,
        elapsed: Duration::from_micros(query.elapsed_us),
        queue: Duration::from_micros(query.queue_us),
        store: Duration::from_micros(query.store_us),
        execution: Duration::from_micros(query.execution_us),
        memory_bytes: query.memory_bytes,
        read_bytes: query.read_bytes,
        read_rows: query.read_rows,
    })
}

/// A running query as it is sent to another process.
pub fn peer_query(query: RunningQuery) -> PeerQuery {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    PeerQuery {
        id: query.number,
        tenant: query.tenant.as_str().to_owned(),
        text: query.text,
        query_type: query.query_type,
        signal: query.signal,
        user_agent: query.user_agent,
        start_ns: query.start_ns,
        end_ns: query.end_ns,
        elapsed_us: micros(query.elapsed),
        queue_us: micros(query.queue),
        store_us: micros(query.store),
        execution_us: micros(query.execution),
        memory_bytes: query.memory_bytes,
        read_bytes: query.read_bytes,
        read_rows: query.read_rows,
    }
}
