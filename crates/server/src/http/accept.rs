//! The accept loop: connections with a bound on their number and on every kind of waiting.
//!
//! A client that sends no head, that stops in the middle of a body, or that does not read its answer
//! is cut off; it cannot hold more than one connection's buffers. Before the server is ready every
//! request is answered with 503. When it stops, idle connections close at once and running requests
//! get the drain timeout.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::Either;
use futures_util::stream::FuturesUnordered;
use futures_util::task::AtomicWaker;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandur_base::{BoxFuture, Env, ErrorKind, ShutdownSignal};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use super::failure::Failure;
use super::metrics::ServerMetrics;
use crate::config::Http;

/// Largest head of a request: request line and headers.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What the loop needs.
pub struct Acceptor {
    /// The world.
    pub env: Env,
    /// Timeouts and bounds.
    pub http: Http,
    /// Counters.
    pub metrics: ServerMetrics,
    /// Triggered when the server stops.
    pub stop: ShutdownSignal,
}

impl Acceptor {
    /// Accepts until the server stops, then waits for connections to end. Requests go to the router once
    /// there is one.
    pub async fn run(self, listener: TcpListener, router: Arc<OnceLock<Router>>) {
        let slots = Arc::new(Semaphore::new(self.http.max_connections.max(1) as usize));
        let mut open: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        loop {
            let accepted = async {
                let slot = Arc::clone(&slots).acquire_owned().await;
                (slot.expect("the semaphore is never closed"), listener.accept().await)
            };
            tokio::select! {
                () = self.stop.triggered() => break,
                Some(()) = open.next() => {}
                (slot, accepted) = accepted => match accepted {
                    Ok((stream, peer)) => {
                        let serving = self.connection(stream, peer, Arc::clone(&router));
                        let task = self.env.spawn("connection", async move {
                            serving.await;
                            drop(slot);
                        });
                        open.push(Box::pin(async move { drop(task.join().await) }));
                    }
                    Err(error) => {
                        // Out of file descriptors, or a client that left early: others go on.
                        tracing::warn!(%error, "cannot accept a connection");
                        self.env.sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        drop(listener);
        let all = async { while open.next().await.is_some() {} };
        if self.env.timeout(self.http.drain_timeout, all).await.is_none() {
            tracing::warn!(open = open.len(), "cutting off requests that did not end in http.drain_timeout");
        }
    }

    fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        router: Arc<OnceLock<Router>>,
    ) -> BoxFuture<'static, ()> {
        // Answers are written whole; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let phase = Arc::new(Phase::default());
        let io = TimedStream::new(stream, self.env.clone(), &self.http, Arc::clone(&phase));
        let service = service_fn(move |request: Request<Incoming>| {
            phase.set(Phase::REQUEST);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            let answering = match router.get() {
                Some(router) => Either::Left(router.clone().oneshot(request)),
                None => Either::Right(std::future::ready(Ok::<_, Infallible>(not_ready()))),
            };
            let phase = Arc::clone(&phase);
            async move {
                let answer = answering.await;
                let upgraded = answer.as_ref().is_ok_and(|a| a.status() == StatusCode::SWITCHING_PROTOCOLS);
                phase.set(if upgraded { Phase::UPGRADED } else { Phase::IDLE });
                answer
            }
        });
        let mut builder = http1::Builder::new();
        // The stream itself watches the head: hyper would count idle connections as slow heads.
        builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX + 8_192);
        let (stop, gauge) = (self.stop.clone(), self.metrics.connections.clone());
        let serving = builder.serve_connection(TokioIo::new(io), service).with_upgrades();
        Box::pin(async move {
            gauge.inc();
            let mut serving = std::pin::pin!(serving);
            let ended = tokio::select! {
                ended = serving.as_mut() => ended,
                () = stop.triggered() => {
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            };
            gauge.dec();
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "connection ended");
            }
        })
    }
}

fn not_ready() -> Response {
    Failure::new(ErrorKind::Unavailable, "not ready: the server is starting\n").into_response()
}

/// What a connection is doing, as the service sees it.
#[derive(Default)]
struct Phase {
    now: AtomicU8,
    /// The connection's task, which must look at the stream again when an answer is complete: it
    /// does not by itself, and the time between requests would never be measured.
    reader: AtomicWaker,
}

impl Phase {
    /// Nothing was received yet.
    const NEW: u8 = 0;
    /// Between requests.
    const IDLE: u8 = 1;
    /// A head is being received.
    const HEAD: u8 = 2;
    /// A request is being answered; its body has a timeout of its own.
    const REQUEST: u8 = 3;
    /// A websocket now, which has timeouts of its own.
    const UPGRADED: u8 = 4;

    fn get(&self) -> u8 {
        self.now.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        self.now.store(phase, Ordering::Relaxed);
        if phase == Self::IDLE {
            self.reader.wake();
        }
    }
}

