//! Calls other processes, over connections that are kept for the next call.
//!
//! **Bounds.** An address has at most [`CONNECTIONS_MAX`] connections, of which [`IDLE_MAX`] are kept. At
//! most [`HOSTS_MAX`] addresses are known; one that has no open call makes room for a new one. After a
//! failure an address is not called for a while, so that a process that is gone costs others one attempt in
//! many seconds.
//!
//! **Invariant.** A connection is used again only after a complete answer: a call that was given up closes
//! its connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_runtime::{Backoff, Env};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::CallError;
use crate::handshake;
use crate::message::{Answer, Request, decode_answer};
use crate::metrics::{Call, PeerMetrics};
use crate::sealed::Sealed;
use crate::secret::ClusterSecret;

/// Maximum number of connections to an address.
const CONNECTIONS_MAX: usize = 16;
/// Idle connections to an address that are kept.
const IDLE_MAX: usize = 4;
/// How long an idle connection is kept: less than the server keeps it.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum number of addresses.
const HOSTS_MAX: usize = 1_024;
/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(1);
/// How long an address is not called after failures.
const QUIET: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// Calls other processes. Cheap to clone.
#[derive(Clone)]
pub struct PeerCaller(Arc<Inner>);

struct Inner {
    env: Env,
    secret: ClusterSecret,
    metrics: PeerMetrics,
    hosts: Mutex<HashMap<String, Host>>,
}

/// What is known of an address.
struct Host {
    places: Arc<Semaphore>,
    idle: Vec<Idle>,
    /// Failures since the last answer.
    failures: u32,
    /// Monotonic time before which it is not called.
    quiet_until: Duration,
}

struct Idle {
    connection: Sealed<TcpStream>,
    since: Duration,
}

impl PeerCaller {
    /// A caller that proves itself with this secret.
    pub fn new(env: Env, secret: ClusterSecret, metrics: PeerMetrics) -> Self {
        Self(Arc::new(Inner { env, secret, metrics, hosts: Mutex::default() }))
    }

    /// Calls the process at `address` (host and port). The answer comes within `patience` and has at most
    /// `most` bytes, or the call fails.
    pub async fn call(
        &self,
        address: &str,
        request: &Request,
        patience: Duration,
        most: usize,
    ) -> Result<Answer, CallError> {
        let called = self.0.env.timeout(patience, self.try_call(address, request, most)).await;
        let called = called.unwrap_or(Err(CallError::Late));
        let outcome = match &called {
            Ok(answer) => answer.outcome(),
            Err(CallError::Busy { .. }) => "busy",
            Err(CallError::Quiet { .. }) => "quiet",
            Err(CallError::Late) => "late",
            Err(_) => "failed",
        };
        self.0.metrics.called.get_or_create(&Call::new(request.name(), outcome)).inc();
        self.note(address, &called);
        called
    }

    async fn try_call(&self, address: &str, request: &Request, most: usize) -> Result<Answer, CallError> {
        let (place, kept) = self.place(address)?;
        let was_kept = kept.is_some();
        let connection = match kept {
            Some(connection) => connection,
            None => self.connect(address).await?,
        };
        match self.exchange(connection, request, most).await {
            Ok((connection, answer)) => {
                self.keep(address, connection, place);
                Ok(answer)
            }
            // The other side may have closed an idle connection or started again meanwhile.
            Err(CallError::Ended(reason)) if was_kept => {
                // The request may have arrived over the first connection.
                let again = |error: CallError| CallError::Ended(format!("{reason}; then {error}"));
                let connection = self.connect(address).await.map_err(again)?;
                let (connection, answer) = self.exchange(connection, request, most).await?;
                self.keep(address, connection, place);
                Ok(answer)
            }
            Err(error) => Err(error),
        }
    }

    async fn connect(&self, address: &str) -> Result<Sealed<TcpStream>, CallError> {
        let unreachable = |reason: String| CallError::Unreachable { address: address.to_owned(), reason };
        let opening = async {
            let stream = TcpStream::connect(address).await.map_err(|e| unreachable(e.to_string()))?;
            let _ = stream.set_nodelay(true);
            handshake::call(stream, &self.0.secret).await
        };
        let opened = self.0.env.timeout(CONNECT, opening).await;
        opened.unwrap_or_else(|| Err(unreachable(format!("no connection within {} s", CONNECT.as_secs()))))
    }

