//! Hostile remote writes: bombs, messages that announce more than they contain, endless labels,
//! histograms whose spans name more buckets than there are, and bodies that decode to many series.

use anyhow::{Context, Result};
use sandur_protobuf::{Writer as _, prometheus};

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "remote-writes", about: "hostile bodies of remote write 1 and 2", run };

const PATH: &str = "/api/v1/write";
pub(super) const V1: &[(&str, &str)] =
    &[("Content-Type", "application/x-protobuf"), ("Content-Encoding", "snappy")];
const V2: &[(&str, &str)] = &[
    ("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request"),
    ("Content-Encoding", "snappy"),
];
/// Decompressed bytes of a bomb.
const BOMB_BYTES: usize = 256 << 20;

fn run(ground: &Ground<'_>) -> Result<()> {
    for plain in hostile(ground) {
        let body = snap::raw::Encoder::new().compress_vec(&plain).context("snappy can compress any bytes")?;
        for headers in [V1, V2] {
            ground.ask("POST", PATH, headers, &body);
        }
    }
    // Snappy blocks that announce 4 GiB or end early.
    for body in [&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F][..], &[0x80, 0x80, 0x80, 0x08, 0xFC, 1, 2], b"", b"\0"] {
        for headers in [V1, V2] {
            ground.ask("POST", PATH, headers, body);
        }
    }
    let clients = ground.pick(6, 24);
    std::thread::scope(|scope| {
        for client in 0..clients {
            scope.spawn(move || many_series(ground, client));
        }
    });
    Ok(())
}

/// Decompressed bodies of both versions. Each is sent as either version.
fn hostile(ground: &Ground<'_>) -> Vec<Vec<u8>> {
    let label = |name: &str, value: &str| {
        let pair = [field(1, name.as_bytes()), field(2, value.as_bytes())].concat();
        field(1, &pair)
    };
    let name = label("__name__", "attack");
    let sample =
        field(2, &[&[0x09][..], &f64::NAN.to_bits().to_le_bytes(), &[0x10], &[0xFF; 9], &[1]].concat());
    let count = ground.pick(20_000, 400_000);
    let labels: Vec<u8> = (0..count).flat_map(|n| label(&format!("l{n}"), "v")).collect();
    let same: Vec<u8> = (0..count).flat_map(|_| label("l", "v")).collect();
    let samples = sample.repeat(count);
    // A histogram with spans of four billion buckets, and one with more spans than buckets.
    let span = field(11, &[0x08, 0, 0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F]);
    let histogram = field(4, &span.repeat(1_000));
    let symbols: Vec<u8> = (0..count).flat_map(|n| field(4, format!("s{n}").as_bytes())).collect();
    let references = field(1, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F].repeat(1_000));
    vec![
        vec![0; ground.pick(BOMB_BYTES / 8, BOMB_BYTES)],
        field(1, &[labels, sample.clone()].concat()),
        field(1, &[same, sample.clone()].concat()),
        field(1, &[name.clone(), samples].concat()),
        field(1, &[name.clone(), histogram.repeat(100)].concat()),
        field(1, &[label("__name__", &"n".repeat(16 << 20)), sample].concat()),
        [symbols, field(5, &references)].concat(),
        field(1, &[]).repeat(count),
        field(5, &[]).repeat(count),
        [&[0x0A][..], &[0xFF; 9], &[0x01]].concat(),
        vec![0xFF; 4_096],
    ]
}

/// Sends valid series that are all new, as of an exporter with a label that differs for each request.
fn many_series(ground: &Ground<'_>, client: usize) {
    let now = ground.env.now_ns() / 1_000_000;
    for round in 0..ground.pick(1, 20) {
        let mut plain = Vec::new();
        for n in 0..10_000 {
            let id = format!("{client}-{round}-{n}");
            let pairs = [("__name__", "churn"), ("id", id.as_str())];
            prometheus::series(&mut plain, pairs, [(now, n as f64)]);
        }
        let Ok(body) = snap::raw::Encoder::new().compress_vec(&plain) else { return };
        ground.ask("POST", PATH, V1, &body);
    }
}

/// Encodes a field of bytes.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.bytes(number, bytes);
    out
}
