//! Goal: a client that abuses HTTP/2 is disconnected, and others are served meanwhile and afterwards.
//!
//! Method: the real binary and frames written by hand (RFC 9113): streams that are reset as soon as they
//! are opened, responses without any window, heads without an end. Each attack exceeds the server's
//! limits by orders of magnitude, so that no number here depends on speed.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::process::{Server, Setup, request};

/// Maximum time without bytes until the server must close the connection.
const PATIENCE: Duration = Duration::from_secs(60);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn start(arguments: &[&str]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path());
    (setup.with(arguments).start(), folder)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of `GET path`, with fields that HPACK has in its static table.
fn head(path: &str) -> Vec<u8> {
    [&[0x82, 0x86, 0x04, path.len() as u8], path.as_bytes(), b"\x01\x09localhost"].concat()
}

/// A connection whose first frame contains these settings.
fn connect(server: &Server, settings: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, settings)).unwrap();
    stream
}

fn expect_others_are_served(server: &Server) {
    assert_eq!(request(server.address, "GET", "/ready", &[], b"").unwrap().0, 200);
}

/// Reads until the server closes the connection; panics if it does not. Returns the complete frames.
fn read_to_end(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        // A server that closes before it has read everything resets the connection.
        let kind = error.kind();
        let is_end = matches!(kind, std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe);
        assert!(is_end, "the connection stays open: {error}");
    }
    let (mut frames, mut rest) = (Vec::new(), bytes.as_slice());
    while let Some((start, after)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]) as usize;
        let Some((payload, after)) = after.split_at_checked(length) else { break };
        frames.push((start[3], payload.to_vec()));
        rest = after;
    }
    frames
}

/// Sends pieces until the server closes the connection; returns whether it accepted all of them.
fn send(stream: &mut TcpStream, pieces: impl Iterator<Item = Vec<u8>>) -> bool {
    for piece in pieces {
        if let Err(error) = stream.write_all(&piece) {
            let is_silent = matches!(error.kind(), std::io::ErrorKind::WouldBlock);
            assert!(!is_silent, "the connection stays open, but is not read: {error}");
            return false;
        }
    }
    true
}

#[test]
fn a_client_that_resets_its_streams_is_disconnected() {
    let (server, _folder) = start(&[]);
    let mut stream = connect(&server, &[]);
    let head = head("/metrics");
    let opened_and_reset = |number: u32| {
        let id = 2 * number + 1;
        let open = frame(HEADERS, END_STREAM | END_HEADERS, id, &head);
        [open, frame(RST_STREAM, 0, id, &8u32.to_be_bytes())].concat()
    };
    let many = (0..1_000).map(|piece| (piece * 500..(piece + 1) * 500).flat_map(opened_and_reset).collect());
    send(&mut stream, many);
    expect_others_are_served(&server);
    let frames = read_to_end(&mut stream);
    let answered = frames.iter().filter(|(kind, _)| *kind == HEADERS).count();
    assert!(answered < 10_000, "{answered} of 500,000 reset requests were answered");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_client_without_a_window_for_responses_is_disconnected() {
    let (server, _folder) = start(&["--http-write-idle-timeout", "1s"]);
    // SETTINGS_INITIAL_WINDOW_SIZE (4) is 0.
    let mut stream = connect(&server, &[0, 4, 0, 0, 0, 0]);
    let open = |number: u32| frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &head("/metrics"));
    assert!(send(&mut stream, (0..100).map(open)));
    expect_others_are_served(&server);
    let frames = read_to_end(&mut stream);
    let has = |wanted: u8| frames.iter().any(|(kind, _)| *kind == wanted);
    assert!(has(HEADERS), "the requests were answered");
    let data: usize = frames.iter().filter(|(kind, _)| *kind == DATA).map(|(_, payload)| payload.len()).sum();
    assert_eq!(data, 0, "no part of the bodies fits");
    expect_others_are_served(&server);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_client_with_an_endless_head_is_disconnected() {
    let (server, _folder) = start(&[]);
    // A field that is not indexed, as often as it fits into a frame; and an empty frame.
    let full = b"\x00\x04name\x05value".repeat(1_365);
    for payload in [full.as_slice(), &[]] {
        let mut stream = connect(&server, &[]);
        assert!(send(&mut stream, std::iter::once(frame(HEADERS, END_STREAM, 1, &head("/ready")))));
        let more = frame(CONTINUATION, 0, 1, payload);
        let piece = more.repeat(64_000 / more.len());
        send(&mut stream, std::iter::repeat_n(piece, 1_000));
        expect_others_are_served(&server);
        let frames = read_to_end(&mut stream);
        assert!(frames.iter().all(|(kind, _)| *kind != HEADERS), "a response was sent: {frames:?}");
        let _ = stream.shutdown(Shutdown::Both);
    }
    assert_eq!(server.terminate(), Some(0));
}
