//! The queries that run in all processes of a store, and the end of one of them.
//!
//! The process that is asked asks all others ([`OtherProcesses`]) at the same time. A process that does not
//! answer is named in the answer with the reason, and one that registered a moment ago may not be known yet:
//! the answer lists what was found, and never says that this is all.
//!
//! **Bounds.** At most [`PROCESSES_MAX`] processes are asked. Their answers share [`ANSWERS`], which are
//! reserved from the memory of queries first. If memory is short, each gets less, down to the least; without
//! that much, no process is asked, and the queries of this one are listed. A list has at most [`QUERIES_MAX`]
//! queries.
//!
//! **Invariant.** A process answers a tenant with that tenant's queries only, and the process that asked
//! checks it again.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::join_all;
use sandur_base::{BoxFuture, ErrorKind, Id};
use sandur_memory::Reservation;
use sandur_model::TenantId;

use crate::failure::Failure;
use crate::nodes::UsageShown;
use crate::queries::Queries;
use crate::query_log::{OpenQuery, QUERIES_MAX, may_see};

/// The most processes that are asked.
pub const PROCESSES_MAX: usize = 256;
/// The memory of the answers. The factor: the message, and the queries that were decoded from it.
const ANSWERS: AnswerRoom = AnswerRoom { all: 8 << 20, least: 64 << 10, most: 1 << 20, factor: 3 };

/// How large the answers of other processes may be.
#[derive(Clone, Copy, Debug)]
pub struct AnswerRoom {
    /// Bytes of all answers together. With many processes each still gets the least.
    pub all: u64,
    /// The least bytes of one answer.
    pub least: u64,
    /// The most bytes of one answer.
    pub most: u64,
    /// Bytes of memory for each byte of an answer.
    pub factor: u64,
}

impl AnswerRoom {
    /// Reserves memory for the answers of this many processes, and returns the most bytes of each; `None` if
    /// there is not even memory for the least.
    pub fn reserve(&self, memory: &mut Reservation, number: u64) -> Option<u64> {
        let mut most_bytes = (self.all / number.max(1)).clamp(self.least, self.most);
        while memory.grow(most_bytes.saturating_mul(self.factor).saturating_mul(number)).is_err() {
            if most_bytes == self.least {
                return None;
            }
            most_bytes = (most_bytes / 2).max(self.least);
        }
        Some(most_bytes)
    }
}

/// Why a process is not asked if there is no room for its answer.
pub const NO_MEMORY: &str = "this process has no memory for its answer now";

/// Another process of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessName {
    /// The stable id of its node.
    pub node: String,
    /// The id of the process.
    pub process: Id,
    /// The address for calls; empty if it states none.
    pub address: String,
}

/// The other processes of the store, and calls to them. Each call ends within a few seconds.
pub trait OtherProcesses: Send + Sync {
    /// The name of this process.
    fn own(&self) -> ProcessName;
    /// The processes that may be running, without this one.
    fn others(&self) -> Vec<ProcessName>;
    /// The queries that run there, in at most `most_bytes`: those of all tenants, or those that read no data
    /// of other tenants. The error says why there is no answer.
    fn running<'a>(
        &'a self,
        process: &'a ProcessName,
        tenant: Option<&'a TenantId>,
        most_bytes: u64,
    ) -> BoxFuture<'a, Result<ListedQueries, String>>;
    /// Ends a query.
    fn end<'a>(&'a self, process: &'a ProcessName, query: u64)
    -> BoxFuture<'a, Result<EndedQuery, NotEnded>>;
    /// The requests of this process to the store.
    fn own_usage(&self) -> UsageShown;
    /// The requests of another process to the store; the error says why there is no answer.
    fn usage<'a>(&'a self, process: &'a ProcessName) -> BoxFuture<'a, Result<UsageShown, String>>;
}

/// The id of a query in all processes of a store, as text `PROCESS-NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryId {
    /// The process that runs it.
    pub process: Id,
    /// Its number there.
    pub number: u64,
}

impl fmt::Display for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.process, self.number)
    }
}

