//! Hit ratios of our cache and of others at equal bytes, over generated loads and a public trace.
//!
//! `cargo run --release -p sandur-cache-sim --example hit_ratios -- [LOAD] [SEED]`
//!
//! Prints the table of docs/benchmarks.md, or the rows whose load has LOAD in its name. SEED is the seed
//! of the generated loads, 1 in the table. The public trace is libCacheSim's
//! `data/cloudPhysicsIO.oracleGeneral.bin`; set `SANDUR_CACHE_TRACE` to its path. Takes some minutes on
//! two cores and 1 GB of memory.

use std::fs::File;
use std::io::BufReader;

use sandur_cache::Hint;
use sandur_cache::policy::{Reinsertion, TenantCaps};
use sandur_cache_sim::generate::{KeyValues, Workload};
use sandur_cache_sim::oracle::{Lru, LruFifo, PaperS3Fifo, WTinyLfu, farthest_next_use};
use sandur_cache_sim::trace::OracleGeneral;
use sandur_cache_sim::{Measured, Policy, Request, TierOptions, TwoTier, run};
use sandur_runtime::environment;

/// Number of segments of the simulated flash, as on a small device.
const SEGMENTS: u64 = 256;
/// Share of RAM in a two-tier cache.
const RAM_SHARE: f64 = 0.05;

/// Requests, and the sizes of the caches to which they are applied.
struct Load {
    name: String,
    requests: Vec<Request>,
    capacities: Vec<u64>,
    has_hints: bool,
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let seed = std::env::args().nth(2).map_or(1, |seed| seed.parse().expect("SEED is a number"));
    println!(
        "| load, bytes | ceiling | LRU and FIFO | LRU | S3-FIFO | W-TinyLFU | ours, RAM | two tiers | \
         no hints | writes | no hints |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for (name, make) in loads(seed) {
        if name.contains(&wanted)
            && let Some(load) = make()
        {
            load.capacities.iter().for_each(|capacity| print_row(&load, *capacity));
        }
    }
}

type Make = Box<dyn Fn() -> Option<Load>>;

fn loads(seed: u64) -> Vec<(&'static str, Make)> {
    let week = Workload { seed, hours: 7 * 24, ..Workload::default() };
    let many = vec![1 << 30, 4 << 30, 16 << 30];
    let zipf = |skew, once_share| KeyValues {
        seed,
        reads: 2_000_000,
        keys: 100_000,
        skew,
        once_share,
        value_bytes: 10_000,
    };
    vec![
        ("observability", generated("observability", week, many.clone())),
        ("audits", generated("audits", Workload::audits(seed), many)),
        (
            "mixed scans",
            generated(
                "mixed scans",
                Workload::mixed_scans(seed),
                vec![1_000_000_000, 2_000_000_000, 4_000_000_000],
            ),
        ),
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
        Some(Load {
            name: name.to_owned(),
            requests: keys.generate().collect(),
            capacities,
            has_hints: false,
        })
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
        segment_bytes: (flash_bytes / SEGMENTS).clamp(1, 64 << 20),
        write_bytes_per_day: 0,
        reinsertion: Reinsertion::default(),
        tenants: TenantCaps::default(),
        seed: 1,
    }
}

fn print_row(load: &Load, capacity: u64) {
    let ram = (capacity as f64 * RAM_SHARE) as u64;
    let two = tiers(ram, capacity - ram);
    let requests = &load.requests;
    let (ceiling, others, memory, hinted, blind) = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let policies: [Box<dyn Policy>; 4] = [
                Box::new(LruFifo::new(ram, capacity - ram)),
                Box::new(Lru::new(capacity)),
                Box::new(PaperS3Fifo::new(capacity)),
                Box::new(WTinyLfu::new(capacity)),
            ];
            policies.map(|policy| measure(policy, requests, false).hit_ratio() * 100.0)
        });
        let ceiling = farthest_next_use(requests, capacity) * 100.0;
        let memory = measure(Box::new(TwoTier::new(&tiers(capacity, 0))), requests, false);
        let hinted = measure(Box::new(TwoTier::new(&two)), requests, false);
        let blind = load.has_hints.then(|| measure(Box::new(TwoTier::new(&two)), requests, true));
        (ceiling, others.join().expect("no policy panics"), memory, hinted, blind)
    });
    let best = others[1..].iter().copied().fold(0.0, f64::max);
    let [extstore, lru, fifo, lfu] = others;
    let ours = |measured: &Measured| {
        let percent = measured.hit_ratio() * 100.0;
        format!("{percent:.2} ({:+.2})", percent - best)
    };
    let writes = |measured: &Measured| {
        format!("{:.0} GB, {:.2}", measured.written_bytes as f64 / 1e9, measured.write_amplification())
    };
    println!(
        "| {}, {:.1} GB | {ceiling:.2} | {extstore:.2} | {lru:.2} | {fifo:.2} | {lfu:.2} | {} | {} | {} | {} \
         | {} |",
        load.name,
        capacity as f64 / 1e9,
        ours(&memory),
        ours(&hinted),
        blind.as_ref().map_or_else(String::new, ours),
        writes(&hinted),
        blind.as_ref().map_or_else(String::new, writes),
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
