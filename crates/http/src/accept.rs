//! Accepts connections, bounds their number, and sets a timeout on every wait for a client.
//!
//! The server closes the connection of a client that sends no head, stops in the middle of a body, or
//! does not read its answer; such a client holds at most the buffers of one connection. Before the server
//! is ready it answers every request with 503. When the server stops, it closes idle connections immediately
//! and gives running requests the drain timeout.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream, StreamExt, unfold};
use sandur_base::BoxFuture;
use sandur_config::Http;
use sandur_listeners::{Connections, Place};
use sandur_runtime::{Env, ShutdownSignal};
use tokio::net::{TcpListener, TcpStream};

use super::connection::{Connection, Served};
use super::tls::Tls;
use crate::server_metrics::ServerMetrics;

/// The accept loop of one listener.
pub struct Acceptor {
    /// Clock, randomness, tasks and CPU pool.
    pub env: Env,
    /// Timeouts and bounds of HTTP.
    pub http: Http,
    /// Bounds the number of connections, in total and per address.
    pub connections: Connections,
    /// Counters of the server.
    pub metrics: ServerMetrics,
    /// TLS; `None` for a listener of plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// Triggered when the server stops.
    pub stop: ShutdownSignal,
}

impl Acceptor {
    /// Accepts connections until the server stops, then waits for them to end, for at most the drain
    /// timeout. Until its router is set, requests get 503.
    pub async fn run(self, listener: TcpListener, served: Arc<Served>) {
        let mut open: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        let mut accepted = Box::pin(self.accepted(&listener));
        loop {
            tokio::select! {
                () = self.stop.triggered() => break,
                Some(()) = open.next() => {}
                Some(next) = accepted.next() => match next {
                    Ok((stream, peer, Some(place))) => {
                        let serving = self.connection(stream, peer, Arc::new(place), Arc::clone(&served));
                        let task = self.env.spawn("connection", serving);
                        open.push(Box::pin(async move { drop(task.join().await) }));
                    }
                    Ok((_, peer, None)) => {
                        tracing::debug!(%peer, "refused: http.max_connections_per_address is reached");
                    }
                    Err(error) => {
                        // The process has no file descriptor left, or the client left early. Other
                        // connections stay open.
                        tracing::warn!(%error, "cannot accept a connection");
                        self.env.sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
        drop(accepted);
        drop(listener);
        let all = async { while open.next().await.is_some() {} };
        if self.env.timeout(self.http.drain_timeout, all).await.is_none() {
            tracing::warn!(open = open.len(), "closing connections still busy after http.drain_timeout");
        }
    }

    /// Yields each accepted connection with its place; without a place if its address has none left. This
    /// is a stream because a connection that was accepted must not be lost while it waits for a place.
    fn accepted<'a>(
        &'a self,
        listener: &'a TcpListener,
    ) -> impl Stream<Item = io::Result<(TcpStream, SocketAddr, Option<Place>)>> + 'a {
        unfold((), async move |()| {
            let next = async {
                let (stream, peer) = listener.accept().await?;
                Ok((stream, peer, self.connections.admit(peer.ip()).await))
            };
            Some((next.await, ()))
        })
    }

    fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        place: Arc<Place>,
        served: Arc<Served>,
    ) -> BoxFuture<'static, ()> {
        let (env, http, stop) = (self.env.clone(), self.http.clone(), self.stop.clone());
        let connection = Connection { env, http, stop, peer, place: Arc::clone(&place), served };
        let (gauge, tls) = (self.metrics.connections.clone(), self.tls.clone());
        Box::pin(async move {
            gauge.inc();
            let ended = tokio::select! {
                ended = connection.serve(stream, tls) => ended,
                () = place.evicted() => Ok(()),
            };
            gauge.dec();
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "connection ended");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use sandur_runtime::Shutdown;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use sandur_config::Settings;

    use sandur_memory::MemoryBudget;

    async fn start(change: impl FnOnce(&mut Http)) -> (SocketAddr, Shutdown, sandur_runtime::Task<()>) {
        let env = Env::system(1);
        let mut http = Settings::default().http;
        http.header_timeout = Duration::from_millis(50);
        change(&mut http);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::default();
        let metrics = ServerMetrics::default();
        let (heads, most) = (MemoryBudget::root("heads", 1 << 20), http.max_connections);
        let per_address = http.max_connections_per_address;
        let connections =
            Connections::new(env.clone(), (most, per_address), heads, metrics.admission.clone());
        let acceptor =
            Acceptor { env: env.clone(), http, connections, metrics, tls: None, stop: shutdown.signal() };
        let slow = env.clone();
        let router = Router::new().route("/", get(|| async { "hello" })).route(
            "/slow",
            get(move || async move {
                slow.sleep(Duration::from_millis(100)).await;
                "done"
            }),
        );
        let served = Served { router: router.into(), ..Served::default() };
        let task = env.spawn("acceptor", acceptor.run(listener, Arc::new(served)));
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
    async fn connections_without_a_complete_head_are_closed() {
        let (address, _shutdown, _task) = start(|_| ()).await;
        for sent in [&b""[..], b"P", b"GET / HTTP/1.1\r\nHost: x\r\n"] {
            let answer = exchange(address, sent).await;
            assert!(!answer.contains("200 OK"), "{answer}");
        }
        let answer = exchange(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(answer.ends_with("hello"), "{answer}");
    }

    #[tokio::test]
    async fn an_idle_connection_may_outlast_the_header_timeout() {
        let env = Env::system(1);
        let (address, _shutdown, _task) = start(|http| http.idle_timeout = Duration::from_secs(3_600)).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answer = [0u8; 4_096];
        for _ in 0..2 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let read = stream.read(&mut answer).await.unwrap();
            assert!(answer[..read].ends_with(b"hello"));
            env.sleep(Duration::from_millis(150)).await; // longer than the header timeout
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_idle_for_too_long_is_closed() {
        let (address, _shutdown, _task) = start(|http| http.idle_timeout = Duration::from_millis(50)).await;
        let answers = exchange(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(answers.ends_with("hello"), "{answers}");
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

    /// Yields so often that the server handles all bytes that it received.
    async fn turns() {
        for _ in 0..2_000 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn after_a_refused_request_with_a_short_body_the_connection_is_reused() {
        let (address, _shutdown, _task) = start(|_| ()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n").await.unwrap();
        turns().await;
        stream.write_all(b"some body").await.unwrap();
        turns().await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.unwrap();
        assert!(answers.starts_with("HTTP/1.1 404") && answers.ends_with("hello"), "{answers}");
    }

    /// A socket that is closed with unread bytes is reset, and the client would not see the answer.
    #[tokio::test]
    async fn a_client_that_sends_a_long_body_reads_why_it_was_refused() {
        const LENGTH: usize = 8 << 20;
        let (address, _shutdown, _task) = start(|_| ()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        turns().await;
        for _ in 0..LENGTH / (64 << 10) {
            stream.write_all(&[b'x'; 64 << 10]).await.unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("connection: close"), "{answer}");
    }

    #[tokio::test]
    async fn a_client_that_expects_100_continue_is_refused_before_it_sends_its_body() {
        let (address, _shutdown, _task) = start(|_| ()).await;
        let head = b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 404");
        stream.shutdown().await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert!(rest.contains("connection: close"), "{rest}");
    }

    /// Idle connections must give up their places: 4,096 of them would otherwise refuse all other clients
    /// until they time out.
    #[tokio::test]
    async fn idle_connections_give_up_their_places_for_new_ones() {
        let (address, _shutdown, _task) = start(|http| {
            http.max_connections = 4;
            http.max_connections_per_address = 4;
            http.header_timeout = Duration::from_secs(3_600);
            http.idle_timeout = Duration::from_secs(3_600);
        })
        .await;
        let mut holders = Vec::new();
        for sent in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b""] {
            let mut holder = TcpStream::connect(address).await.unwrap();
            holder.write_all(sent).await.unwrap();
            holders.push(holder);
        }
        for _ in 0..8 {
            let answer = exchange(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
            assert!(answer.ends_with("hello"), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_busy_connection_is_not_closed_for_a_newcomer() {
        let (address, _shutdown, _task) = start(|http| {
            http.max_connections = 2;
            http.max_connections_per_address = 2;
        })
        .await;
        let request = b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let answers = futures_util::future::join_all((0..2).map(|_| exchange(address, request))).await;
        assert!(answers.iter().all(|answer| answer.ends_with("done")), "{answers:?}");
    }
}
