//! Compression bombs of every encoding, and many concurrent valid bodies that compress well.

use std::io::Write;

use anyhow::Result;
use flate2::Compression;
use serde_json::json;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack = Attack {
    name: "compressed-bodies",
    about: "bombs, and bodies that become much larger when decompressed",
    run,
};

/// Decompressed bytes of a bomb.
const BOMB_BYTES: usize = 256 << 20;
/// Decompressed bytes of valid bodies: one that a small server must refuse, one that it can accept.
const BODY_BYTES: [usize; 2] = [28 << 20, 10 << 20];
const JSON: (&str, &str) = ("Content-Type", "application/json");
const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");

fn run(ground: &Ground<'_>) -> Result<()> {
    bombs(ground)?;
    let clients = ground.pick(12, 40);
    let bodies = [honest(ground, BODY_BYTES[0])?, honest(ground, BODY_BYTES[1])?];
    std::thread::scope(|scope| {
        for client in 0..clients {
            let body = &bodies[client % 2];
            scope.spawn(move || {
                for _ in 0..ground.pick(1, 4) {
                    ground.ask("POST", "/loki/api/v1/push", &[JSON, ("Content-Encoding", "gzip")], body);
                }
            });
        }
    });
    Ok(())
}

fn bombs(ground: &Ground<'_>) -> Result<()> {
    let zeros = vec![b' '; ground.pick(BOMB_BYTES / 4, BOMB_BYTES)];
    let gzip = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&zeros)?;
        encoder.finish()?
    };
    let deflate = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&zeros)?;
        encoder.finish()?
    };
    let lz4 = {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(&zeros)?;
        encoder.finish()?
    };
    let twice = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&gzip)?;
        encoder.finish()?
    };
    let bodies = [
        ("gzip", gzip),
        ("deflate", deflate),
        ("zstd", zstd::encode_all(zeros.as_slice(), 3)?),
        ("lz4", lz4),
        ("snappy", snap::raw::Encoder::new().compress_vec(&zeros)?),
        ("gzip", twice),
        // A snappy block that announces 4 GiB and is empty.
        ("snappy", vec![0xFF, 0xFF, 0xFF, 0xFF, 0x0F]),
    ];
    std::thread::scope(|scope| {
        for (encoding, body) in &bodies {
            scope.spawn(move || {
                for (path, kind) in [
                    ("/loki/api/v1/push", JSON),
                    ("/loki/api/v1/push", PROTOBUF),
                    ("/otlp/v1/logs", JSON),
                    ("/otlp/v1/logs", PROTOBUF),
                ] {
                    ground.ask("POST", path, &[kind, ("Content-Encoding", encoding)], body);
                }
            });
        }
    });
    Ok(())
}

/// Returns a body of many similar lines: some hundred kilobytes when compressed.
fn honest(ground: &Ground<'_>, bytes: usize) -> Result<Vec<u8>> {
    let line = "GET /api/v1/items 200 ".repeat(20);
    let count = bytes / (line.len() + 40);
    let now = ground.env.now_ns();
    let entry = |n: usize| json!([(now + n as i64).to_string(), format!("{:x} {line}", n * 2_654_435_761)]);
    let values: Vec<_> = (0..count).map(entry).collect();
    let body = json!({"streams": [{"stream": {"job": "compressed"}, "values": values}]}).to_string();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body.as_bytes())?;
    Ok(encoder.finish()?)
}
