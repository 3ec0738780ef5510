//! The running requests of an HTTP/2 connection, and how long each waits for its client.
//!
//! A running request reserves the memory of its head, since a connection may have a hundred requests.
//! Each runs in the task of the connection, so that none outlives it. Answers are sent in pieces, and the
//! client must accept each piece within a timeout: a client that does not read, or reads a little now and
//! then, cannot hold an answer in memory.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use sandur_base::BoxFuture;
use sandur_config::Http;
use sandur_listeners::{Phase, Place};
use sandur_memory::{OverBudget, Reservation};
use sandur_runtime::Env;
use sandur_service::writes::RATE_WINDOW;
use tokio::sync::mpsc;

/// Maximum bytes of a piece of an answer.
const PIECE_BYTES: usize = 16 << 10;

/// Executor that runs the requests of a connection in its task.
#[derive(Clone)]
pub struct InTask(pub mpsc::UnboundedSender<BoxFuture<'static, ()>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InTask {
    fn execute(&self, request: F) {
        // The receiver is dropped only when the connection ends.
        let _ = self.0.send(Box::pin(request));
    }
}

/// The requests of a connection whose answers are not complete.
#[derive(Clone)]
pub struct Streams {
    env: Env,
    place: Arc<Place>,
    /// Time within which a client must accept a piece.
    patience: Duration,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// Since when each request waits for its client; `None` until the server answers.
    waiting: BTreeMap<u64, Option<Duration>>,
    idle_since: Duration,
}

impl Streams {
    /// For a new connection.
    pub fn new(env: Env, http: &Http, place: Arc<Place>) -> Self {
        // The time that a piece takes at the minimum rate, but at least a window of measurement.
        let by_rate = Duration::from_secs(PIECE_BYTES as u64 / http.min_client_rate.max(1)).max(RATE_WINDOW);
        let open = Open { idle_since: env.monotonic(), ..Open::default() };
        Self { env, place, patience: http.write_idle_timeout.min(by_rate), open: Arc::new(Mutex::new(open)) }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request; fails when there is no memory for its head.
    pub fn begin(&self, head_bytes: u64) -> Result<Stream, OverBudget> {
        let head = self.place.heads().reserve(head_bytes)?;
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.waiting.insert(number, None);
        self.place.set(Phase::Request);
        Ok(Stream { of: self.clone(), number, _head: head })
    }

    /// Whether a client has not accepted a piece of an answer for too long.
    pub fn is_stuck(&self) -> bool {
        let now = self.env.monotonic();
        let late = |since: &Option<Duration>| since.is_some_and(|s| now.saturating_sub(s) > self.patience);
        self.open().waiting.values().any(late)
    }

    /// For how long there has been no request.
    pub fn idle(&self) -> Duration {
        let open = self.open();
        if open.waiting.is_empty() {
            self.env.monotonic().saturating_sub(open.idle_since)
        } else {
            Duration::ZERO
        }
    }
}

/// One request, until its answer is sent or the client cancels it.
pub struct Stream {
    of: Streams,
    number: u64,
    _head: Reservation,
}

impl Stream {
    /// Notes that a piece waits for the client from now on.
    fn waits(&self) {
        let now = self.of.env.monotonic();
        self.of.open().waiting.insert(self.number, Some(now));
    }

    /// The body of the answer, cut into pieces.
    pub fn answers(self, body: Body) -> Body {
        self.waits();
        Body::new(Pieces { body, rest: Bytes::new(), stream: self })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let now = self.of.env.monotonic();
        let mut open = self.of.open();
        open.waiting.remove(&self.number);
        if open.waiting.is_empty() {
            open.idle_since = now;
            self.of.place.set(Phase::Idle);
        }
    }
}

/// The body of an answer in pieces. hyper polls it when the client can receive more.
struct Pieces {
    body: Body,
    rest: Bytes,
    stream: Stream,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.stream.waits();
        if self.rest.is_empty() {
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use sandur_memory::MemoryBudget;

    use sandur_listeners::ConnectionCounts;

    use super::*;
    use sandur_config::Settings;
    use sandur_listeners::Connections;

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_counts_as_stuck_but_a_running_request_does_not() {
        let (env, http) = (Env::simulated(1, 0), Settings::default().http);
        let heads = MemoryBudget::root("heads", 1 << 20);
        let connections = Connections::new(env.clone(), (10, 10), heads, ConnectionCounts::default());
        let place = Arc::new(connections.admit([10, 0, 0, 1].into()).await.unwrap());
        let streams = Streams::new(env.clone(), &http, Arc::clone(&place));
        let begin = |bytes| streams.begin(bytes).ok();
        let (slow, fast) = (begin(600 << 10).unwrap(), begin(1_000).unwrap());
        assert!(begin(600 << 10).is_none(), "heads of running requests are reserved");
        env.sleep(Duration::from_secs(3_600)).await;
        assert!(!streams.is_stuck() && streams.idle() == Duration::ZERO, "the server has not answered yet");
        assert_eq!(place.phase(), Phase::Request);
        drop(fast);
        let mut answer = slow.answers(Body::from(vec![7; 40_000]));
        let mut lengths = Vec::new();
        for _ in 0..3 {
            env.sleep(streams.patience / 2).await;
            assert!(!streams.is_stuck(), "the client reads");
            lengths.push(answer.frame().await.unwrap().unwrap().into_data().unwrap().len());
        }
        assert_eq!(lengths, [16_384, 16_384, 7_232]);
        env.sleep(streams.patience + Duration::from_secs(1)).await;
        assert!(streams.is_stuck());
        drop(answer);
        assert!(!streams.is_stuck() && place.phase() == Phase::Idle);
        env.sleep(Duration::from_secs(5)).await;
        assert_eq!(streams.idle(), Duration::from_secs(5));
    }
}
