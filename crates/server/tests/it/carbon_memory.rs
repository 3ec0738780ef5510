//! Goal: the process stays within its memory limit while carbon's senders bring new names as fast as they
//! can, and all that they sent is stored.
//!
//! Method: the real binary with the least limit, senders over connections of their own, plain and compressed,
//! and clients that find and render all of it; heads are flushed and blocks merged meanwhile.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sandur_attack::free_address;

use crate::carbon_faults::{counted, durable};
use crate::process::{Setup, now_ns, request};

const LIMIT: u64 = 128 << 20;
const SENDERS: usize = 6;
/// How long a load lasts at least, and at most where a machine is too busy to make it real sooner.
const RUN: Duration = Duration::from_secs(2);
const RUN_MAX: Duration = Duration::from_secs(90);
/// New names that make a load real.
const NAMES_MIN: u64 = 50_000;
const LINES: u64 = 1_000;
/// Names of a compressed stream at most: what lies in the buffers of sockets unpacks to a multiple of it.
const PACKED_MAX: u64 = 10_000;
/// What asks for as much as there is; each may be refused for want of memory.
const ASKED: [&str; 4] = [
    "/render?target=sumSeries(memory.*.*.*)&from=-1h&format=json",
    "/render?target=memory.*.*.*&from=-1h&format=json",
    "/metrics/find?query=memory.*.*.*",
    "/metrics/index.json",
];

/// Sends new names until it is told to stop, half of the senders in one compressed stream. Gives how many
/// once they are durable.
fn send(address: SocketAddr, sender: usize, stop: &AtomicBool) -> u64 {
    let stream = TcpStream::connect(address).unwrap();
    let (mut sent, second) = (0, now_ns() / 1_000_000_000 - 60);
    let mut lines = || {
        let line = |n: u64| format!("memory.s{sender}.host{}.cpu{} {n} {second}\n", n / 50, n % 50);
        let text: String = (sent..sent + LINES).map(line).collect();
        sent += LINES;
        text
    };
    if sender.is_multiple_of(2) {
        let mut plain = &stream;
        while !stop.load(Ordering::Relaxed) {
            plain.write_all(lines().as_bytes()).unwrap();
        }
    } else {
        let mut packed = zstd::stream::write::Encoder::new(&stream, 1).unwrap();
        for _ in 0..PACKED_MAX / LINES {
            packed.write_all(lines().as_bytes()).unwrap();
        }
        packed.finish().unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    // The server closes once everything is durable.
    (&stream).read_to_end(&mut Vec::new()).unwrap();
    sent
}

#[test]
fn new_names_of_carbon_stay_under_the_least_limit() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let carbon = free_address().unwrap();
    let listen = format!("--carbon-listen={carbon}");
    let options = ["--memory-limit=128MiB", "--compaction-interval=1s", &listen];
    let server = Setup::new(store, folder.path()).with(&options).start();
    let (stop, answered, address) = (AtomicBool::new(false), AtomicU64::new(0), server.address);
    let sent: u64 = std::thread::scope(|scope| {
        let (stop, answered) = (&stop, &answered);
        let senders: Vec<_> =
            (0..SENDERS).map(|sender| scope.spawn(move || send(carbon, sender, stop))).collect();
        for path in ASKED {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let (status, body) = request(address, "GET", path, &[], b"").unwrap();
                    let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
                    assert!(status == 200 || text.contains("memory"), "{path}: {status} {text}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let began = Instant::now();
        let is_real = || durable(&server) > NAMES_MIN && answered.load(Ordering::Relaxed) > 20;
        while began.elapsed() < RUN || (!is_real() && began.elapsed() < RUN_MAX) {
            std::thread::sleep(Duration::from_millis(500)); // pacing another process
            let _ = request(address, "POST", "/flush", &[], b"");
        }
        assert!(is_real(), "the load was real");
        stop.store(true, Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    assert_eq!((durable(&server), counted(&server, "sandur_carbon_rejected_points_total")), (sent, 0));
    let peak = server.peak_resident_bytes();
    println!("{sent} new names, peak {} MiB", peak >> 20);
    assert!(peak <= LIMIT + LIMIT / 10, "peak {} MiB\n{}", peak >> 20, server.log_text());
    assert_eq!(server.terminate(), Some(0));
}

/// What connections had received took all the memory that decoding it needs, and each waited for the others:
/// neither their points were stored nor a push from their address any more.
#[test]
fn many_connections_that_send_at_once_do_not_wait_for_each_other_for_ever() {
    const CONNECTIONS: u64 = 90;
    const NAMES: u64 = 270;
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let carbon = free_address().unwrap();
    let listen = format!("--carbon-listen={carbon}");
    let server = Setup::new(store, folder.path()).with(&["--memory-limit=128MiB", &listen]).start();
    let (second, filler) = (now_ns() / 1_000_000_000, "x".repeat(700));
    let together = Barrier::new(CONNECTIONS as usize);
    std::thread::scope(|scope| {
        for sender in 0..CONNECTIONS {
            let (filler, together) = (&filler, &together);
            scope.spawn(move || {
                let line = |n: u64| format!("many.h{sender}.{filler}.m{n} 1 {second}\n");
                let text: String = (0..NAMES).map(line).collect();
                let mut stream = TcpStream::connect(carbon).unwrap();
                // The failure of a server that never answers.
                stream.set_read_timeout(Some(RUN_MAX)).unwrap();
                stream.set_write_timeout(Some(RUN_MAX)).unwrap();
                together.wait();
                stream.write_all(text.as_bytes()).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                stream.read_to_end(&mut Vec::new()).unwrap();
            });
        }
    });
    assert_eq!(durable(&server), CONNECTIONS * NAMES);
    assert_eq!(counted(&server, "sandur_carbon_rejected_points_total"), 0);
    assert_eq!(server.terminate(), Some(0));
}
