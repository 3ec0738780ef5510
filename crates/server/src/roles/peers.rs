//! Calls between this process and the other processes of the bucket: what the engine asks goes out, what the
//! others ask is answered from the engine.
//!
//! Without `cluster.secret_file` no process is called, and none is answered.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::registry::Registry;
use sandur_base::{BoxFuture, Id};
use sandur_config::Settings;
use sandur_engine::{AskedFrames, Engine, PeerFrames, Peers, StoreUsage};
use sandur_http::App;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_peers::{
    Answer, Answers, ClusterSecret, PIECES_MAX, PeerCaller, PeerMetrics, PeerQueries, PeerServer, PeerUsage,
    Request, ServerBounds,
};
use sandur_rules::{ANSWER_BYTES_MAX, RulesShown};
use sandur_runtime::{Env, Task};
use sandur_service::RunningQuery;
use sandur_service::query_log::OpenQueries;
use sandur_terminal::Failed;

use crate::memory::Shares;
use crate::roles::other_processes::{peer_query, tenant_of};
use crate::roles::rule_states::peer_rules;

/// Maximum bytes of frames in one answer. A larger frame is sent alone.
const FRAMES_BYTES_MAX: u64 = 8 << 20;
/// Maximum size of an answer with frames: a frame alone may have more than what was asked for.
const FRAMES_ANSWER_MAX: usize = 24 << 20;
/// Maximum size of the pieces of one answer.
const PIECES_BYTES_MAX: u64 = 16 << 20;
/// Bytes of an answer in addition to its pieces.
const PIECE_OVERHEAD: usize = 16;
/// Maximum size of a list of queries, and bytes of memory for each byte of it: the list and the message.
const LIST_BYTES_MAX: u64 = 1 << 20;
const LIST_MEMORY_FACTOR: u64 = 2;
/// The least size of a list of states of rules. If memory is short, a list has less than its caller allows.
const STATES_BYTES_MIN: u64 = 64 << 10;
/// How long a caller may wait for a frame.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How often the file of the secret is read again.
const SECRET_READ_EVERY: Duration = Duration::from_secs(10);

/// The calls of a process with a secret.
#[derive(Clone)]
pub struct PeerCalls {
    env: Env,
    path: PathBuf,
    secret: ClusterSecret,
    metrics: PeerMetrics,
    caller: PeerCaller,
    /// For calls of operators, whose patience is short: one that is late does not keep the engine from
    /// calling the address.
    for_operators: PeerCaller,
}

impl PeerCalls {
    /// Reads the secret; `None` if there is none.
    pub fn open(env: &Env, settings: &Settings) -> Result<Option<Self>, Failed> {
        if settings.cluster.secret_file.is_empty() {
            return Ok(None);
        }
        let path = PathBuf::from(&settings.cluster.secret_file);
        let secret = ClusterSecret::read(&path);
        let secret = secret.map_err(|e| Failed::new(format!("cluster.secret_file: {e}")))?;
        let metrics = PeerMetrics::default();
        let caller = PeerCaller::new(env.clone(), secret.clone(), metrics.clone());
        let for_operators = PeerCaller::new(env.clone(), secret.clone(), metrics.clone());
        Ok(Some(Self { env: env.clone(), path, secret, metrics, caller, for_operators }))
    }

    /// What the engine calls.
    pub fn peers(&self) -> Arc<dyn Peers> {
        Arc::new(CalledPeers { caller: self.caller.clone() })
    }

    /// Calls other processes for operators.
    pub fn caller_for_operators(&self) -> &PeerCaller {
        &self.for_operators
    }

    /// Answers from the engine, the list of running queries, and the states of rules. Answers that are being
    /// sent take memory of the pieces for peers.
    pub fn server(&self, engine: Arc<Engine>, shares: &Shares, app: &App) -> PeerServer {
        let (budget, open, rules) =
            (shares.pieces_for_peers(), app.queries.open().clone(), app.rules.clone());
        let answers = Arc::new(OwnAnswers { engine, budget, open, rules });
        let server = PeerServer::new(self.env.clone(), self.secret.clone(), ServerBounds::default(), answers);
        server.with_metrics(self.metrics.clone())
    }

