//! Calls between this process and the other processes of the bucket: what the engine asks goes out, what the
//! others ask is answered from the engine.
//!
//! Without `cluster.secret_file` no process is called, and none is answered.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::registry::Registry;
use sandur_base::{BoxFuture, Id};
use sandur_config::Settings;
use sandur_engine::{AskedFrames, Engine, PeerFrames, Peers};
use sandur_memory::{MemoryBudget, Reservation};
use sandur_peers::{
    Answer, Answers, ClusterSecret, PIECES_MAX, PeerCaller, PeerMetrics, PeerServer, Request, ServerBounds,
};
use sandur_runtime::{Env, Task};
use sandur_terminal::Failed;

/// Bytes of frames that are asked for at once.
const FRAMES_BYTES: u64 = 4 << 20;
/// Maximum size of an answer with frames: a frame alone may have more than what was asked for.
const FRAMES_ANSWER_MAX: usize = 24 << 20;
/// Maximum size of the pieces of one answer.
const PIECES_BYTES_MAX: u64 = 16 << 20;
/// Bytes of an answer in addition to its pieces.
const PIECE_OVERHEAD: usize = 16;
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
        Ok(Some(Self { env: env.clone(), path, secret, metrics: PeerMetrics::default() }))
    }

    /// What the engine calls.
    pub fn peers(&self) -> Arc<dyn Peers> {
        let caller = PeerCaller::new(self.env.clone(), self.secret.clone(), self.metrics.clone());
        Arc::new(CalledPeers { caller })
    }

    /// Answers from the engine. Pieces that are being sent take memory of `budget`.
    pub fn server(&self, engine: Arc<Engine>, budget: MemoryBudget) -> PeerServer {
        let answers = Arc::new(EngineAnswers { engine, budget });
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
        AskedFrames { writer, from, wait }: AskedFrames,
        patience: Duration,
    ) -> BoxFuture<'a, Option<PeerFrames>> {
        Box::pin(async move {
            let request = Request::Frames { writer, from, wait, most_bytes: FRAMES_BYTES };
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

/// The engine as the answerer of calls.
struct EngineAnswers {
    engine: Arc<Engine>,
    budget: MemoryBudget,
}

impl Answers for EngineAnswers {
    fn answer(&self, request: Request) -> BoxFuture<'_, (Answer, Option<Reservation>)> {
        Box::pin(async move {
            match request {
                Request::Frames { writer, from, wait, most_bytes } => {
                    let bounds = (wait.min(WAIT_MAX), most_bytes.min(FRAMES_BYTES));
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
                Request::Unknown => (Answer::Unknown, None),
            }
        })
    }
}
