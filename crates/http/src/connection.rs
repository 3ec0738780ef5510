//! Serves one connection: TLS handshake, choice of HTTP version, and requests until it ends.
//!
//! The timeouts of HTTP/1 are in [`super::timed_stream`]. HTTP/2 multiplexes requests, so its timeouts
//! are in [`super::streams`], and pings detect clients that are gone.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use sandur_base::{BoxFuture, ErrorKind};
use sandur_config::Http;
use sandur_listeners::{Phase, Place};
use sandur_memory::{MemoryBudget, Reservation};
use sandur_peers::PeerServer;
use sandur_runtime::{Env, ShutdownSignal};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

use super::http2_heads::WatchedHeads;
use super::sniffed::{Sniffed, Start};
use super::streams::{InTask, Streams};
use super::timed_stream::TimedStream;
use super::tls::{ALPN_HTTP2, Tls};
use super::unread_body::watched;
use crate::failed_request::Failure;

/// Maximum size of the head of a request: request line and headers.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Concurrent requests of a connection: the minimum that RFC 9113 (6.5.2) recommends.
const STREAMS_MAX: u32 = 100;
/// HTTP/2 flow-control windows: bytes that a client may send ahead, for one request and for a connection.
/// They may have to be buffered, so they are reserved; if that fails, the connection gets the initial
/// window of RFC 9113 (6.9.2).
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;
const LEAST_WINDOW: u32 = 65_535;
/// Bytes of an answer that are buffered in the connection.
const SEND_BUFFER: usize = 16 << 10;
/// Requests that a client may reset before they were handled (rapid reset, CVE-2023-44487), and protocol
/// errors of its own that are answered with a reset, before the connection is closed.
const RESETS_MAX: usize = 20;
const FAULTS_MAX: usize = 100;
/// Interval of pings to a silent client, and time within which it must answer.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_PATIENCE: Duration = Duration::from_secs(20);

type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What serving one connection needs.
pub struct Connection {
    /// Clock, timers and tasks.
    pub env: Env,
    /// Timeouts and bounds of HTTP.
    pub http: Http,
    /// Triggered when the server stops.
    pub stop: ShutdownSignal,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Its place among the connections.
    pub place: Arc<Place>,
    /// What is served.
    pub served: Arc<Served>,
}

/// What a listener serves; unset until the server is ready.
#[derive(Default)]
pub struct Served {
    /// The routes.
    pub router: OnceLock<Router>,
    /// Calls of other processes of the cluster, if it has a secret.
    pub peers: OnceLock<PeerServer>,
}

/// A connection that has begun.
enum Begun {
    Peer(Sniffed<TcpStream>),
    Http1(Sniffed<TcpStream>),
    Http2(Sniffed<TcpStream>),
    Encrypted(Box<TlsStream<Sniffed<TcpStream>>>),
}

/// Waits for the first bytes, and for the handshake of TLS.
async fn begin(stream: TcpStream, tls: Option<Arc<Tls>>) -> io::Result<Begun> {
    let (start, stream) = Sniffed::look(stream).await?;
    match (start, tls) {
        (Start::Peer, _) => Ok(Begun::Peer(stream)),
        (_, Some(tls)) => Ok(Begun::Encrypted(Box::new(tls.accept(stream).await?))),
        (Start::Http2, None) => Ok(Begun::Http2(stream)),
        (Start::Other, None) => Ok(Begun::Http1(stream)),
    }
}

impl Connection {
    /// Serves requests until the client closes, a timeout passes, or the server stops.
    pub async fn serve(self, stream: TcpStream, tls: Option<Arc<Tls>>) -> Ended {
        // Answers are written in large pieces; Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let first = self.http.header_timeout;
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the client sends nothing");
        let begun = self.env.timeout(first, self.unless_stopped(begin(stream, tls))).await;
        match begun.ok_or_else(late)?? {
            Begun::Peer(stream) => self.peer(stream).await,
            Begun::Http1(stream) => self.http1(stream).await,
            Begun::Http2(stream) => self.http2(stream).await,
            Begun::Encrypted(stream) => match stream.get_ref().1.alpn_protocol() {
                Some(ALPN_HTTP2) => self.http2(stream).await,
                _ => self.http1(stream).await,
            },
        }
    }

    /// Answers calls of another process. Without the cluster's secret no byte is answered.
    async fn peer(self, stream: Sniffed<TcpStream>) -> Ended {
        let Some(peers) = self.served.peers.get() else {
            return Err("a peer called, and this process has no secret of a cluster".into());
        };
        self.place.set(Phase::Upgraded);
        tokio::select! {
            ended = peers.serve(stream) => Ok(ended?),
            () = self.stop.triggered() => Ok(()),
        }
    }

    /// Waits for the start of a connection, or until the server stops. No request was received, so there
    /// is nothing to finish.
    async fn unless_stopped<T>(&self, first: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        tokio::select! {
            outcome = first => outcome,
            () = self.stop.triggered() => Err(io::Error::other("the server stops")),
        }
    }