    /// Reads the file again when it changes, until the task is dropped.
    pub fn follow(&self) -> Task<()> {
        let calls = self.clone();
        self.env.spawn("cluster secret", async move {
            let mut is_failing = false;
            loop {
                calls.env.sleep(SECRET_READ_EVERY).await;
                let path = calls.path.clone();
                match calls.env.run_blocking(move || ClusterSecret::read(&path)).await {
                    Ok(secret) => {
                        calls.secret.replace(secret);
                        is_failing = false;
                    }
                    Err(error) if !std::mem::replace(&mut is_failing, true) => {
                        tracing::error!(%error, "the secret of calls stays as it was");
                    }
                    Err(_) => {}
                }
            }
        })
    }

    /// Registers the counters of calls.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }
}

/// Other processes as the engine sees them.
struct CalledPeers {
    caller: PeerCaller,
}

impl fmt::Debug for CalledPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CalledPeers")
    }
}

impl Peers for CalledPeers {
    fn frames<'a>(
        &'a self,
        address: &'a str,
        AskedFrames { writer, from, wait, most_bytes }: AskedFrames,
        patience: Duration,
    ) -> BoxFuture<'a, Option<PeerFrames>> {
        Box::pin(async move {
            let request = Request::Frames { writer, from, wait, most_bytes };
            match self.caller.call(address, &request, patience, FRAMES_ANSWER_MAX).await {
                Ok(Answer::Frames { catalog, end, frames }) => Some(PeerFrames { catalog, end, frames }),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(address, %writer, %error, "a writer did not send its frames");
                    None
                }
            }
        })
    }

    fn pieces<'a>(
        &'a self,
        address: &'a str,
        (block, ranges): (Id, &'a [Range<u64>]),
        patience: Duration,
    ) -> BoxFuture<'a, Option<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            let bytes = bytes_of(ranges).filter(|_| ranges.len() <= PIECES_MAX)?;
            let most = usize::try_from(bytes).ok()? + PIECE_OVERHEAD * (ranges.len() + 1);
            let request = Request::Pieces { block, ranges: ranges.to_vec() };
            match self.caller.call(address, &request, patience, most).await {
                Ok(Answer::Pieces(pieces)) => Some(pieces),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(address, %block, %error, "an author did not send pieces of its block");
                    None
                }
            }
        })
    }
}

/// The bytes of all ranges; `None` if they are more than one answer may have.
fn bytes_of(ranges: &[Range<u64>]) -> Option<u64> {
    let bytes = ranges.iter().fold(0u64, |sum, range| sum.saturating_add(range.end - range.start));
    (bytes <= PIECES_BYTES_MAX).then_some(bytes)
}

/// This process as the answerer of calls.
struct OwnAnswers {
    engine: Arc<Engine>,
    budget: MemoryBudget,
    open: OpenQueries,
    rules: RulesShown,
}

impl OwnAnswers {
    /// The running queries of a tenant, or of all tenants.
    fn running(&self, tenant: Option<&str>, most_bytes: u64) -> (Answer, Option<Reservation>) {
        let most_bytes = most_bytes.min(LIST_BYTES_MAX);
        let Ok(memory) = self.budget.reserve(most_bytes * LIST_MEMORY_FACTOR) else {
            return (Answer::Busy, None);
        };
        let Ok(tenant) = tenant.map(tenant_of).transpose() else { return (Answer::Unknown, None) };
        let open = self.open.all(tenant.as_ref());
        let queries = open.iter().map(|query| peer_query(RunningQuery::from(query)));
        let list = PeerQueries::fitting(queries, usize::try_from(most_bytes).unwrap_or(usize::MAX));
        (Answer::Running(list), Some(memory))
    }

