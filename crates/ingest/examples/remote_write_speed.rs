//! Decodes the remote-write bodies of pack files and prints the time per sample.
//!
//! `cargo run --release -p sandur-ingest --example remote_write_speed -- PACK...`: a pack holds frames of
//! a header of 24 bytes (payload length, items, raw bytes, newest time) and a body, like the data sets of
//! the benchmarks.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a measurement reads the real clock

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use sandur_ingest::{Memory, Push, PushHeaders, SamplePush, SeriesCache, remote_write};
use sandur_model::{Limits, MetricLimits, TenantId};

struct Endless;

impl Memory for Endless {
    fn take(&self, _: u64) -> bool {
        true
    }

    fn give(&self, _: u64) {}
}

fn bodies(pack: &Bytes) -> Vec<Bytes> {
    let (mut at, mut bodies) = (0, Vec::new());
    while at + 24 <= pack.len() {
        let length = u32::from_le_bytes(pack[at..at + 4].try_into().unwrap()) as usize;
        bodies.push(pack.slice(at + 24..at + 24 + length));
        at += 24 + length;
    }
    bodies
}

fn main() {
    let packs: Vec<Bytes> =
        std::env::args().skip(1).map(|path| std::fs::read(path).unwrap().into()).collect();
    let bodies: Vec<Bytes> = packs.iter().flat_map(bodies).collect();
    let headers = PushHeaders { content_type: None, content_encoding: Some("snappy") };
    let metrics = MetricLimits { creation_grace_period: 0, ..MetricLimits::default() };
    let limits = Limits { metrics, ..Limits::default() };
    let (tenant, cache) = (TenantId::default_tenant(), SeriesCache::new(256 << 20, 7));
    for turn in ["first", "again", "again"] {
        let started = Instant::now();
        let (mut samples, mut plain) = (0, 0);
        for body in &bodies {
            let push = Push { tenant: &tenant, limits: &limits, now_ns: 0, headers };
            let decoded =
                remote_write(SamplePush::new(push, &cache), body.clone(), Rc::new(Endless)).unwrap();
            samples += decoded.written.samples;
            plain += decoded.batch.arena.bytes.len();
        }
        let took = started.elapsed();
        let mut unpacking = std::time::Duration::ZERO;
        for body in &bodies {
            let started = Instant::now();
            std::hint::black_box(snap::raw::Decoder::new().decompress_vec(body).unwrap());
            unpacking += started.elapsed();
        }
        println!(
            "{turn}: {samples} samples of {} plain bytes, {} ns per sample, of which snappy {} ns; {} bytes \
             of series",
            plain as u64 / samples.max(1),
            took.as_nanos() as u64 / samples.max(1),
            unpacking.as_nanos() as u64 / samples.max(1),
            cache.bytes()
        );
    }
}
