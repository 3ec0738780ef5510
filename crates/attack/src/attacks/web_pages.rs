//! A web page makes its browser send requests to the listeners of line protocols, with lines as bodies.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use super::Attack;
use crate::ground::{ATTACKER, Ground};
use crate::raw;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "web-pages", about: "requests of browsers to the listeners of line protocols", run };

/// A name that no page may write.
const NAME: &str = "attack.page";

fn run(ground: &Ground<'_>) -> Result<()> {
    let now = ground.env.now_ns() / 1_000_000_000;
    let point = format!("\n{NAME} 1 {now}\n");
    let beginnings = [
        "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
    ];
    let long = format!("POST /{} HTTP/1.1\r\n\r\n", "x".repeat(40_000));
    for beginning in beginnings.into_iter().chain([long.as_str()]) {
        for listener in [ground.carbon.plaintext, ground.carbon.pickle, ground.carbon.protobuf] {
            expect_end(ground, listener, &format!("{beginning}{point}"))?;
        }
        expect_end(ground, ground.cache, &format!("{beginning}set {NAME} 0 0 1\r\n1\r\n"))?;
    }
    let query = format!("/api/v1/query?query=%7B__name__%3D%22{NAME}%22%7D");
    let stored = ground.ask("GET", &query, &[], b"").unwrap_or_default();
    if String::from_utf8_lossy(&stored).contains(NAME) {
        ground.tally.finding("a web page stored a point".to_owned());
    }
    let mut client = raw::connect_from(ATTACKER, ground.cache)?;
    client.write_all(format!("get {NAME}\r\nquit\r\n").as_bytes())?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    if answer != "END\r\n" {
        ground.tally.finding(format!("a web page stored a value: {answer:?}"));
    }
    Ok(())
}

/// Sends a request and waits until the server closes the connection.
fn expect_end(ground: &Ground<'_>, listener: SocketAddr, request: &str) -> Result<()> {
    let mut stream = raw::connect_from(ATTACKER, listener)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    // The server may close the connection in the middle.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    if ended.is_err_and(|error| matches!(error.kind(), std::io::ErrorKind::WouldBlock)) {
        ground.tally.finding(format!("{listener} keeps the connection open after an HTTP request"));
    }
    Ok(())
}
