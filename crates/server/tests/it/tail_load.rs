//! Goal: tails under load lose nothing silently: received lines and lines reported as lost add up to the
//! pushed ones, or the tail was closed; and a tail may not send messages.
//!
//! Method: the real binary, twenty tails of which some do not read until all lines are pushed, and pushes
//! at full speed. `sandur-bench tail` is the same at full size. And a hand-written tail client that sends
//! a message with endless fragments.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::process::Setup;
use sandur_bench::run::{TailLoad, tail};
use sandur_runtime::Env;

#[test]
fn twenty_tails_lose_nothing_silently() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path());
    let server = setup.with(&["--limits-max-concurrent-tail-requests", "25"]).start();
    let load = TailLoad {
        address: server.address.to_string(),
        readers: 17,
        sleepers: 3,
        bytes_per_second: 0,
        bytes: 8_000_000,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let report = runtime.block_on(tail(&Env::system(1), &load)).unwrap();
    assert_eq!(report.followers.len(), 20);
    assert_eq!(report.lines, 20_000);
    assert!(report.silent_losses().is_empty(), "{}", report.text());
    let whole = report.followers.iter().filter(|f| f.received > 0).count();
    assert!(whole >= 17, "{}", report.text());
    assert_eq!(server.terminate(), Some(0));
}

/// Fragments of messages were once collected without a limit: 64 MiB per tail.
#[test]
fn an_endless_message_closes_the_connection_of_a_tail() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path());
    let server = setup.start();
    let path = "/loki/api/v1/tail?query=%7Bjob%3D~%22.%2B%22%7D";
    let upgrade = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2FuZHVyLXRlc3QtMTIzNA==\r\n\r\n"
    );
    let mut follower = TcpStream::connect(server.address).unwrap();
    follower.write_all(upgrade.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        follower.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    // A binary message in frames of 1 KiB, masked with zeros, without a final frame.
    for number in 0..5 {
        let kind = if number == 0 { 2 } else { 0 };
        let frame = [&[kind, 0x80 | 126, 4, 0, 0, 0, 0, 0][..], &[b'x'; 1 << 10]].concat();
        follower.write_all(&frame).unwrap();
    }
    // There is a ping each second, and a frame with the lines stored before.
    let close = (0..30).find_map(|_| {
        let mut start = [0; 2];
        follower.read_exact(&mut start).unwrap();
        let mut payload = vec![0; usize::from(start[1])];
        follower.read_exact(&mut payload).unwrap();
        (start[0] & 0xF == 8).then_some(payload)
    });
    let close = close.expect("the connection is closed");
    assert_eq!(close[..2], 1_009u16.to_be_bytes(), "{}", String::from_utf8_lossy(&close[2..]));
    assert_eq!(server.terminate(), Some(0));
}