    /// Starts answering a request.
    fn answer(&self, mut request: Request<Body>) -> impl Future<Output = Response> + Send + use<> {
        request.extensions_mut().insert(self.peer);
        let answering = match self.served.router.get() {
            Some(router) => Either::Left(router.clone().oneshot(request)),
            None => Either::Right(std::future::ready(Ok::<_, Infallible>(not_ready()))),
        };
        async move { answering.await.unwrap_or_else(|never| match never {}) }
    }

    async fn http1<S>(self, stream: S) -> Ended
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (stop, place) = (self.stop.clone(), Arc::clone(&self.place));
        let io = TimedStream::new(stream, self.env.clone(), &self.http, Arc::clone(&place));
        let service = service_fn(move |request: Request<Incoming>| {
            place.set(Phase::Request);
            let (head, body) = request.into_parts();
            let waits_to_send = head.headers.contains_key(header::EXPECT);
            let (body, rest) = watched(body);
            let answering = self.answer(Request::from_parts(head, body));
            let (env, place) = (self.env.clone(), Arc::clone(&place));
            async move {
                let mut answer = answering.await;
                let upgraded = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
                let is_read = match rest {
                    None => true,
                    // Reading would make hyper send `100 Continue`, which requests the body.
                    Some(rest) if waits_to_send => rest.leave(),
                    Some(rest) => rest.read_out(&env).await,
                };
                if !is_read {
                    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    place.leave_unread();
                }
                place.set(if upgraded { Phase::Upgraded } else { Phase::Answer });
                Ok::<_, Infallible>(answer)
            }
        });
        let mut builder = http1::Builder::new();
        // [`TimedStream`] times the head: hyper would count idle connections as slow heads.
        builder.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX + 8_192);
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service).with_upgrades());
        tokio::select! {
            ended = serving.as_mut() => Ok(ended?),
            () = stop.triggered() => {
                serving.as_mut().graceful_shutdown();
                Ok(serving.await?)
            }
        }
    }

    async fn http2<S>(self, stream: S) -> Ended
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (env, stop, idle_timeout) = (self.env.clone(), self.stop.clone(), self.http.idle_timeout);
        let streams = Streams::new(env.clone(), &self.http, Arc::clone(&self.place));
        let look_every = idle_timeout.min(self.http.write_idle_timeout) / 4;
        let (begin, mut begun) = mpsc::unbounded_channel::<BoxFuture<'static, ()>>();
        let windows = windows(self.place.heads());
        let builder = http2_builder(InTask(begin), windows.is_some());
        let of_service = streams.clone();
        let (place, max_heads) = (Arc::clone(&self.place), HEAD_BYTES_MAX as u64);
        let service = service_fn(move |request: Request<Incoming>| {
            let answering = match of_service.begin(head_bytes(&request)) {
                Ok(stream) => Ok((self.answer(request.map(Body::new)), stream)),
                Err(refusal) => Err(Failure::new(ErrorKind::Busy, format!("{refusal}\n"))),
            };
            async move {
                Ok::<_, Infallible>(match answering {
                    Ok((answering, stream)) => answering.await.map(|body| stream.answers(body)),
                    Err(refused) => refused.into_response(),
                })
            }
        });
        let watched = WatchedHeads::new(stream, place, max_heads);
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(watched), service));
        let mut running = FuturesUnordered::new();
        let mut look = std::pin::pin!(env.sleep(look_every));
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = serving.as_mut() => return Ok(ended?),
                Some(request) = begun.recv() => running.push(request),
                Some(()) = running.next() => {}
                () = stop.triggered(), if !stopping => {
                    stopping = true;
                    serving.as_mut().graceful_shutdown();
                }
                () = look.as_mut() => {
                    look.set(env.sleep(look_every));
                    if streams.is_stuck() {
                        return Err("the client reads an answer too slowly".into());
                    }
                    if streams.idle() >= idle_timeout {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Size of the head of a request by the rule of RFC 9113 (6.5.2): its bytes, and 32 for each field.
fn head_bytes(request: &Request<Incoming>) -> u64 {
    let (headers, uri) = (request.headers(), request.uri());
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
    (fields.sum::<usize>() + path + 4 * 32) as u64
}

/// Reserves the flow-control windows of a connection, if at least half of the budget stays free for heads
/// of requests.
fn windows(heads: &MemoryBudget) -> Option<Reservation> {
    let window = u64::from(CONNECTION_WINDOW);
    let is_enough = heads.available() >= heads.limit() / 2 + window;
    is_enough.then(|| heads.reserve(window).ok()).flatten()
}

fn http2_builder(executor: InTask, has_windows: bool) -> http2::Builder<InTask> {
    let mut builder = http2::Builder::new(executor);
    let (of_stream, of_all) =
        if has_windows { (STREAM_WINDOW, CONNECTION_WINDOW) } else { (LEAST_WINDOW, LEAST_WINDOW) };
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(of_stream)
        .initial_connection_window_size(of_all)
        .max_send_buf_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(FAULTS_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE);
    builder
}

fn not_ready() -> Response {
    Failure::new(ErrorKind::Unavailable, "not ready: the server is starting\n").into_response()
}
