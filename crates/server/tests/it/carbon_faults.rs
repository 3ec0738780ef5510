//! Goal: when a store accepts no writes, Carbon's senders wait and lose nothing: data counted as durable
//! exists, even after `kill -9`, and all sent data exists once when the store accepts writes again.
//!
//! Method: the real binary with a full disk and with a bucket that answers 503, and a sender with one
//! connection that does not notice.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use sandur_attack::free_address;

use crate::faults::{Tmpfs, store_of};
use crate::process::{Random, Server, Setup, encode, now_ns, s3_store};
use crate::retention::until;

const PATHS: u64 = 50;
/// Seconds from the first timestamp of a path until now: the maximum number of its points.
const SECONDS: u64 = 80_000;
/// Lines per write.
const LINES: u64 = 1_000;
/// Maximum number of points that wait in a window of 256 KiB and in the buffers of sockets.
const WAITING_MAX: u64 = (16 << 20) / 30;

/// A sender of distinct points, over one connection.
struct Sender {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    from: u64,
    running: JoinHandle<std::io::Result<()>>,
}

impl Sender {
    /// Sends until it is stopped; starts with the point of a given number on every path.
    fn start(address: SocketAddr, base_s: i64, from: u64) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&sent));
        let running = std::thread::spawn(move || {
            let (mut stream, mut random) = (TcpStream::connect(address)?, Random(from + 1));
            let mut number = from;
            while !stopped.load(Ordering::Relaxed) {
                assert!(number / PATHS + LINES < SECONDS, "the store never refused a write");
                let mut lines = String::new();
                for _ in 0..LINES {
                    let (path, second) = (number % PATHS, base_s + (number / PATHS) as i64);
                    // Random, so that no codec can compress them.
                    let value = random.below(1 << 53);
                    lines += &format!("faults.p{path} 0.{value:016} {second}\n");
                    number += 1;
                }
                stream.write_all(lines.as_bytes())?;
                counted.fetch_add(LINES, Ordering::Relaxed);
            }
            stream.shutdown(Shutdown::Write)?;
            // The server closes the connection once all points are durable.
            stream.read_to_end(&mut Vec::new()).map(|_| ())
        });
        Self { stop, sent, from, running }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The number of the next point.
    fn number(&self) -> u64 {
        self.from + self.sent.load(Ordering::Relaxed)
    }

    /// Waits until all sent points are durable; returns the number of the next one.
    fn join(self) -> u64 {
        let (sent, from) = (Arc::clone(&self.sent), self.from);
        self.running.join().unwrap().unwrap();
        from + sent.load(Ordering::Relaxed)
    }
}

/// The value of the first counter with this prefix.
pub fn counted(server: &Server, name: &str) -> u64 {
    let text = String::from_utf8(server.get("/metrics").1).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0)
}

pub fn durable(server: &Server) -> u64 {
    counted(server, "sandur_carbon_durable_points_total")
}

fn stored(server: &Server) -> u64 {
    let query = encode(r#"sum(count_over_time({__g0__="faults"}[2d]))"#);
    let answer = server.get_json(&format!("/api/v1/query?query={query}"));
    answer["data"]["result"][0]["value"][1].as_str().map_or(0, |text| text.parse().unwrap())
}

fn base_s() -> i64 {
    now_ns() / 1_000_000_000 - SECONDS as i64 - 60
}

#[test]
fn with_a_full_disk_senders_wait_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    let Some(_tmpfs) = Tmpfs::mount(&small, "20m", "carbon and a full disk") else { return };
    let ballast = small.join("ballast");
    fs::write(&ballast, vec![7u8; 16 << 20]).unwrap();
    let carbon = free_address().unwrap();
    let listen = format!("--carbon-listen={carbon}");
    let setup = Setup::new(store_of(&small), folder.path()).with(&[&listen, "--carbon-window=256KiB"]);
    let mut server = setup.start();
    let sender = Sender::start(carbon, base_s(), 0);
    let repeats = |server: &Server| counted(server, "sandur_carbon_repeats_total");
    until("the disk is full", &server, || repeats(&server) > 1);
    let held = durable(&server);
    assert!(held > 0 && server.is_running());
    assert_eq!(stored(&server), held, "durable points exist, no others, and queries continue");
    sender.stop();
    fs::remove_file(&ballast).unwrap();
    let sent = sender.join();
    assert!(sent >= held, "{sent} {held}");
    assert_eq!((durable(&server), stored(&server)), (sent, sent));
    assert_eq!(counted(&server, "sandur_carbon_rejected_points_total"), 0);
    server.kill();
    let server = setup.start();
    assert_eq!(stored(&server), sent, "also after a crash");
    assert_eq!(server.terminate(), Some(0));
}

