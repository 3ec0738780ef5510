//! Tests of the flash tier as a whole, over the fault-injecting device and over files.

mod basics;
mod compaction;
mod crash;
mod faults;
mod fixture;
mod races;
mod world;

/// How many seeds the random tests run; `SANDUR_CACHE_SEEDS` asks for more.
fn seeds() -> std::ops::Range<u64> {
    let asked = sandur_base::environment::variable("SANDUR_CACHE_SEEDS");
    0..asked.and_then(|count| count.parse().ok()).unwrap_or(200)
}
