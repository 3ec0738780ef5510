//! The prediction of a running cache, compared with the hit ratios of that cache and of caches of other
//! sizes.
//!
//! Hashes have a fixed seed, so that the sample is the same in every run. About 3 % of the reads are
//! sampled, and the choice of the sample changes the forecast by one or two percent.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use bytes::Bytes;
use sandur_cache::device::FilePart;
use sandur_cache::flash::FlashOptions;
use sandur_cache::predict::{MEMORY_BYTES_MAX, PRESENT};
use sandur_cache::{Cache, CacheOptions, Put, Read};
use sandur_runtime::Env;
use tempfile::TempDir;

const SEED: u64 = 7;
const MEMORY: u64 = 64 << 20;

fn world() -> Env {
    Env::simulated(SEED, 1_700_000_000_000_000_000)
}

/// Keys with a power law: the square of a uniform number, so that a tenth of the keys gets a third of
/// the reads.
fn keys(count: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        (uniform * uniform * count as f64) as u64
    })
}

/// Reads `reads` keys and puts missing ones. Returns the hit ratio.
fn serve(cache: &Cache, keys: impl Iterator<Item = u64>, reads: usize, value: usize) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut hits = 0;
    for key in keys.take(reads) {
        let key = format!("object {key:012}");
        if runtime.block_on(cache.get(key.as_bytes(), &Read::default()).wait()).is_some() {
            hits += 1;
        } else {
            runtime.block_on(cache.put(key.as_bytes(), Bytes::from(vec![7; value]), &Put::default()).wait());
            while cache.backpressure().is_some() {
                std::thread::yield_now();
            }
        }
    }
    hits as f64 / reads as f64
}

fn check(name: &str, cache: &Cache, (keys_count, reads, value): (u64, usize, usize), tolerance: f64) {
    let measured = serve(cache, keys(keys_count, SEED), reads, value);
    let report = cache.prediction().unwrap();
    let forecast = &report.forecasts[PRESENT];
    println!("{name}: measured {measured:.4}, {report:?}");
    assert!((report.measured_hit_ratio - measured).abs() < 1e-9, "{name}: {}", report.measured_hit_ratio);
    let error = (forecast.hit_ratio - measured).abs();
    assert!(
        error <= tolerance,
        "{name}, seed {SEED}: {:.4} predicted, {measured:.4} measured",
        forecast.hit_ratio
    );
    assert!(report.sampled_reads < reads as f64 / 2.0, "{name}: only a sample is read");
    let rises = report.forecasts.windows(2).all(|pair| pair[0].hit_ratio <= pair[1].hit_ratio + 0.01);
    assert!(rises, "{name}: {:?}", report.forecasts);
    let spread = report.forecasts[7].hit_ratio - report.forecasts[0].hit_ratio;
    assert!(spread > 0.1, "{name}: the hit ratio does not depend on the size: {spread}");
}

#[test]
fn memory_is_predicted_at_its_size_and_at_a_quarter() {
    let load = (60_000, 300_000, 4000);
    let open = |memory| Cache::open(&world(), CacheOptions { memory, ..CacheOptions::default() }).unwrap();
    let cache = open(MEMORY);
    check("memory", &cache, load, 0.02);
    let quarter = &cache.prediction().unwrap().forecasts[0];
    let small = open(quarter.capacity);
    assert!(small.prediction().is_none(), "a cache that is too small has no predictor");
    let measured = serve(&small, keys(load.0, SEED), load.1, load.2);
    let predicted = quarter.hit_ratio;
    println!("a quarter: {predicted:.4} predicted, {measured:.4} measured");
    assert!((predicted - measured).abs() <= 0.03, "{predicted:.4} predicted, {measured:.4} measured");
    assert!(MEMORY_BYTES_MAX as u64 * 16 <= MEMORY);
}

#[test]
fn hit_rates_of_both_tiers_are_predicted() {
    let directory = TempDir::new().unwrap();
    let part = FilePart { path: directory.path().join("flash"), bytes: 160 << 20 };
    let flash = FlashOptions { parts: vec![part], ..FlashOptions::default() };
    let options = CacheOptions { memory: MEMORY, flash: Some(flash), ..CacheOptions::default() };
    let cache = Cache::open(&world(), options).unwrap();
    // The model writes to flash when a value is stored, the cache when it leaves memory.
    check("flash", &cache, (40_000, 120_000, 12_000), 0.04);
}
