//! The WAL directory disappears while the server runs: rows that are acknowledged afterwards must exist
//! after a crash.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Attack;
use crate::ground::{ATTACKER, Ground};
use crate::pause::Pause;
use crate::raw;
use std::time::Duration;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "unlinked-wal", about: "the WAL's directory is removed while the server runs", run };

const PUSHES: usize = 40;

fn run(ground: &Ground<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("data");
    let server = ground.setup.serve_store(ground.env, &store)?;
    let first = ground.env.now_ns();
    let mut acknowledged = 0;
    for n in 0..PUSHES {
        if n == PUSHES / 2 {
            fs::remove_dir_all(store.join("wal")).context("cannot remove the WAL directory")?;
        }
        let now = ground.env.now_ns().to_string();
        let body =
            json!({"streams": [{"stream": {"job": "unlinked"}, "values": [[now, format!("line {n}")]]}]});
        let headers = [("Content-Type", "application/json")];
        let to = (ATTACKER, server.address);
        let answer = raw::request(to, "POST", "/loki/api/v1/push", &headers, body.to_string().as_bytes());
        let (status, _) = answer?;
        ground.tally.answer(status, "a push after the WAL was removed");
        acknowledged += u64::from(status == 204 && n >= PUSHES / 2);
        Pause::default().wait(Duration::from_millis(20));
    }
    server.kill()?;
    let Ok(again) = ground.setup.serve_store(ground.env, &store) else {
        // If nothing was acknowledged meanwhile, a start that fails with a reason is acceptable too.
        if acknowledged > 0 {
            ground.tally.finding(format!("{acknowledged} lines were acknowledged into a removed directory"));
        }
        return Ok(());
    };
    let seconds = (ground.env.now_ns() - first) / 1_000_000_000 + 60;
    let query = format!("sum(count_over_time({{job=\"unlinked\"}} |~ `line (2|3).$` [{seconds}s]))");
    let path = format!(
        "/loki/api/v1/query?query={}&time={}",
        sandur_bench::http::escaped(&query),
        ground.env.now_ns() + 1_000_000_000
    );
    let (_, body) = raw::request((ATTACKER, again.address), "GET", &path, &[], b"")?;
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let value = &answer["data"]["result"][0]["value"][1];
    let found: u64 = value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    if found < acknowledged {
        ground.tally.finding(format!("{found} of {acknowledged} acknowledged lines were found"));
    }
    Ok(())
}
