//! A server with a low limit of open files, and more silent connections than the limit: the store must
//! still be able to open its files.

use anyhow::Result;
use sandur_runtime::Env;
use serde_json::json;

use super::Attack;
use crate::ground::{ATTACKER, Ground};
use crate::raw;
use crate::victim::Setup;

/// This attack.
pub static ATTACK: Attack = Attack {
    name: "open-files",
    about: "more silent connections than a server may have open files, during pushes",
    run,
};

/// The limit of open files.
const LIMIT: u32 = 256;

fn run(ground: &Ground<'_>) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let setup = Setup {
        directory: directory.path().to_owned(),
        open_files: Some(LIMIT),
        arguments: vec!["--http-max-connections".to_owned(), "100000".to_owned()],
        ..ground.setup.clone()
    };
    let victim = setup.serve(ground.env)?;
    let mut held = Vec::new();
    for _ in 0..ground.pick(400, 4_000) {
        held.extend(raw::connect_from(ATTACKER, victim.address));
    }
    for number in 0..20 {
        push(ground, ground.env, victim.address, number);
    }
    drop(held);
    for number in 20..40 {
        push(ground, ground.env, victim.address, number);
    }
    Ok(())
}

fn push(ground: &Ground<'_>, env: &Env, address: std::net::SocketAddr, number: u32) {
    let body = json!({"streams": [{
        "stream": {"job": "files"},
        "values": [[env.now_ns().to_string(), format!("line {number}")]],
    }]});
    let headers = [("Content-Type", "application/json")];
    let path = "/loki/api/v1/push";
    match raw::request((ATTACKER, address), "POST", path, &headers, body.to_string().as_bytes()) {
        Ok((204, _)) => ground.tally.answer(204, "a push"),
        Ok((status, text)) => {
            let text = String::from_utf8_lossy(&text);
            ground.tally.finding(format!("push {number} with all files open: {status} {text}"));
        }
        Err(error) => ground.tally.finding(format!("push {number} with all files open: {error}")),
    }
}
