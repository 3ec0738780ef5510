//! Accepts connections of peers and answers their calls.
//!
//! **Bounds.** There are at most [`ServerBounds::connections`]; further ones are closed at once. A stranger holds a
//! connection for the time of a handshake and gets no byte. A peer that sends half a request, or does not read
//! its answer, loses its connection.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_runtime::{Env, ShutdownSignal};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::CallError;
use crate::handshake;
use crate::message::{Answer, REQUEST_BYTES_MAX, Request, decode_request};
use crate::metrics::{Call, PeerMetrics};
use crate::sealed::Sealed;
use crate::secret::ClusterSecret;

/// Answers the calls of other processes.
pub trait Answers: Send + Sync + 'static {
    /// Answers a call. It takes no longer than the caller's wait and a moment, and the answer is no larger than
    /// the request allows.
    fn answer(&self, request: Request) -> BoxFuture<'_, Answer>;
}

/// Bounds of a server.
#[derive(Clone, Debug)]
pub struct ServerBounds {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum time of a handshake, and of the rest of a request whose first byte arrived.
    pub request: Duration,
    /// Maximum time of sending an answer.
    pub answer: Duration,
    /// How long a connection may be idle.
    pub idle: Duration,
}

impl Default for ServerBounds {
    fn default() -> Self {
        Self {
            connections: 512,
            request: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            idle: Duration::from_secs(120),
        }
    }
}

/// Serves calls on one listener. Cheap to clone.
#[derive(Clone)]
pub struct PeerServer {
    env: Env,
    secret: ClusterSecret,
    bounds: ServerBounds,
    answers: Arc<dyn Answers>,
    metrics: PeerMetrics,
}

impl PeerServer {
    /// A server that answers with `answers`.
    pub fn new(env: Env, secret: ClusterSecret, bounds: ServerBounds, answers: Arc<dyn Answers>) -> Self {
        Self { env, secret, bounds, answers, metrics: PeerMetrics::default() }
    }

    /// Counts with these metrics.
    pub fn with_metrics(self, metrics: PeerMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Accepts connections until the process stops.
    pub async fn run(self, listener: TcpListener, stop: ShutdownSignal) {
        let places = Arc::new(Semaphore::new(self.bounds.connections));
        let mut open = Vec::new();
        loop {
            let accepted = tokio::select! {
                () = stop.triggered() => return,
                accepted = listener.accept() => accepted,
            };
            open.retain(|task: &sandur_runtime::Task<()>| !task.is_finished());
            match (accepted, Arc::clone(&places).try_acquire_owned()) {
                (Ok((stream, peer)), Ok(place)) => {
                    let _ = stream.set_nodelay(true);
                    let server = self.clone();
                    open.push(self.env.spawn("peer-connection", async move {
                        if let Err(error) = server.serve(stream, place).await {
                            tracing::debug!(%peer, %error, "the connection of a peer ended");
                        }
                    }));
                }
                (Ok((_, peer)), Err(_)) => tracing::debug!(%peer, "refused: all places of peers are taken"),
                (Err(error), _) => {
                    // No file descriptor is left, or the peer left early. Other connections stay open.
                    tracing::warn!(%error, "cannot accept a connection of a peer");
                    self.env.sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn serve<S>(&self, stream: S, _place: OwnedSemaphorePermit) -> Result<(), CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let opened = self.env.timeout(self.bounds.request, handshake::accept(stream, &self.secret)).await;
        let mut sealed = match opened.ok_or(CallError::Late)? {
            Ok(sealed) => sealed,
            Err(error) => {
                if matches!(error, CallError::Stranger) {
                    self.metrics.strangers.inc();
                }
                return Err(error);
            }
        };
        self.metrics.connections.inc();
        let ended = self.calls(&mut sealed).await;
        self.metrics.connections.dec();
        ended
    }

    /// Answers calls until the connection ends.
    async fn calls<S>(&self, sealed: &mut Sealed<S>) -> Result<(), CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        loop {
            let received = self.env.timeout(self.bounds.idle, sealed.receive(REQUEST_BYTES_MAX)).await;
            let Some(bytes) = received.ok_or(CallError::Late)?? else { return Ok(()) };
            let request = decode_request(&bytes)?;
            let name = request.name();
            let answer = match request {
                Request::Unknown => Answer::Unknown,
                request => self.answers.answer(request).await,
            };
            let outcome = match &answer {
                Answer::Frames { .. } | Answer::Pieces(_) => "ok",
                Answer::Gone => "gone",
                Answer::Busy => "busy",
                Answer::Unknown => "unknown",
            };
            self.metrics.answered.get_or_create(&Call::new(name, outcome)).inc();
            let parts = answer.encode();
            self.metrics.sent.inc_by(parts.iter().map(|part| part.len() as u64).sum());
            self.env.timeout(self.bounds.answer, sealed.send(&parts)).await.ok_or(CallError::Late)??;
        }
    }
}
