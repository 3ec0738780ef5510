//! Malformed requests: broken heads, wrong lengths, unknown methods and paths, random bytes.

use std::io::{Read, Write};

use anyhow::Result;

use super::Attack;
use crate::draws::Draws;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "malformed-requests", about: "broken heads, lengths, chunks and random bytes", run };

const HEADS: &[&str] = &[
    "GET / HTTP/9.9\r\n\r\n",
    "GET\r\n\r\n",
    "POST /loki/api/v1/push HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n",
    "POST /loki/api/v1/push HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "POST /loki/api/v1/push HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST /loki/api/v1/push HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "POST /loki/api/v1/push HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    "POST /otlp/v1/logs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0",
    "BREW /loki/api/v1/query HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /loki/api/v1/query?query=%FF%FE%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /loki/api/v1/label/%2e%2e%2f%2e%2e/values HTTP/1.1\r\nHost: a\r\n\r\n",
];
/// Bytes of one random request.
const RANDOM_BYTES: usize = 4_096;

fn run(ground: &Ground<'_>) -> Result<()> {
    for head in HEADS {
        send(ground, head.as_bytes());
    }
    let long = "x".repeat(1 << 20);
    send(ground, format!("GET /{long} HTTP/1.1\r\n\r\n").as_bytes());
    send(ground, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n").as_bytes());
    let many: String = (0..20_000).map(|n| format!("X-{n}: 1\r\n")).collect();
    send(ground, format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n").as_bytes());
    let mut draws = Draws::new(ground.seed);
    for _ in 0..ground.pick(50, 2_000) {
        let bytes = draws.bytes(RANDOM_BYTES);
        send(ground, &bytes);
        for path in ["/loki/api/v1/push", "/otlp/v1/logs"] {
            ground.ask("POST", path, &[("Content-Type", "application/x-protobuf")], &bytes);
        }
    }
    for tenant in ["", "..", "a|b", "a/b", &"t".repeat(300), "%00", "__", "|", "a||b"] {
        let headers = [("X-Scope-OrgID", tenant)];
        ground.ask("GET", "/loki/api/v1/labels", &headers, b"");
        ground.ask("POST", "/loki/api/v1/push", &headers, b"{}");
    }
    Ok(())
}

/// Sends bytes. The server need not answer, but it must not crash.
fn send(ground: &Ground<'_>, bytes: &[u8]) {
    let Ok(mut stream) = ground.connect() else { return };
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.take(1 << 20).read_to_end(&mut answer);
}
