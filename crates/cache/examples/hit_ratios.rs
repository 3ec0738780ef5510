//! Hit ratios of our cache and of others at equal bytes, over made-up loads and a public trace.
//!
//! `cargo run --release -p sandur-cache --example hit_ratios -- [LOAD]`
//!
//! Prints the table of docs/benchmarks.md, or the rows whose load has LOAD in its name. The public trace
//! is libCacheSim's `data/cloudPhysicsIO.oracleGeneral.bin`; name it in `SANDUR_CACHE_TRACE`. All in all
//! some minutes on two cores and 1 GB of memory.

use std::fs::File;
use std::io::BufReader;

use sandur_base::environment;
use sandur_cache::Hint;
use sandur_cache::policy::{Reinsertion, TenantCaps};
use sandur_cache::simulate::generate::{KeyValues, Workload};
use sandur_cache::simulate::oracle::{Lru, PaperS3Fifo, WTinyLfu, farthest_next_use};
use sandur_cache::simulate::trace::OracleGeneral;
use sandur_cache::simulate::{Measured, Policy, Request, TierOptions, TwoTier, run};

/// Segments of the simulated flash, as the engine divides a small device.
const SEGMENTS: u64 = 256;
/// Part of a two-tier cache that is RAM.
const RAM_SHARE: f64 = 0.05;

/// Requests, and the sizes of caches to lead them through.
struct Load {
    name: String,
    requests: Vec<Request>,
    capacities: Vec<u64>,
    has_hints: bool,
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!(
        "| load, bytes | farthest | LRU | S3-FIFO | W-TinyLFU | RAM | two tiers | no hints | to best | \
         to LRU | written | no hints |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for (name, make) in loads() {
        if name.contains(&wanted)
            && let Some(load) = make()
        {
            load.capacities.iter().for_each(|capacity| print_row(&load, *capacity));
        }
    }
}

type Make = Box<dyn Fn() -> Option<Load>>;

fn loads() -> Vec<(&'static str, Make)> {
    let week = |seed| Workload { seed, hours: 7 * 24, ..Workload::default() };
    let many = vec![1 << 30, 4 << 30, 16 << 30];
    let zipf = |skew, once_share| KeyValues {
        seed: 1,
        reads: 2_000_000,
        keys: 100_000,
        skew,
        once_share,
        value_bytes: 10_000,
    };
    vec![
        ("observability", generated("observability", week(1), many.clone())),
        ("audits", generated("audits", Workload::audits(1), many)),
        ("mixed scans", generated("mixed scans", Workload::mixed_scans(1), vec![1 << 30, 2 << 30, 4 << 30])),
        ("Zipf 0.8", keys("Zipf 0.8", zipf(0.8, 0.0))),
        ("Zipf 1.0 and single keys", keys("Zipf 1.0 and single keys", zipf(1.0, 0.25))),
        ("CloudPhysics", Box::new(trace)),
    ]
}

fn generated(name: &'static str, workload: Workload, capacities: Vec<u64>) -> Make {
    Box::new(move || {
        let (requests, capacities) = (workload.generate().collect(), capacities.clone());
        Some(Load { name: name.to_owned(), requests, capacities, has_hints: true })
    })
}

fn keys(name: &'static str, keys: KeyValues) -> Make {
    Box::new(move || {
        let capacities = vec![keys.bytes() / 10, keys.bytes() * 3 / 10];
        Some(Load { name: name.to_owned(), requests: keys.generate().collect(), capacities, has_hints: false })
    })
}

fn trace() -> Option<Load> {
    let path = environment::variable("SANDUR_CACHE_TRACE").filter(|path| !path.is_empty())?;
    let file = File::open(&path).expect("SANDUR_CACHE_TRACE names a readable file");
    let requests: Result<Vec<Request>, _> = OracleGeneral::new(BufReader::new(file)).collect();
    let requests = requests.expect("SANDUR_CACHE_TRACE is an oracleGeneral trace");
    let capacities = vec![203_000_000, 677_000_000];
    Some(Load { name: "CloudPhysics".to_owned(), requests, capacities, has_hints: false })
}

fn tiers(ram_bytes: u64, flash_bytes: u64) -> TierOptions {
    TierOptions {
        ram_bytes,
        flash_bytes,
        segment_bytes: (flash_bytes / environment::variable("SEGS").map_or(SEGMENTS, |t| t.parse().unwrap())).clamp(1, 64 << 20),
        write_bytes_per_day: 0,
        reinsertion: Reinsertion::default(),
        tenants: TenantCaps::default(),
        seed: 1,
    }
}

fn print_row(load: &Load, capacity: u64) {
    let ram = (capacity as f64 * RAM_SHARE) as u64;
    let (hinted, blind) = (tiers(ram, capacity - ram), tiers(ram, capacity - ram));
    let (ceiling, [lru, fifo, lfu, memory], [two, none]) = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let policies: [Box<dyn Policy>; 4] = [
                Box::new(Lru::new(capacity)),
                Box::new(PaperS3Fifo::new(capacity)),
                Box::new(WTinyLfu::new(capacity)),
                Box::new(TwoTier::new(&tiers(capacity, 0))),
            ];
            policies.map(|policy| measure(policy, &load.requests, false))
        });
        let ceiling = farthest_next_use(&load.requests, capacity);
        let two = measure(Box::new(TwoTier::new(&hinted)), &load.requests, false);
        let none = measure(Box::new(TwoTier::new(&blind)), &load.requests, true);
        (ceiling, others.join().expect("no policy panics"), [two, none])
    });
    let percent = |measured: &Measured| measured.hit_ratio() * 100.0;
    let best = percent(&lru).max(percent(&fifo)).max(percent(&lfu));
    let ours = if load.has_hints { percent(&two) } else { percent(&none) };
    let gb = |measured: &Measured| measured.written_bytes as f64 / 1e9;
    println!(
        "| {}, {:.2} GB | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} ({:+.2}) | {:.2} | {:.2} | {:+.2}, {:+.2} | {:+.2} | {:.2} x{:.2} | {:.2} x{:.2} |",
        load.name,
        capacity as f64 / 1e9,
        ceiling * 100.0,
        percent(&lru),
        percent(&fifo),
        percent(&lfu),
        percent(&memory),
        percent(&memory) - best,
        percent(&two),
        percent(&none),
        ours - best,
        percent(&none) - best,
        ours - percent(&lru),
        gb(&two),
        two.write_amplification(),
        gb(&none),
        none.write_amplification(),
    );
}

fn measure(policy: Box<dyn Policy>, requests: &[Request], is_blind: bool) -> Measured {
    let requests = requests.iter().map(|request| {
        let hint = if is_blind { Hint::Point } else { request.hint };
        Ok::<_, ()>(Request { hint, ..*request })
    });
    let mut measured = run(requests, &mut [policy], 0, |_| {}).expect("a list has no errors");
    measured.remove(0)
}
