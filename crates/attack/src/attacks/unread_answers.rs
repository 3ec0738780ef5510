//! Large answers that no client reads.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;
use crate::pause::Pause;
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "unread-answers", about: "clients that request much and never read it", run };

/// Bytes of each line of the answer.
const LINE_BYTES: usize = 100_000;
/// How long the answers stay unread.
const UNREAD: Duration = Duration::from_secs(5);

fn run(ground: &Ground<'_>) -> Result<()> {
    for round in 0..10 {
        let line = format!("{round}{}", "0123456789".repeat(LINE_BYTES / 10));
        ground.store_lines("unread", &vec![line; 10]);
    }
    let mut held = Vec::new();
    let path = "/loki/api/v1/query_range?query=%7Bjob%3D%22unread%22%7D&limit=5000";
    for _ in 0..ground.pick(30, 120) {
        let Ok(mut stream) = ground.connect() else { continue };
        let head = raw::head("GET", path, &[], 0);
        if stream.write_all(head.as_bytes()).is_ok() {
            held.push(stream);
        }
    }
    Pause::default().wait(ground.pick(UNREAD, UNREAD * 8));
    Ok(())
}
