//! The other processes of the bucket for operators: their running queries, the end of one, their requests to
//! the store, and the states of the rules that they evaluate, by calls of peers.
//!
//! Which processes exist follows from the catalog. Without `cluster.secret_file` none can be called, so each
//! of them is reported with that reason.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_engine::{Engine, OtherProcess, StoreUsage};
use sandur_model::{TenantError, TenantId};
use sandur_peers::{Answer, GROUPS_NAMED_MAX, PeerCaller, PeerQuery, PeerUsage, Request};
use sandur_rules::{AnsweredStates, AskedStates, OtherRulers};
use sandur_service::{
    EndedQuery, ListedQueries, NotEnded, OtherProcesses, ProcessName, RunningQuery, UsageShown,
};

use super::rule_states::listed_states;

/// How long an answer is awaited.
const RUNNING_PATIENCE: Duration = Duration::from_secs(2);
const END_PATIENCE: Duration = Duration::from_secs(5);
const USAGE_PATIENCE: Duration = Duration::from_secs(1);
const STATES_PATIENCE: Duration = Duration::from_secs(2);
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
    ) -> Result<Answer, NoAnswer> {
        let not_asked = |reason: &str| Err(NoAnswer::NotAsked(reason.to_owned()));
        let Some(caller) = &self.caller else {
            return not_asked("this process has no secret to call others (cluster.secret_file)");
        };
        if process.address.is_empty() {
            return not_asked("it states no address (cluster.advertise_address)");
        }
        match caller.call(&process.address, &request, patience, most).await {
            Ok(Answer::Gone) => not_asked("another process answers at its address"),
            Ok(Answer::Busy) => not_asked("it has no memory for the answer now"),
            Ok(Answer::Unknown) => not_asked("its program is older and does not know this call"),
            Ok(answer) => Ok(answer),
            Err(error) if error.is_before_request() => not_asked(&error.to_string()),
            Err(error) => Err(NoAnswer::Unknown(error.to_string())),
        }
    }
}

/// Why a process did not answer.
enum NoAnswer {
    /// It was not asked, or refused to do what was asked.
    NotAsked(String),
    /// It may have done what was asked.
    Unknown(String),
}

impl From<NoAnswer> for String {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::NotAsked(reason) | NoAnswer::Unknown(reason) => reason,
        }
    }
}

impl From<NoAnswer> for NotEnded {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::NotAsked(reason) => Self::NotAsked(reason),
            NoAnswer::Unknown(reason) => Self::Unknown(reason),
        }
    }
}

/// An answer to another call.
fn other(_: Answer) -> NoAnswer {
    NoAnswer::Unknown("its answer is not one to this call".to_owned())
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
                answer => Err(other(answer).into()),
            }
        })
    }

    fn end<'a>(&'a self, name: &'a ProcessName, query: u64) -> BoxFuture<'a, Result<EndedQuery, NotEnded>> {
        let request = Request::Cancel { process: name.process, query };
        Box::pin(async move {
            match self.call(name, request, (END_PATIENCE, SHORT_ANSWER_MAX)).await? {
                Answer::Cancelled(PeerQuery { tenant, text, .. }) => Ok(EndedQuery { tenant, text }),
                Answer::Absent => Err(NotEnded::Gone),
                answer => Err(other(answer).into()),
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
                answer => Err(other(answer).into()),
            }
        })
    }
}

impl OtherRulers for CalledProcesses {
    fn states<'a>(&'a self, name: &'a ProcessName, asked: AskedStates<'a>) -> AnsweredStates<'a> {
        let AskedStates { tenant, groups, without_alerts, most_bytes } = asked;
        // More groups do not fit into a request, so it asks for all of them.
        let groups = if groups.len() > GROUPS_NAMED_MAX { Vec::new() } else { groups.to_vec() };
        let (process, most) = (name.process, usize::try_from(most_bytes).unwrap_or(usize::MAX));
        Box::pin(async move {
            let of_tenant = tenant.as_str().to_owned();
            let request = Request::Rules { process, tenant: of_tenant, groups, without_alerts, most_bytes };
            match self.call(name, request, (STATES_PATIENCE, most)).await? {
                Answer::Rules(list) => {
                    let tenant = tenant.clone();
                    let read = move || listed_states(&list, &tenant, most_bytes);
                    // A list of thousands of alerts would delay other calls.
                    self.engine.env().run_blocking(read).await
                }
                answer => Err(other(answer).into()),
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
