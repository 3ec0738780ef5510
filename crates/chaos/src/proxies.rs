//! Proxies between the nodes and the bucket, and between the nodes.
//!
//! Each node has three: one through which it reaches the bucket, one at its address for peers, and one at
//! its address of gossip. The direction that a connection of a peer uses follows from the process that
//! opened it, that of a datagram from the socket that sent it. The proxies in front of the bucket run on a
//! thread of their own: finding a process takes milliseconds, for which no request to the bucket may wait.
//!
//! Invariant: nothing passes between two parties while [`Links`] says that nothing does.

#![allow(clippy::disallowed_methods)] // real time, tasks and threads, outside of the product

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use sandur_attack::free_address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::callers::caller;
use crate::links::{Links, Party, Passage};

/// Threads that look for the processes of connections.
const SEARCHES_MAX: usize = 2;
const CHUNK_BYTES: usize = 64 << 10;
/// Larger than a datagram of gossip.
const DATAGRAM_BYTES: usize = 2 << 10;

/// Where a node listens.
#[derive(Clone, Copy, Debug)]
pub struct Real {
    pub http: SocketAddr,
    pub gossip: SocketAddr,
}

/// Addresses of the proxies of a node.
#[derive(Clone, Copy, Debug)]
pub struct Front {
    pub bucket: SocketAddr,
    pub peers: SocketAddr,
    pub gossip: SocketAddr,
}

/// The process ids of the nodes.
#[derive(Default)]
pub struct Processes(Mutex<Vec<Option<u32>>>);

impl Processes {
    /// Notes the process of a node, or that it has none.
    pub fn set(&self, node: usize, process: Option<u32>) {
        let mut all = self.all();
        if all.len() <= node {
            all.resize(node + 1, None);
        }
        all[node] = process;
    }

