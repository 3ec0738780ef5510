//! Decodes Graphite lines with recurring names and prints the processor time per point.
//!
//! `cargo run --release -p sandur-ingest --example carbon_speed -- NAMES CACHE_MIB`: the series cache may
//! be smaller than the names need.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a measurement reads the real clock

use std::rc::Rc;

use sandur_ingest::{Memory, Push, PushHeaders, SamplePush, SeriesCache, carbon};
use sandur_model::{Limits, MetricLimits, TenantId};

/// Lines per call: the most that a connection may have in flight.
const LINES: usize = 40_000;

struct Endless;

impl Memory for Endless {
    fn take(&self, _: u64) -> bool {
        true
    }

    fn give(&self, _: u64) {}
}

/// Returns processor time in nanoseconds, so that other load does not count.
fn on_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().unwrap());
    let (names, cache_mib) = (arguments.next().unwrap(), arguments.next().unwrap());
    let metrics = MetricLimits { creation_grace_period: 0, ..MetricLimits::default() };
    let limits = Limits { metrics, ..Limits::default() };
    let (tenant, cache) = (TenantId::default_tenant(), SeriesCache::new((cache_mib as u64) << 20, 7));
    for turn in ["first", "again", "again"] {
        let (mut took, mut points) = (0, 0);
        for first in (0..names).step_by(LINES) {
            let mut lines = String::new();
            for n in first..names.min(first + LINES) {
                let (service, host, metric) = (n / 10_000, n / 100 % 100, n % 100);
                let value = n as f64 / 100.0;
                lines += &format!(
                    "prod.service-{service:03}.host-{host:03}.metric-{metric:03} {value} 1700000000\n"
                );
            }
            let started = on_cpu();
            let push = Push { tenant: &tenant, limits: &limits, now_ns: 0, headers: PushHeaders::default() };
            let pushes = [SamplePush::new(push, &cache)];
            let protocol = (&sandur_carbon::PLAINTEXT, false);
            let decoded = carbon(&pushes, &|_| 0, protocol, lines.as_bytes(), Rc::new(Endless)).unwrap();
            points += decoded.batches[0].written.samples;
            drop(decoded);
            took += on_cpu() - started;
        }
        println!("{turn}: {} ns per point of {points}; {} bytes of series", took / points, cache.bytes());
    }
}
