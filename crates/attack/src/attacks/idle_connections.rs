//! More connections than the server permits, all of them silent.

use std::time::Duration;

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;
use crate::pause::Pause;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "idle-connections", about: "more silent connections than the server permits", run };

/// How long the connections are kept open.
const HELD: Duration = Duration::from_secs(5);

fn run(ground: &Ground<'_>) -> Result<()> {
    let mut held = Vec::new();
    // The course limits the server to 256 connections.
    for _ in 0..ground.pick(400, 900) {
        if let Ok(stream) = ground.connect() {
            held.push(stream);
        }
    }
    Pause::default().wait(ground.pick(HELD, HELD * 6));
    drop(held);
    // Afterwards the connections are free again.
    ground.ask("GET", "/loki/api/v1/labels", &[], b"");
    Ok(())
}
