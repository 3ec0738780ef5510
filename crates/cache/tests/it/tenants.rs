//! Parts of flash that tenants may hold: who brings more than its part pushes nobody else out, and nothing is
//! refused while there is room.

#![allow(clippy::unwrap_used)] // also in the functions that tests share

use bytes::Bytes;
use sandur_base::{Env, ErrorKind};
use sandur_cache::device::FilePart;
use sandur_cache::flash::FlashOptions;
use sandur_cache::policy::{Refusal, TenantCaps};
use sandur_cache::{Cache, CacheOptions, Hint, Lookup, Put, Read};
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

/// A tenant stores new values, as fast as the device takes them.
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

/// How many of a tenant's values are on flash.
fn on_flash(cache: &Cache, tenant: u32, keys: std::ops::Range<u64>) -> u64 {
    let read = Read { quiet: true, ..Read::default() };
    let is_there = |key: &u64| matches!(cache.get(name(tenant, *key).as_bytes(), &read), Lookup::Pending(_));
    keys.filter(is_there).count() as u64
}

fn refused(cache: &Cache) -> u64 {
    let refused = cache.stats().flash.unwrap().refused;
    refused.iter().find(|(reason, _)| *reason == Refusal::TenantShare).unwrap().1
}

/// What is left of a third of flash that one tenant filled, after another stored twice as much as flash
/// holds; and how much of that was refused for its tenant's part.
fn left_of_a_third(tenant_caps: TenantCaps) -> (u64, u64) {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, tenant_caps)).unwrap();
    store(&cache, QUIET, 0..FULL / 3);
    store(&cache, LOUD, 0..FULL / 4);
    assert_eq!(refused(&cache), 0, "there is room");
    store(&cache, LOUD, FULL / 4..FULL * 2);
    let left = on_flash(&cache, QUIET, 0..FULL / 3);
    let refused_to_loud = refused(&cache);
    // Who is below its part is not refused: what it stores takes the place of what is oldest.
    store(&cache, QUIET, FULL..FULL + FULL / 10);
    let new = on_flash(&cache, QUIET, FULL..FULL + FULL / 10);
    // The last of them are in memory, which is asked first; those of the other had to leave it.
    let in_memory = MEMORY / VALUE_BYTES;
    assert!(new >= FULL / 10 - in_memory, "{new} of {}", FULL / 10);
    assert!(refused(&cache) <= refused_to_loud + in_memory);
    (left, refused_to_loud)
}

#[test]
fn a_tenant_above_its_part_evicts_no_other_tenant() {
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
fn a_cap_that_is_no_part_is_refused_with_its_bounds() {
    let directory = TempDir::new().unwrap();
    for (caps, words) in [
        (
            TenantCaps { default: 30.0, named: Vec::new() },
            "a tenant may hold a part of flash between 0 and 1, not 30",
        ),
        (
            TenantCaps { default: 1.0, named: vec![(9, -0.5)] },
            "tenant 9 may hold a part of flash between 0 and 1, not -0.5",
        ),
    ] {
        let error = Cache::open(&Env::system(1), options(&directory, caps)).err().unwrap();
        assert_eq!((error.to_string().as_str(), error.kind()), (words, ErrorKind::Invalid));
    }
}
