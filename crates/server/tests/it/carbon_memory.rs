//! Goal: the process stays within its memory limit while Carbon's senders send new names at full speed,
//! and all of them are stored.
//!
//! Method: the real binary with the minimum limit, senders with one connection each, plain and
//! compressed, and clients that find and render all of it; meanwhile heads are flushed and blocks merged.

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
/// Minimum and maximum duration of the load; on a busy machine it takes longer until the load is large
/// enough.
const RUN: Duration = Duration::from_secs(2);
const RUN_MAX: Duration = Duration::from_secs(90);
/// Minimum number of new names.
const NAMES_MIN: u64 = 25_000;
const LINES: u64 = 1_000;
/// Maximum number of names of a sender: the content of socket buffers of a compressed stream is
/// decompressed to a multiple, and every request of a client reads all names.
const NAMES_MAX: u64 = 10_000;
/// Requests for all data; each may be refused because of memory.
const ASKED: [&str; 4] = [
    "/render?target=sumSeries(memory.*.*.*)&from=-1h&format=json",
    "/render?target=memory.*.*.*&from=-1h&format=json",
    "/metrics/find?query=memory.*.*.*",
    "/metrics/index.json",
];

/// Sends new names until it is stopped or has sent enough, half of the senders in one compressed stream.
/// Returns how many, once they are durable.
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
        for _ in 0..NAMES_MAX / LINES {
            if !stop.load(Ordering::Relaxed) {
                plain.write_all(lines().as_bytes()).unwrap();
            }
        }
    } else {
        let mut packed = zstd::stream::write::Encoder::new(&stream, 1).unwrap();
        for _ in 0..NAMES_MAX / LINES {
            packed.write_all(lines().as_bytes()).unwrap();
        }
        packed.finish().unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    // The server closes the connection once all points are durable.
    (&stream).read_to_end(&mut Vec::new()).unwrap();
    sent
}

#[test]
fn new_names_of_carbon_stay_under_the_minimum_limit() {
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
        assert!(is_real(), "the load was large enough");
        stop.store(true, Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().unwrap()).sum()
    });
    assert_eq!((durable(&server), counted(&server, "sandur_carbon_rejected_points_total")), (sent, 0));
    let peak = server.peak_resident_bytes();
    println!("{sent} new names, peak {} MiB", peak >> 20);
    assert!(peak <= LIMIT + LIMIT / 10, "peak {} MiB\n{}", peak >> 20, server.log_text());
    assert_eq!(server.terminate(), Some(0));
}

/// Data received by connections once took all the memory that decoding needs, and each connection waited
/// for the others: neither their points nor a push from their address could be stored.
#[test]
fn many_connections_do_not_wait_for_each_other_forever() {
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
                // The failure mode is a server that never answers.
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