    async fn exchange(
        &self,
        mut connection: Sealed<TcpStream>,
        request: &Request,
        most: usize,
    ) -> Result<(Sealed<TcpStream>, Answer), CallError> {
        connection.send(&[request.encode()]).await?;
        let ended = || CallError::Ended("it was closed before the answer".to_owned());
        let bytes = connection.receive(most).await?.ok_or_else(ended)?;
        self.0.metrics.received.inc_by(bytes.len() as u64);
        Ok((connection, decode_answer(&bytes)?))
    }

    /// A place for a call to the address, with an idle connection if there is one.
    fn place(&self, address: &str) -> Result<(OwnedSemaphorePermit, Option<Sealed<TcpStream>>), CallError> {
        let now = self.0.env.monotonic();
        let mut hosts = self.hosts();
        if !hosts.contains_key(address) && hosts.len() >= HOSTS_MAX {
            hosts.retain(|_, host| host.places.available_permits() < CONNECTIONS_MAX);
        }
        let host = hosts.entry(address.to_owned()).or_insert_with(|| Host {
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            idle: Vec::new(),
            failures: 0,
            quiet_until: Duration::ZERO,
        });
        if now < host.quiet_until {
            return Err(CallError::Quiet { address: address.to_owned() });
        }
        let place = Arc::clone(&host.places).try_acquire_owned();
        let place = place.map_err(|_| CallError::Busy { address: address.to_owned() })?;
        host.idle.retain(|idle| now.saturating_sub(idle.since) < IDLE);
        Ok((place, host.idle.pop().map(|idle| idle.connection)))
    }

    fn keep(&self, address: &str, connection: Sealed<TcpStream>, place: OwnedSemaphorePermit) {
        let since = self.0.env.monotonic();
        if let Some(host) = self.hosts().get_mut(address)
            && host.idle.len() < IDLE_MAX
        {
            host.idle.push(Idle { connection, since });
        }
        drop(place);
    }