/// A TCP stream that fails when the client takes too long: to send a head, to send the next request,
/// or to read an answer.
struct TimedStream {
    inner: TcpStream,
    env: Env,
    phase: Arc<Phase>,
    header_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
    /// Runs while a read waits, for the phase beside it.
    reading: Option<(u8, BoxFuture<'static, ()>)>,
    /// Runs while a write waits.
    writing: Option<BoxFuture<'static, ()>>,
}

impl TimedStream {
    fn new(inner: TcpStream, env: Env, http: &Http, phase: Arc<Phase>) -> Self {
        Self {
            inner,
            env,
            phase,
            header_timeout: http.header_timeout,
            idle_timeout: http.idle_timeout,
            write_timeout: http.write_idle_timeout,
            reading: None,
            writing: None,
        }
    }

    fn timer(&self, length: Duration) -> BoxFuture<'static, ()> {
        let env = self.env.clone();
        Box::pin(async move { env.sleep(length).await })
    }

    /// Bytes came: between requests they are the start of a head, whose time begins now.
    fn received(&mut self) {
        if matches!(self.phase.get(), Phase::NEW | Phase::IDLE) {
            self.phase.set(Phase::HEAD);
            self.reading = Some((Phase::HEAD, self.timer(self.header_timeout)));
        }
    }

    /// Nothing came: whether that has been so for too long.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.phase.get();
        let patience = match phase {
            Phase::NEW | Phase::HEAD => self.header_timeout,
            Phase::IDLE => self.idle_timeout,
            _ => {
                self.reading = None;
                self.phase.reader.register(cx.waker());
                return Poll::Pending;
            }
        };
        if self.reading.as_ref().is_none_or(|(of, _)| *of != phase) {
            self.reading = Some((phase, self.timer(patience)));
        }
        let Some((_, timer)) = &mut self.reading else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sends nothing")))
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        if self.writing.is_none() {
            self.writing = Some(self.timer(self.write_timeout));
        }
        let Some(timer) = &mut self.writing else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Pending => self.poll_silence(cx),
            Poll::Ready(result) => {
                if buf.filled().len() > before {
                    self.received();
                }
                Poll::Ready(result)
            }
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use sandur_base::Shutdown;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::config::Settings;

    async fn start(change: impl FnOnce(&mut Http)) -> (SocketAddr, Shutdown, sandur_base::Task<()>) {
        let env = Env::system(1);
        let mut http = Settings::default().http;
        http.header_timeout = Duration::from_millis(50);
        change(&mut http);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::default();
        let metrics = ServerMetrics::default();
        let acceptor = Acceptor { env: env.clone(), http, metrics, stop: shutdown.signal() };
        let slow = env.clone();
        let router = Router::new().route("/", get(|| async { "hello" })).route(
            "/slow",
            get(move || async move {
                slow.sleep(Duration::from_millis(100)).await;
                "done"
            }),
        );
        let cell = Arc::new(OnceLock::from(router));
        let task = env.spawn("acceptor", acceptor.run(listener, cell));
        (address, shutdown, task)
    }

    async fn exchange(address: SocketAddr, send: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(send).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn silent_and_half_heads_are_cut_off() {
        let (address, _shutdown, _task) = start(|_| ()).await;
        for sent in [&b""[..], b"P", b"GET / HTTP/1.1\r\nHost: x\r\n"] {
            let answer = exchange(address, sent).await;
            assert!(!answer.contains("200 OK"), "{answer}");
        }
        let answer = exchange(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(answer.ends_with("hello"), "{answer}");
    }

    #[tokio::test]
    async fn an_idle_connection_may_take_longer_than_a_head() {
        let (address, _shutdown, _task) = start(|http| http.idle_timeout = Duration::from_millis(400)).await;
        let env = Env::system(1);
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answer = [0u8; 4_096];
        for _ in 0..2 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let read = stream.read(&mut answer).await.unwrap();
            assert!(answer[..read].ends_with(b"hello"));
            env.sleep(Duration::from_millis(150)).await; // longer than the header timeout
        }
        let began = env.monotonic();
        assert_eq!(stream.read(&mut answer).await.unwrap_or(0), 0, "idle for too long");
        assert!(env.monotonic() - began < Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_running_request_is_answered_before_the_server_stops() {
        let (address, shutdown, task) = start(|_| ()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut first = [0u8; 1];
        idle.read_exact(&mut first).await.unwrap();
        shutdown.trigger();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("done"), "{text}");
        task.join().await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn connections_beyond_the_bound_wait() {
        let (address, _shutdown, _task) = start(|http| {
            http.max_connections = 1;
            http.header_timeout = Duration::from_millis(100);
        })
        .await;
        let _holder = TcpStream::connect(address).await.unwrap();
        // The holder says nothing and is cut off; only then this one is served.
        let answer = exchange(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(answer.ends_with("hello"), "{answer}");
    }
}
