//! Answers the calls of peers on connections that a listener accepted.
//!
//! **Bounds.** There are at most [`ServerBounds::connections`]; further ones are closed at once. A stranger
//! holds a connection for the time of a handshake and gets no byte. A peer that sends half a request, or
//! does not read its answer, loses its connection.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_runtime::Env;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::failure::CallError;
use crate::handshake;
use crate::message::{Answer, REQUEST_BYTES_MAX, Request, decode_request};
use crate::metrics::{Call, PeerMetrics};
use crate::sealed::Sealed;
use crate::secret::ClusterSecret;

/// Answers the calls of other processes.
pub trait Answers: Send + Sync + 'static {
    /// Answers a call. It takes no longer than the caller's wait and a moment, and the answer is no larger
    /// than the request allows. The memory of the answer is held until it is sent.
    fn answer(&self, request: Request) -> BoxFuture<'_, (Answer, Option<Reservation>)>;
}

/// Bounds of a server.
#[derive(Clone, Debug)]
pub struct ServerBounds {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum time of a handshake.
    pub handshake: Duration,
    /// Maximum time of sending an answer.
    pub answer: Duration,
    /// How long a connection may take until its next request has arrived.
    pub idle: Duration,
}

impl Default for ServerBounds {
    fn default() -> Self {
        Self {
            connections: 512,
            handshake: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            idle: Duration::from_secs(120),
        }
    }
}

/// Serves calls. Cheap to clone.
#[derive(Clone)]
pub struct PeerServer {
    env: Env,
    secret: ClusterSecret,
    bounds: ServerBounds,
    answers: Arc<dyn Answers>,
    metrics: PeerMetrics,
    places: Arc<Semaphore>,
}

impl PeerServer {
    /// A server that answers with `answers`.
    pub fn new(env: Env, secret: ClusterSecret, bounds: ServerBounds, answers: Arc<dyn Answers>) -> Self {
        let (metrics, places) = (PeerMetrics::default(), Arc::new(Semaphore::new(bounds.connections)));
        Self { env, secret, bounds, answers, metrics, places }
    }

    /// Counts with these metrics.
    pub fn with_metrics(self, metrics: PeerMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Answers the calls of one connection until it ends.
    pub async fn serve<S>(&self, stream: S) -> Result<(), CallError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let Ok(_place) = self.places.try_acquire() else {
            return Err(CallError::Busy { address: "of this process".to_owned() });
        };
        let opened = self.env.timeout(self.bounds.handshake, handshake::accept(stream, &self.secret)).await;
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
            let (answer, _memory) = match request {
                Request::Unknown => (Answer::Unknown, None),
                request => self.answers.answer(request).await,
            };
            self.metrics.answered.get_or_create(&Call::new(name, answer.outcome())).inc();
            let parts = answer.encode();
            self.metrics.sent.inc_by(parts.iter().map(|part| part.len() as u64).sum());
            self.env.timeout(self.bounds.answer, sealed.send(&parts)).await.ok_or(CallError::Late)??;
        }
    }
}