/// A proxy between a server and its bucket that can refuse requests.
#[derive(Default)]
struct FaultyProxy {
    /// One of this many connections is answered with 503; 0: none.
    refuse_each: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
}

impl FaultyProxy {
    /// Forwards connections to an address; returns the proxy's address.
    fn before(self: &Arc<Self>, bucket: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, proxy) = (listener.local_addr().unwrap(), Arc::clone(self));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let proxy = Arc::clone(&proxy);
                // A broken connection is a request without an answer.
                std::thread::spawn(move || proxy.pass(client, bucket));
            }
        });
        address
    }

    /// Forwards one connection, request by request, until one of them is refused.
    fn pass(&self, mut client: TcpStream, bucket: SocketAddr) -> std::io::Result<()> {
        let mut server = TcpStream::connect(bucket)?;
        let mut answers = (server.try_clone()?, client.try_clone()?);
        std::thread::spawn(move || std::io::copy(&mut answers.0, &mut answers.1));
        let mut piece = vec![0; 64 << 10];
        loop {
            let length = client.read(&mut piece)?;
            if length == 0 {
                return server.shutdown(Shutdown::Both);
            }
            let is_head = piece.starts_with(b"PUT ") || piece.starts_with(b"GET ");
            let each = self.refuse_each.load(Ordering::Relaxed);
            let is_refused =
                is_head && each > 0 && self.connections.fetch_add(1, Ordering::Relaxed).is_multiple_of(each);
            if is_refused {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let text = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                client.write_all(text.as_bytes())?;
                // The rest of the request is read, otherwise the answer would be lost.
                client.shutdown(Shutdown::Write)?;
                while client.read(&mut piece)? > 0 {}
                return server.shutdown(Shutdown::Both);
            }
            server.write_all(&piece[..length])?;
        }
    }

    fn refuse_each(&self, each: u64) {
        self.refuse_each.store(each, Ordering::Relaxed);
    }

    /// Refuses all requests until no more points of a sender become durable; returns how many are.
    fn close(&self, server: &Server, sender: &Sender) -> u64 {
        self.refuse_each(1);
        let before = self.refused.load(Ordering::Relaxed);
        // Requests in flight are answered or refused by then.
        until("requests are refused", server, || self.refused.load(Ordering::Relaxed) > before + 10);
        let held = durable(server);
        let waiting = sender.number() - held;
        assert!(held > 0 && waiting < WAITING_MAX, "{held} are durable, {waiting} wait");
        held
    }
}

/// The URL of a store, with the proxy's address as the endpoint.
fn by_way_of(store: &str, proxy: &Arc<FaultyProxy>) -> String {
    let (before, rest) = store.split_once("endpoint=http://").unwrap();
    let (bucket, after) = rest.split_once('&').unwrap_or((rest, ""));
    format!("{before}endpoint=http://{}&{after}", proxy.before(bucket.parse().unwrap()))
}

#[test]
fn with_a_bucket_that_answers_503_senders_wait_until_it_recovers() {
    let Some(store) = s3_store("carbon-503") else { return };
    let folder = tempfile::tempdir().unwrap();
    let proxy = Arc::new(FaultyProxy::default());
    let carbon = free_address().unwrap();
    let setup = Setup::new(by_way_of(&store, &proxy), folder.path());
    let listen = format!("--carbon-listen={carbon}");
    let setup = setup.with(&[&listen, "--carbon-window=256KiB", "--flush-max-bytes=1MiB"]);
    let (server, base_s) = (setup.start(), base_s());

    // Every third request is refused: senders do not notice.
    proxy.refuse_each(3);
    let sender = Sender::start(carbon, base_s, 0);
    until("points are durable despite refusals", &server, || {
        durable(&server) > 20_000 && proxy.refused.load(Ordering::Relaxed) > 5
    });
    // All requests are refused: senders wait.
    let held = proxy.close(&server, &sender);
    sender.stop();
    proxy.refuse_each(0);
    let first = sender.join();
    assert!(first >= held);
    assert_eq!((durable(&server), stored(&server)), (first, first));

    // The process is killed while all requests are refused.
    let sender = Sender::start(carbon, base_s, first);
    until("points are durable again", &server, || durable(&server) > first + 20_000);
    let held = proxy.close(&server, &sender);
    sender.stop();
    server.kill();
    assert!(sender.running.join().unwrap().is_err(), "its connection is broken");
    proxy.refuse_each(0);
    let server = setup.start();
    let found = stored(&server);
    assert!(found >= held, "{held} points were durable, but {found} exist");
    assert_eq!(server.terminate(), Some(0));
}
