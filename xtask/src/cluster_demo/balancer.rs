//! A small load balancer for TCP connections, so that the demo needs no other program.
//!
//! It has one listener for pushes and one for queries. Each sends a connection to the next node whose
//! `/ready?for=push` or `/ready?for=query` answers 200. If a node cannot be reached, the connection goes
//! to the next one. If no node is ready, all are tried. It does not repeat requests: if a node dies, its
//! connections are closed, and the clients send their requests again.
//!
//! Invariants: at most [`MAX_CONNECTIONS`] connections are open at a time; the threads end when the
//! program does.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::http;

const MAX_CONNECTIONS: usize = 256;
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// A node that does not answer a check within this time is not ready.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// A listener and the nodes behind it.
pub struct Balancer {
    pub address: SocketAddr,
    pool: Arc<Pool>,
}

struct Pool {
    /// The path that answers 200 while a node can be used.
    check: &'static str,
    nodes: Vec<Node>,
    /// The number of connections so far; selects the node of the next one.
    turn: AtomicUsize,
    open: AtomicUsize,
}

struct Node {
    address: SocketAddr,
    is_ready: AtomicBool,
    /// Open connections.
    open: AtomicUsize,
}

impl Balancer {
    /// Starts to listen on `wanted`, or on a free port if that is in use.
    pub fn start(wanted: SocketAddr, check: &'static str, nodes: &[SocketAddr]) -> Result<Self> {
        let listener =
            TcpListener::bind(wanted).or_else(|_| TcpListener::bind((wanted.ip(), 0))).context("no port")?;
        let address = listener.local_addr()?;
        let node = |&address: &SocketAddr| Node {
            address,
            is_ready: AtomicBool::new(false),
            open: AtomicUsize::new(0),
        };
        let nodes = nodes.iter().map(node).collect();
        let pool = Arc::new(Pool { check, nodes, turn: AtomicUsize::new(0), open: AtomicUsize::new(0) });
        for number in 0..pool.nodes.len() {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                loop {
                    pool.look(number);
                    thread::sleep(CHECK_EVERY);
                }
            });
        }
        let serving = Arc::clone(&pool);
        thread::spawn(move || serving.serve(&listener));
        Ok(Self { address, pool })
    }

    /// The number of connections to a node.
    pub fn open(&self, number: usize) -> usize {
        self.pool.nodes[number].open.load(Ordering::Relaxed)
    }

    /// Whether each node is ready, as the last checks and connections found.
    pub fn ready(&self) -> Vec<bool> {
        self.pool.nodes.iter().map(|node| node.is_ready.load(Ordering::Relaxed)).collect()
    }
}

impl Pool {
    fn look(&self, number: usize) {
        let node = &self.nodes[number];
        let answer = http::get(node.address, self.check, CHECK_TIMEOUT);
        node.is_ready.store(answer.is_ok_and(|answer| answer.status == 200), Ordering::Relaxed);
    }

    fn serve(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming().flatten() {
            if self.open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                self.open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let pool = Arc::clone(self);
            thread::spawn(move || {
                if let Some((node, stream)) = pool.connect() {
                    node.open.fetch_add(1, Ordering::Relaxed);
                    relay(client, stream);
                    node.open.fetch_sub(1, Ordering::Relaxed);
                }
                pool.open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }

    /// Connects to the next node that is ready, or, if there is none, to any node.
    fn connect(&self) -> Option<(&Node, TcpStream)> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = || (0..self.nodes.len()).map(|n| &self.nodes[(turn + n) % self.nodes.len()]);
        let (ready, others): (Vec<&Node>, Vec<&Node>) =
            in_turn().partition(|node| node.is_ready.load(Ordering::Relaxed));
        ready.into_iter().chain(others).find_map(|node| {
            let stream = TcpStream::connect_timeout(&node.address, CONNECT_TIMEOUT);
            if stream.is_err() {
                node.is_ready.store(false, Ordering::Relaxed);
            }
            Some((node, stream.ok()?))
        })
    }
}

/// Copies bytes in both directions until both sides have ended.
fn relay(client: TcpStream, node: TcpStream) {
    let (Ok(from_client), Ok(to_node)) = (client.try_clone(), node.try_clone()) else { return };
    let request = thread::spawn(move || pass(from_client, to_node));
    pass(node, client);
    // `pass` does not panic.
    let _ = request.join();
}

/// Copies one direction, and passes on its end. A broken connection ends like a closed one.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let is_whole = io::copy(&mut from, &mut to).is_ok();
    // The other side may have closed its socket already.
    let _ = to.shutdown(if is_whole { Shutdown::Write } else { Shutdown::Both });
    if !is_whole {
        let _ = from.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A node that answers every request with a status and its name, until `is_up` is false.
    fn node(name: &'static str, status: u16, is_up: &Arc<AtomicBool>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_up = Arc::clone(is_up);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if !is_up.load(Ordering::Relaxed) {
                    return;
                }
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let length = name.len();
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{name}");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    fn wait_for(balancer: &Balancer, wanted: &[bool]) {
        while balancer.ready() != wanted {
            thread::yield_now();
        }
    }

    #[test]
    fn connections_go_to_ready_nodes_and_leave_a_node_that_is_gone() {
        let (stays, goes) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        let nodes = [node("a", 200, &goes), node("b", 503, &stays), node("c", 200, &stays)];
        let balancer = Balancer::start(([127, 0, 0, 1], 0).into(), "/ready", &nodes).unwrap();
        wait_for(&balancer, &[true, false, true]);
        let ask = || http::get(balancer.address, "/x", PATIENCE).unwrap().text();
        let mut names: Vec<String> = (0..6).map(|_| ask()).collect();
        names.sort();
        assert_eq!(names.iter().filter(|name| *name == "b").count(), 0, "{names:?}");
        assert_eq!((names[0].as_str(), names[5].as_str()), ("a", "c"));
        goes.store(false, Ordering::Relaxed);
        // The node notices it with the next connection, and closes its listener.
        wait_for(&balancer, &[false, false, true]);
        assert!((0..6).all(|_| ask() == "c"));
    }
}