    /// Notes whether the address answers.
    fn note(&self, address: &str, called: &Result<Answer, CallError>) {
        let failed = match called {
            Ok(_) => false,
            Err(CallError::Quiet { .. } | CallError::Busy { .. }) => return,
            Err(_) => true,
        };
        let now = self.0.env.monotonic();
        let mut hosts = self.hosts();
        let Some(host) = hosts.get_mut(address) else { return };
        if !failed {
            host.failures = 0;
            return;
        }
        host.quiet_until = now + QUIET.half_jitter(host.failures, &self.0.env);
        host.failures = host.failures.saturating_add(1);
        host.idle.clear();
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<String, Host>> {
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use sandur_base::{BoxFuture, Id, SecretLines};
    use sandur_memory::Reservation;
    use sandur_runtime::{Shutdown, ShutdownSignal, Task};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::server::{Answers, PeerServer, ServerBounds};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// Answers with pieces of as many bytes as were asked for.
    #[derive(Default)]
    struct Echo {
        calls: AtomicUsize,
    }

    impl Answers for Echo {
        fn answer(&self, request: Request) -> BoxFuture<'_, (Answer, Option<Reservation>)> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                match request {
                    Request::Pieces { ranges, .. } => {
                        let of = |range: &std::ops::Range<u64>| {
                            Bytes::from(vec![7; (range.end - range.start) as usize])
                        };
                        (Answer::Pieces(ranges.iter().map(|range| Some(of(range))).collect()), None)
                    }
                    _ => std::future::pending().await,
                }
            })
        }
    }

    struct Ground {
        env: Env,
        address: String,
        echo: Arc<Echo>,
        metrics: PeerMetrics,
        stop: Shutdown,
        _server: Task<()>,
    }

    fn of(text: &str) -> ClusterSecret {
        ClusterSecret::of(&SecretLines::parse(text.as_bytes()).unwrap())
    }

    fn secret(letter: &str) -> ClusterSecret {
        of(&letter.repeat(32))
    }

    /// Accepts connections until the signal.
    async fn accept(env: Env, server: PeerServer, listener: TcpListener, stop: ShutdownSignal) {
        let mut open = Vec::new();
        loop {
            let accepted = tokio::select! {
                () = stop.triggered() => return,
                accepted = listener.accept() => accepted.unwrap().0,
            };
            let server = server.clone();
            open.push(env.spawn("connection", async move { drop(server.serve(accepted).await) }));
        }
    }

    async fn ground(bounds: ServerBounds) -> Ground {
        let env = Env::system(1);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (echo, metrics, stop) = (Arc::new(Echo::default()), PeerMetrics::default(), Shutdown::default());
        let answers: Arc<dyn Answers> = Arc::clone(&echo) as Arc<dyn Answers>;
        let server = PeerServer::new(env.clone(), secret("s"), bounds, answers).with_metrics(metrics.clone());
        let _server = env.spawn("server", accept(env.clone(), server, listener, stop.signal()));
        Ground { env, address, echo, metrics, stop, _server }
    }

    fn pieces(bytes: u64) -> Request {
        Request::Pieces { block: Id(1), ranges: vec![8..8 + bytes, 100..101] }
    }

    #[tokio::test]
    async fn calls_reuse_their_connection() {
        let ground = ground(ServerBounds::default()).await;
        let caller = PeerCaller::new(ground.env.clone(), secret("s"), PeerMetrics::default());
        for bytes in [1, 1_000_000, 3] {
            let answer = caller.call(&ground.address, &pieces(bytes), PATIENCE, 1 << 21).await.unwrap();
            let Answer::Pieces(pieces) = answer else { panic!("{answer:?}") };
            assert_eq!(pieces.iter().flatten().map(|piece| piece.len() as u64).sum::<u64>(), bytes + 1);
        }
        assert_eq!(ground.metrics.connections.get(), 1);
        assert_eq!(ground.echo.calls.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_caller_with_another_secret_gets_nothing_and_then_keeps_quiet() {
        let ground = ground(ServerBounds::default()).await;
        let caller = PeerCaller::new(ground.env.clone(), secret("t"), PeerMetrics::default());
        let first = caller.call(&ground.address, &pieces(1), PATIENCE, 100).await;
        assert!(matches!(first, Err(CallError::Stranger)), "{first:?}");
        let again = caller.call(&ground.address, &pieces(1), PATIENCE, 100).await;
        assert!(matches!(again, Err(CallError::Quiet { .. })), "{again:?}");
        assert_eq!(ground.echo.calls.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_stranger_gets_no_byte() {
        let ground =
            ground(ServerBounds { handshake: Duration::from_millis(50), ..ServerBounds::default() }).await;
        for sent in
            [&b""[..], b"GET /sandur/cluster HTTP/1.1\r\n\r\n", &[0; 64], b"SPER\x01\0\0\0 and then noise"]
        {
            let mut stream = TcpStream::connect(&ground.address).await.unwrap();
            stream.write_all(sent).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.is_empty(), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn places_of_peers_that_left_are_free_again() {
        let ground = ground(ServerBounds { connections: 1, ..ServerBounds::default() }).await;
        for _ in 0..3 {
            let caller = PeerCaller::new(ground.env.clone(), secret("s"), PeerMetrics::default());
            while caller.call(&ground.address, &pieces(1), PATIENCE, 100).await.is_err() {
                // The connection of the caller before is being closed.
                caller.hosts().clear();
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_late_or_too_long_fails_and_closes_its_connection() {
        let ground = ground(ServerBounds::default()).await;
        let caller = PeerCaller::new(ground.env.clone(), secret("s"), PeerMetrics::default());
        let long = caller.call(&ground.address, &pieces(1_000), PATIENCE, 500).await;
        assert!(matches!(long, Err(CallError::Long { most: 500 })), "{long:?}");
        caller.hosts().clear();
        let frames = Request::Frames { writer: Id(1), from: 0, wait: Duration::ZERO, most_bytes: 1 };
        let late = caller.call(&ground.address, &frames, Duration::from_millis(20), 500).await;
        assert!(matches!(late, Err(CallError::Late)), "{late:?}");
        assert!(caller.hosts().values().all(|host| host.idle.is_empty()));
    }

    #[tokio::test]
    async fn a_server_that_started_again_is_called_over_a_new_connection() {
        let ground = ground(ServerBounds::default()).await;
        let caller = PeerCaller::new(ground.env.clone(), secret("s"), PeerMetrics::default());
        caller.call(&ground.address, &pieces(1), PATIENCE, 100).await.unwrap();
        let Ground { env, address, echo, stop, _server, .. } = ground;
        stop.trigger();
        drop(_server.join().await);
        let listener = TcpListener::bind(&address).await.unwrap();
        let server = PeerServer::new(env.clone(), secret("s"), ServerBounds::default(), echo);
        let again = Shutdown::default();
        let _server = env.spawn("server", accept(env.clone(), server, listener, again.signal()));
        caller.call(&address, &pieces(1), PATIENCE, 100).await.unwrap();
    }
}
