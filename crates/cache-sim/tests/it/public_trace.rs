//! Hit ratios over a public trace, if it is available.
//!
//! The trace is `data/cloudPhysicsIO.oracleGeneral.bin` of libCacheSim's repository, which is not part
//! of this one. Set `SANDUR_CACHE_TRACE` to its path; without it the test prints that it was skipped.

use std::fs::File;
use std::io::BufReader;

use sandur_cache::policy::{Reinsertion, TenantCaps};
use sandur_cache_sim::oracle::{Lru, PaperS3Fifo, WTinyLfu};
use sandur_cache_sim::trace::OracleGeneral;
use sandur_cache_sim::{Policy, Request, TierOptions, TwoTier, run};
use sandur_runtime::environment;

/// Most points by which ours may be below the best of the others.
const POINTS_BELOW_MAX: f64 = 0.5;

#[test]
fn our_hit_ratio_is_near_the_best_on_block_accesses() {
    let Some(path) = environment::variable("SANDUR_CACHE_TRACE").filter(|path| !path.is_empty()) else {
        println!("SKIPPED: SANDUR_CACHE_TRACE names no oracleGeneral trace");
        return;
    };
    let trace = OracleGeneral::new(BufReader::new(File::open(path).unwrap()));
    let requests: Vec<Request> = trace.collect::<Result<_, _>>().unwrap();
    for capacity in [20_000_000, 100_000_000, 203_000_000, 400_000_000, 677_000_000, 1_000_000_000] {
        let options = |ram_bytes, flash_bytes: u64| TierOptions {
            ram_bytes,
            flash_bytes,
            segment_bytes: (flash_bytes / 256).max(1),
            write_bytes_per_day: 0,
            reinsertion: Reinsertion::default(),
            tenants: TenantCaps::default(),
            seed: 1,
        };
        let two = options(capacity / 20, capacity - capacity / 20);
        let mut policies: Vec<Box<dyn Policy>> = vec![
            Box::new(Lru::new(capacity)),
            Box::new(PaperS3Fifo::new(capacity)),
            Box::new(WTinyLfu::new(capacity)),
            Box::new(TwoTier::new(&options(capacity, 0))),
            Box::new(TwoTier::new(&two)),
        ];
        let measured = run(requests.iter().copied().map(Ok::<_, ()>), &mut policies, 0, |_| {}).unwrap();
        let [lru, fifo, lfu, ram, flash] = [0, 1, 2, 3, 4].map(|at| measured[at].hit_ratio() * 100.0);
        println!(
            "{capacity} bytes: LRU {lru:.2}, S3-FIFO {fifo:.2}, W-TinyLFU {lfu:.2}, RAM {ram:.2}, \
             two tiers {flash:.2}"
        );
        let least = lru.max(fifo).max(lfu) - POINTS_BELOW_MAX;
        assert!(ram >= least && flash >= least, "{capacity} bytes: RAM {ram}, two tiers {flash} of {least}");
    }
}
