//! Caps on the shares of flash that tenants may hold: a tenant above its share evicts no other tenant's
//! values, and nothing is refused while there is room.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use bytes::Bytes;
use sandur_base::ErrorKind;
use sandur_cache::device::FilePart;
use sandur_cache::flash::FlashOptions;
use sandur_cache::policy::{Refusal, TenantCaps};
use sandur_cache::{Cache, CacheOptions, Hint, Lookup, Put, Read};
use sandur_runtime::Env;
use tempfile::TempDir;

const MEMORY: u64 = 4 << 20;
const VALUE_BYTES: u64 = 20_000;
/// Values that fill 64 MiB of flash.
const FULL: u64 = (64 << 20) / VALUE_BYTES;

const QUIET: u32 = 7;
const LOUD: u32 = 8;

fn options(directory: &TempDir, tenant_caps: TenantCaps) -> CacheOptions {
    let part = FilePart { path: directory.path().join("flash"), bytes: 64 << 20 };
    let flash = FlashOptions { parts: vec![part], segment_bytes: Some(1 << 20), ..FlashOptions::default() };
    CacheOptions { memory: MEMORY, flash: Some(flash), tenant_caps, ..CacheOptions::default() }
}

fn name(tenant: u32, key: u64) -> String {
    format!("{tenant}:{key}")
}

/// Stores new values of a tenant as fast as the device accepts them.
fn store(cache: &Cache, tenant: u32, keys: std::ops::Range<u64>) {
    for key in keys {
        let put = Put { hint: Hint::Ingest, tenant, ..Put::default() };
        let value = Bytes::from(vec![key as u8; VALUE_BYTES as usize]);
        let _stored = cache.put(name(tenant, key).as_bytes(), value, &put);
        while cache.backpressure().is_some() {
            std::thread::yield_now();
        }
    }
}

/// Number of a tenant's values that are on flash.
fn on_flash(cache: &Cache, tenant: u32, keys: std::ops::Range<u64>) -> u64 {
    let read = Read { quiet: true, ..Read::default() };
    let is_there = |key: &u64| matches!(cache.get(name(tenant, *key).as_bytes(), &read), Lookup::Pending(_));
    keys.filter(is_there).count() as u64
}

fn refused(cache: &Cache) -> u64 {
    let refused = cache.stats().flash.unwrap().refused;
    refused.iter().find(|(reason, _)| *reason == Refusal::TenantShare).unwrap().1
}

/// One tenant fills a third of flash; then another stores twice what flash holds. Returns the number of
/// values left of the first, and the number of the second's values that its cap refused.
fn left_of_a_third(tenant_caps: TenantCaps) -> (u64, u64) {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, tenant_caps)).unwrap();
    store(&cache, QUIET, 0..FULL / 3);
    store(&cache, LOUD, 0..FULL / 4);
    assert_eq!(refused(&cache), 0, "there is room");
    store(&cache, LOUD, FULL / 4..FULL * 2);
    let left = on_flash(&cache, QUIET, 0..FULL / 3);
    let refused_to_loud = refused(&cache);
    // A tenant below its share is not refused: its values replace the oldest ones.
    store(&cache, QUIET, FULL..FULL + FULL / 10);
    let new = on_flash(&cache, QUIET, FULL..FULL + FULL / 10);
    // The last of them are in memory, which answers first; values of the other tenant were evicted from it.
    let in_memory = MEMORY / VALUE_BYTES;
    assert!(new >= FULL / 10 - in_memory, "{new} of {}", FULL / 10);
    assert!(refused(&cache) <= refused_to_loud + in_memory);
    (left, refused_to_loud)
}

#[test]
fn a_tenant_above_its_share_evicts_no_other_tenant() {
    let third = FULL / 3;
    let (left, refused) = left_of_a_third(TenantCaps::default());
    assert!(left < third / 10 && refused == 0, "{left} of {third} left without caps, {refused} refused");
    let for_all = TenantCaps { default: 0.5, named: Vec::new() };
    let for_one = TenantCaps { default: 1.0, named: vec![(LOUD, 0.3)] };
    for caps in [for_all, for_one] {
        let (left, refused) = left_of_a_third(caps.clone());
        assert!(left > third / 2, "{caps:?}: {left} of {third} left");
        assert!(refused > FULL, "{caps:?}: {refused} refused");
    }
}

#[test]
fn a_cap_outside_its_bounds_is_refused_with_them() {
    let directory = TempDir::new().unwrap();
    for (caps, words) in [
        (
            TenantCaps { default: 30.0, named: Vec::new() },
            "the share of flash that a tenant may hold must be from 0 to 1, not 30",
        ),
        (
            TenantCaps { default: 1.0, named: vec![(9, -0.5)] },
            "the share of flash that tenant 9 may hold must be from 0 to 1, not -0.5",
        ),
    ] {
        let error = Cache::open(&Env::system(1), options(&directory, caps)).err().unwrap();
        assert_eq!((error.to_string().as_str(), error.kind()), (words, ErrorKind::Invalid));
    }
}