    fn all(&self) -> MutexGuard<'_, Vec<Option<u32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the proxies of nodes, which run until the program ends.
pub fn start(
    real: &[Real],
    bucket: SocketAddr,
    links: &Arc<Links>,
    processes: &Arc<Processes>,
) -> Result<Vec<Front>> {
    let front = || Ok(Front { bucket: free_address()?, peers: free_address()?, gossip: free_address()? });
    let fronts = real.iter().map(|_| front()).collect::<Result<Vec<Front>>>()?;
    let shared = Arc::new(Shared {
        real: real.to_vec(),
        fronts: fronts.clone(),
        bucket,
        links: Arc::clone(links),
        processes: Arc::clone(processes),
    });
    let (mut to_bucket, mut to_peers) = (Vec::new(), Vec::new());
    // They are bound before this returns, so that a node finds them.
    for front in &fronts {
        to_bucket.push(bound(TcpListener::bind(front.bucket)?)?);
        to_peers.push((bound(TcpListener::bind(front.peers)?)?, UdpSocket::bind(front.gossip)?));
    }
    let of_peers = Arc::clone(&shared);
    serve("bucket proxies", move || serve_bucket(shared, to_bucket))?;
    serve("peer proxies", move || serve_peers(of_peers, to_peers))?;
    Ok(fronts)
}

struct Shared {
    real: Vec<Real>,
    fronts: Vec<Front>,
    bucket: SocketAddr,
    links: Arc<Links>,
    processes: Arc<Processes>,
}

fn bound(listener: TcpListener) -> Result<TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts a thread that runs a future until the program ends.
fn serve<F: Future<Output = io::Result<()>>>(
    name: &'static str,
    future: impl FnOnce() -> F + Send + 'static,
) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(SEARCHES_MAX).build()?;
    let served = move || {
        if let Err(error) = runtime.block_on(async { future().await }) {
            eprintln!("the {name} ended: {error}");
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(served).context("no thread for the proxies")?;
    Ok(())
}

async fn serve_bucket(shared: Arc<Shared>, listeners: Vec<TcpListener>) -> io::Result<()> {
    let mut accepting = Vec::new();
    for (node, listener) in listeners.into_iter().enumerate() {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        accepting.push(tokio::spawn(accept(Arc::clone(&shared), listener, (node, Role::Bucket))));
    }
    end_of(accepting).await
}

async fn serve_peers(shared: Arc<Shared>, sockets: Vec<(TcpListener, UdpSocket)>) -> io::Result<()> {
    let (mut accepting, mut gossip) = (Vec::new(), Vec::new());
    for (node, (listener, socket)) in sockets.into_iter().enumerate() {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        accepting.push(tokio::spawn(accept(Arc::clone(&shared), listener, (node, Role::Peers))));
        socket.set_nonblocking(true)?;
        gossip.push(Arc::new(tokio::net::UdpSocket::from_std(socket)?));
    }
    let gossip = Arc::new(gossip);
    for node in 0..gossip.len() {
        accepting.push(tokio::spawn(pass_datagrams(Arc::clone(&shared), Arc::clone(&gossip), node)));
    }
    end_of(accepting).await
}

/// Tasks end only with the program, or by a panic.
async fn end_of(tasks: Vec<tokio::task::JoinHandle<()>>) -> io::Result<()> {
    for task in tasks {
        task.await.map_err(io::Error::other)?;
    }
    Ok(())
}

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
enum Role {
    Bucket,
    Peers,
}

async fn accept(shared: Arc<Shared>, listener: tokio::net::TcpListener, (node, role): (usize, Role)) {
    loop {
        let Ok((client, from)) = listener.accept().await else {
            // No descriptor is free, which does not change at once.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let (one, other, to) = match role {
                Role::Bucket => (Party::Node(node), Party::Bucket, shared.bucket),
                Role::Peers => {
                    // A process that has ended meanwhile does not miss its connection.
                    let Some(one) = shared.caller(from, node).await else { return };
                    (Party::Node(one), Party::Node(node), shared.real[node].http)
                }
            };
            let (links, sides) = (Arc::clone(&shared.links), (one, other));
            let mut closed = Gate { changes: links.changes(), links: Arc::clone(&links), sides };
            tokio::select! {
                () = relay(client, to, (links, sides)) => {}
                () = closed.wait_until_closed() => {}
            }
        });
    }
}

impl Shared {
    /// The node whose process opened a connection to the address for peers of a node.
    async fn caller(&self, from: SocketAddr, node: usize) -> Option<usize> {
        let (processes, to) = (self.processes.all().clone(), self.fronts[node].peers);
        tokio::task::spawn_blocking(move || caller(&processes, from, to)).await.ok()?
    }
}

/// Copies bytes in both directions until one is broken or both have ended.
async fn relay(client: TcpStream, to: SocketAddr, (links, (one, other)): (Arc<Links>, (Party, Party))) {
    let gate = |sides| Gate { changes: links.changes(), links: Arc::clone(&links), sides };
    if !gate((one, other)).pass().await {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else { return };
    if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
        return;
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let there = pass(from_client, to_server, gate((one, other)));
    let back = pass(from_server, to_client, gate((other, one)));
    // The first error ends both directions.
    let _ = tokio::try_join!(there, back);
}

/// Copies one direction, and passes on its end.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut gate: Gate) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await?;
        if !gate.pass().await {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..read]).await?;
    }
}

/// Lets bytes of a direction pass when its link allows it.
struct Gate {
    links: Arc<Links>,
    sides: (Party, Party),
    changes: tokio::sync::watch::Receiver<u64>,
}