impl FromStr for QueryId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (process, number) = text.split_once('-').ok_or(())?;
        Ok(Self { process: process.parse().map_err(drop)?, number: number.parse().map_err(drop)? })
    }
}

/// A running query at an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningQuery {
    /// The number of the query in its process.
    pub number: u64,
    /// Who asked.
    pub tenant: TenantId,
    /// The beginning of the text.
    pub text: String,
    /// As in the log of queries.
    pub query_type: String,
    /// `logs` or `metrics`.
    pub signal: String,
    /// The client.
    pub user_agent: String,
    /// Start of the range, nanoseconds since the epoch.
    pub start_ns: i64,
    /// End of the range, nanoseconds since the epoch.
    pub end_ns: i64,
    /// Time since the query began.
    pub elapsed: Duration,
    /// Time in the queue.
    pub queue: Duration,
    /// Time of reads from cache and store.
    pub store: Duration,
    /// Time of execution.
    pub execution: Duration,
    /// Bytes that the query holds.
    pub memory_bytes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Lines that were read.
    pub read_rows: u64,
}

impl From<&OpenQuery> for RunningQuery {
    fn from(query: &OpenQuery) -> Self {
        let cost = query.cost();
        Self {
            number: query.id,
            tenant: query.tenant.clone(),
            text: query.text.to_string(),
            query_type: query.query_type.to_owned(),
            signal: query.signal.to_owned(),
            user_agent: query.user_agent.to_string(),
            start_ns: query.start_ns,
            end_ns: query.end_ns,
            elapsed: query.elapsed(),
            queue: cost.queue(),
            store: Duration::from_nanos(cost.download_ns()),
            execution: Duration::from_nanos(cost.counters.execution_ns),
            memory_bytes: query.memory_bytes(),
            read_bytes: cost.bytes(),
            read_rows: cost.lines(),
        }
    }
}

/// Running queries of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedQueries {
    /// The oldest first.
    pub queries: Vec<RunningQuery>,
    /// Queries for which there was no room.
    pub left_out: u64,
}

/// A query that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedQuery {
    /// Who asked.
    pub tenant: String,
    /// The beginning of the text.
    pub text: String,
}

/// Why there is no query that was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotEnded {
    /// The process was not asked, or refused: the query was not ended, for this reason.
    NotAsked(String),
    /// No such query runs there.
    Gone,
    /// The process was asked, but its answer is not known, for this reason.
    Unknown(String),
}

/// A running query and its process.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundQuery {
    /// The id in all processes.
    pub id: QueryId,
    /// The node that runs it.
    pub node: String,
    /// The query.
    pub query: RunningQuery,
}

/// A process that did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The process.
    pub name: ProcessName,
    /// Why there is no answer.
    pub reason: String,
}

/// What was found in the processes that answered.
pub struct RunningEverywhere {
    /// The oldest first.
    pub queries: Vec<FoundQuery>,
    /// Queries that run but are not listed.
    pub left_out: u64,
    /// How many processes answered, this one included.
    pub answered: usize,
    /// Processes that did not answer.
    pub unanswered: Vec<Unanswered>,
    /// The memory of the list.
    pub memory: Reservation,
}