    fn end(&self, query: u64) -> Answer {
        let Some(ended) = self.open.end(query) else { return Answer::Absent };
        let (tenant, text) = (ended.tenant.as_str(), &*ended.text);
        tracing::warn!(id = query, tenant, query = text, "a query was ended for another process");
        Answer::Cancelled(peer_query(RunningQuery::from(&ended)))
    }

    fn usage(&self) -> Answer {
        let StoreUsage { requests, dollars, dollars_per_month } = self.engine.store_usage();
        Answer::Usage(PeerUsage { requests, dollars, dollars_per_month })
    }

    /// The states of the groups that this process evaluates, all or those with these fingerprints.
    async fn rules(
        &self,
        (tenant, wanted): (&str, Vec<u128>),
        without_alerts: bool,
        most_bytes: u64,
    ) -> (Answer, Option<Reservation>) {
        let Ok(tenant) = tenant_of(tenant) else { return (Answer::Unknown, None) };
        let Some((mut memory, most_bytes)) = self.room_for_states(most_bytes) else {
            return (Answer::Busy, None);
        };
        let (wanted, rules): (HashSet<u128>, _) = (wanted.into_iter().collect(), self.rules.clone());
        let list = move || {
            let mut groups = rules.own_groups(&tenant);
            groups.retain(|group| wanted.is_empty() || wanted.contains(&group.spec.fingerprint()));
            peer_rules((&tenant, &groups), without_alerts, most_bytes)
        };
        // A list of thousands of alerts would delay other calls.
        let list = self.engine.env().run_blocking(list).await;
        memory.shrink(memory.bytes().saturating_sub(list.len() as u64 * LIST_MEMORY_FACTOR));
        (Answer::Rules(list), Some(memory))
    }

    /// Reserves memory for a list of states, and returns its maximum size.
    fn room_for_states(&self, most_bytes: u64) -> Option<(Reservation, u64)> {
        let mut most_bytes = most_bytes.min(ANSWER_BYTES_MAX);
        loop {
            if let Ok(memory) = self.budget.reserve(most_bytes * LIST_MEMORY_FACTOR) {
                return Some((memory, most_bytes));
            }
            if most_bytes <= STATES_BYTES_MIN {
                return None;
            }
            most_bytes = (most_bytes / 2).max(STATES_BYTES_MIN);
        }
    }

    /// Whether this process is the one that the caller means.
    fn is(&self, process: Id) -> bool {
        self.engine.incarnation() == process
    }
}

impl Answers for OwnAnswers {
    fn answer(&self, request: Request) -> BoxFuture<'_, (Answer, Option<Reservation>)> {
        Box::pin(async move {
            match request {
                Request::Frames { writer, from, wait, most_bytes } => {
                    let bounds = (wait.min(WAIT_MAX), most_bytes.min(FRAMES_BYTES_MAX));
                    let found = self.engine.frames_for_peer(writer, from, bounds).await;
                    let shown = |PeerFrames { catalog, end, frames }| Answer::Frames { catalog, end, frames };
                    (found.map_or(Answer::Gone, shown), None)
                }
                Request::Pieces { block, ranges } => {
                    let memory = bytes_of(&ranges).and_then(|bytes| self.budget.reserve(bytes).ok());
                    match memory {
                        None => (Answer::Busy, None),
                        memory => (Answer::Pieces(self.engine.pieces_for_peer(block, &ranges).await), memory),
                    }
                }
                Request::Running { process, .. }
                | Request::Cancel { process, .. }
                | Request::Usage { process }
                | Request::Rules { process, .. }
                    if !self.is(process) =>
                {
                    (Answer::Gone, None)
                }
                Request::Running { tenant, most_bytes, .. } => self.running(tenant.as_deref(), most_bytes),
                Request::Cancel { query, .. } => (self.end(query), None),
                Request::Usage { .. } => (self.usage(), None),
                Request::Rules { tenant, groups, without_alerts, most_bytes, .. } => {
                    self.rules((&tenant, groups), without_alerts, most_bytes).await
                }
                Request::Unknown => (Answer::Unknown, None),
            }
        })
    }
}
