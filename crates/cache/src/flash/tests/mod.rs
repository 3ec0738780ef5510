//! Tests of the flash tier as a whole, over the fault-injecting device and over files.

mod basics;
mod compaction;
mod crash;
mod faults;
mod fixture;
mod matrix;
mod races;
mod tenants;
mod world;

/// The seeds of the random tests. `SANDUR_CACHE_SEEDS` chooses others: `10000` for this number from 0
/// on, `1297..1298` for a range.
fn seeds() -> std::ops::Range<u64> {
    let asked = sandur_runtime::environment::variable("SANDUR_CACHE_SEEDS").unwrap_or_default();
    let (first, end) = asked.split_once("..").unwrap_or(("0", &asked));
    first.parse().unwrap_or(0)..end.parse().unwrap_or(100)
}
