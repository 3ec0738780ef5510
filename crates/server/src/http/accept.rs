//! The accept loop: connections with a bound on their number and on every kind of waiting.
//!
//! A client that sends no head, that stops in the middle of a body, or that does not read its answer
//! is cut off; it cannot hold more than one connection's buffers. When the server stops, idle
//! connections close at once and running requests get the drain timeout.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandur_base::{BoxFuture, Env, ShutdownSignal};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

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
    /// Accepts until the server stops, then waits for connections to end.
    pub async fn run(self, listener: TcpListener, router: Router) {
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
                        let serving = self.connection(stream, peer, router.clone());
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

    fn connection(&self, stream: TcpStream, peer: SocketAddr, router: Router) -> BoxFuture<'static, ()> {
        // Answers are written whole; waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.http.header_timeout)
            .max_buf_size(HEAD_BYTES_MAX + 8_192);
        let io = TimedStream {
            inner: stream,
            env: self.env.clone(),
            patience: self.http.write_idle_timeout,
            blocked: None,
        };
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request)
        });
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

/// A TCP stream whose writes fail when the client reads nothing for too long.
struct TimedStream {
    inner: TcpStream,
    env: Env,
    patience: Duration,
    blocked: Option<BoxFuture<'static, ()>>,
}

impl TimedStream {
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.blocked = None;
            return written;
        }
        let (env, patience) = (&self.env, self.patience);
        let timer = self.blocked.get_or_insert_with(|| {
            let env = env.clone();
            Box::pin(async move { env.sleep(patience).await })
        });
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
        Pin::new(&mut self.inner).poll_read(cx, buf)
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
    use prometheus_client::registry::Registry;
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
        let metrics = ServerMetrics::new(Registry::default());
        let acceptor = Acceptor { env: env.clone(), http, metrics, stop: shutdown.signal() };
        let slow = env.clone();
        let router = Router::new().route("/", get(|| async { "hello" })).route(
            "/slow",
            get(move || async move {
                slow.sleep(Duration::from_millis(100)).await;
                "done"
            }),
        );
        let task = env.spawn("acceptor", acceptor.run(listener, router));
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