/// Lists the running queries of all processes: of all tenants, or those that read no data of other tenants.
pub async fn running_everywhere(
    queries: &Queries,
    processes: &dyn OtherProcesses,
    tenant: Option<&TenantId>,
) -> Result<RunningEverywhere, Failure> {
    let own = processes.own();
    let open = queries.open().all(tenant);
    let bytes = open.iter().map(|query| listed_bytes(query, &own)).sum();
    let mut memory = queries.memory().reserve(bytes).map_err(|short| {
        Failure::new(ErrorKind::Busy, format!("no memory for the list of queries: {short}"))
    })?;
    let mut found = found_in(&own, open.iter().map(RunningQuery::from).collect());
    drop(open);
    let (mut asked, mut unanswered) = asked(processes.others());
    let most_bytes = ANSWERS.reserve(&mut memory, asked.len() as u64).unwrap_or_else(|| {
        let reason = || NO_MEMORY.to_owned();
        unanswered.extend(asked.drain(..).map(|name| Unanswered { name, reason: reason() }));
        0
    });
    let calls = asked.iter().map(|process| processes.running(process, tenant, most_bytes));
    let answers = join_all(calls).await;
    let (mut left_out, mut answered) = (0u64, 1);
    for (process, answer) in asked.into_iter().zip(answers) {
        match answer {
            Ok(list) => {
                answered += 1;
                left_out = left_out.saturating_add(list.left_out);
                let allowed = |query: &RunningQuery| may_see(tenant, &query.tenant);
                found.extend(found_in(&process, list.queries.into_iter().filter(allowed).collect()));
            }
            Err(reason) => unanswered.push(Unanswered { name: process, reason }),
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.query.elapsed));
    left_out = left_out.saturating_add(found.len().saturating_sub(QUERIES_MAX) as u64);
    found.truncate(QUERIES_MAX);
    Ok(RunningEverywhere { queries: found, left_out, answered, unanswered, memory })
}

/// Ends a query of any process.
pub async fn end_anywhere(
    queries: &Queries,
    processes: &dyn OtherProcesses,
    id: QueryId,
) -> Result<EndedQuery, Failure> {
    let absent = || Failure::new(ErrorKind::NotFound, format!("no query with the id {id} runs\n"));
    if id.process == processes.own().process {
        let ended = queries.open().end(id.number).ok_or_else(absent)?;
        return Ok(EndedQuery { tenant: ended.tenant.to_string(), text: ended.text.to_string() });
    }
    let other = processes.others().into_iter().find(|other| other.process == id.process);
    let other = other.ok_or_else(absent)?;
    match processes.end(&other, id.number).await {
        Ok(ended) => Ok(ended),
        Err(NotEnded::Gone) => Err(absent()),
        Err(NotEnded::NotAsked(reason)) => {
            let text = format!("the query of the node {} was not ended: {reason}\n", other.node);
            Err(Failure::new(ErrorKind::Unavailable, text))
        }
        Err(NotEnded::Unknown(reason)) => {
            let node = &other.node;
            let text = format!(
                "it is not known whether the query was ended: the node {node} did not answer: {reason}\n"
            );
            Err(Failure::new(ErrorKind::Unavailable, text).with_outcome(true))
        }
    }
}

/// The requests of each process to the store.
pub async fn usage_everywhere(
    processes: &dyn OtherProcesses,
) -> Vec<(ProcessName, Result<UsageShown, String>)> {
    let (asked, unanswered) = asked(processes.others());
    let answers = join_all(asked.iter().map(|process| processes.usage(process))).await;
    let own = (processes.own(), Ok(processes.own_usage()));
    let refused = unanswered.into_iter().map(|Unanswered { name, reason }| (name, Err(reason)));
    std::iter::once(own).chain(asked.into_iter().zip(answers)).chain(refused).collect()
}

/// Bytes of a query of this process in the list.
fn listed_bytes(query: &OpenQuery, own: &ProcessName) -> u64 {
    let texts = [query.tenant.as_str(), &*query.text, query.query_type, query.signal, &*query.user_agent];
    let texts = texts.iter().map(|text| text.len()).sum::<usize>() + own.node.len();
    // The list is made of a list of the queries alone.
    (size_of::<FoundQuery>() + size_of::<RunningQuery>() + texts) as u64
}

/// Divides processes into those that are asked and those beyond the bound.
fn asked(mut others: Vec<ProcessName>) -> (Vec<ProcessName>, Vec<Unanswered>) {
    let beyond = others.split_off(others.len().min(PROCESSES_MAX));
    let refused = |name| Unanswered { name, reason: format!("at most {PROCESSES_MAX} processes are asked") };
    (others, beyond.into_iter().map(refused).collect())
}

fn found_in(process: &ProcessName, queries: Vec<RunningQuery>) -> Vec<FoundQuery> {
    let found = |query: RunningQuery| FoundQuery {
        id: QueryId { process: process.process, number: query.number },
        node: process.node.clone(),
        query,
    };
    queries.into_iter().map(found).collect()
}