impl Gate {
    /// Waits as long as the link says. Returns whether the connection goes on.
    async fn pass(&mut self) -> bool {
        loop {
            self.changes.mark_unchanged();
            match self.links.passage(self.sides.0, self.sides.1) {
                Passage::Open => return true,
                Passage::Slow(delay) => {
                    tokio::time::sleep(delay).await;
                    return true;
                }
                Passage::Closed => return false,
                Passage::Stalled => {
                    if self.changes.changed().await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    async fn wait_until_closed(&mut self) {
        while self.links.passage(self.sides.0, self.sides.1) != Passage::Closed {
            if self.changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Passes datagrams that arrive at the proxy of a node. They leave from the proxy of their sender, to which
/// the node then answers.
async fn pass_datagrams(shared: Arc<Shared>, sockets: Arc<Vec<Arc<tokio::net::UdpSocket>>>, node: usize) {
    let mut datagram = [0; DATAGRAM_BYTES];
    loop {
        let Ok((length, from)) = sockets[node].recv_from(&mut datagram).await else { continue };
        let Some(sender) = shared.real.iter().position(|real| real.gossip == from) else { continue };
        let (socket, to) = (Arc::clone(&sockets[sender]), shared.real[node].gossip);
        let bytes = datagram[..length].to_vec();
        match shared.links.passage(Party::Node(sender), Party::Node(node)) {
            Passage::Closed | Passage::Stalled => {}
            // A datagram that cannot be sent is lost, as datagrams are.
            Passage::Open => drop(socket.send_to(&bytes, to).await),
            Passage::Slow(delay) => {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let _ = socket.send_to(&bytes, to).await;
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::links::Between;

    /// A server that answers each byte with the next one.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() {
                        let _ = stream.write_all(&[byte[0] + 1]);
                    }
                });
            }
        });
        address
    }

    fn exchange(stream: &mut TcpStream, byte: u8) -> std::io::Result<u8> {
        stream.write_all(&[byte])?;
        let mut answer = [0];
        stream.read_exact(&mut answer).map(|()| answer[0])
    }

    #[test]
    fn connections_are_closed_stalled_and_opened_again() {
        let links = Arc::new(Links::default());
        let processes = Arc::new(Processes::default());
        processes.set(0, None);
        processes.set(1, Some(std::process::id()));
        let real = [0; 2].map(|_| Real { http: server(), gossip: free_address().unwrap() });
        let fronts = start(&real, server(), &links, &processes).unwrap();
        for (address, between) in [
            (fronts[0].bucket, Between::NodesAndBucket(vec![0])),
            (fronts[0].peers, Between::NodesAndOthers(vec![1])),
        ] {
            let connect = || TcpStream::connect(address).unwrap();
            let mut stream = connect();
            assert_eq!(exchange(&mut stream, 1).unwrap(), 2);
            links.add(1, between.clone(), Passage::Stalled);
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            assert!(exchange(&mut stream, 3).is_err(), "nothing passes");
            links.remove(1);
            stream.set_read_timeout(None).unwrap();
            let mut answer = [0];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [4], "what waited passes");
            links.add(2, between, Passage::Closed);
            assert!(exchange(&mut stream, 5).is_err() && exchange(&mut connect(), 5).is_err());
            links.remove(2);
            assert_eq!(exchange(&mut connect(), 7).unwrap(), 8);
        }
    }

    #[test]
    fn datagrams_come_from_the_proxy_of_their_sender() {
        let (links, processes) = (Arc::new(Links::default()), Arc::new(Processes::default()));
        let sockets = [0; 2].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let real = [0, 1].map(|node: usize| {
            let gossip = sockets[node].local_addr().unwrap();
            Real { http: gossip, gossip }
        });
        let fronts = start(&real, real[0].http, &links, &processes).unwrap();
        let mut buffer = [0; 8];
        sockets[0].send_to(b"there", fronts[1].gossip).unwrap();
        let (length, from) = sockets[1].recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"there"[..], fronts[0].gossip));
        sockets[1].send_to(b"back", from).unwrap();
        assert_eq!(sockets[0].recv_from(&mut buffer).unwrap(), (4, fronts[1].gossip));
        links.add(1, Between::NodesAndOthers(vec![0]), Passage::Stalled);
        sockets[0].send_to(b"lost", fronts[1].gossip).unwrap();
        sockets[1].set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(sockets[1].recv_from(&mut buffer).is_err());
    }
}
