//! The cache over stops and crashes: the values found after each are correct.
//!
//! After a clean stop a key has its newest value or none. After a crash it has a value that it once had:
//! writes and removals of the last moments may be undone, which is documented and which `Warm::Clean`,
//! the server's default, rules out. A memory file does not change that, whether or not the runs in
//! between used it.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_cache::device::FilePart;
use sandur_cache::flash::{FlashOptions, Warm};
use sandur_cache::{Cache, CacheOptions, Hint, Notes, Put, Read, Restored, Stored, Tier};
use sandur_runtime::Env;
use tempfile::TempDir;

fn open(directory: &TempDir, warm: Warm) -> Cache {
    let part = FilePart { path: directory.path().join("flash"), bytes: 24 << 20 };
    let flash = FlashOptions {
        parts: vec![part],
        warm,
        segment_bytes: Some(1 << 20),
        read_deadline: Duration::from_secs(60),
        ..FlashOptions::default()
    };
    let options = CacheOptions { memory: 2 << 20, flash: Some(flash), ..CacheOptions::default() };
    let cache = Cache::open(&Env::system(1), options).unwrap();
    while cache.is_recovering() {
        std::thread::yield_now();
    }
    cache
}

/// As [`open`], and restores the memory file if `restores`.
fn open_and_restore(directory: &TempDir, warm: Warm, restores: bool) -> Cache {
    let cache = open(directory, warm);
    if restores {
        cache.restore(&directory.path().join("memory")).unwrap();
    }
    cache
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn value(key: u64, version: u64) -> Vec<u8> {
    let length = key.wrapping_mul(7919).wrapping_add(version.wrapping_mul(104_729)) % 60_000;
    let mut value = format!("{key}:{version}:").into_bytes();
    value.extend((0..length).map(|at| (at ^ key ^ version) as u8));
    value
}

/// The version that the cache holds of a key. Panics if it is not a complete value of the key.
fn version(cache: &Cache, key: u64) -> Option<u64> {
    let item = wait(cache.get(key.to_string().as_bytes(), &Read::default()).wait())?;
    let text = String::from_utf8_lossy(&item.value[..item.value.len().min(64)]).into_owned();
    let mut parts = text.split(':');
    assert_eq!(parts.next().unwrap(), key.to_string(), "another key's value");
    let version = parts.next().unwrap().parse().unwrap();
    assert_eq!(*item.value, *value(key, version), "key {key}: the value is complete");
    Some(version)
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u64, hint: u8 },
    Get(u64),
    Remove(u64),
    Fill,
    Flush,
    Stop { keeps: bool, restores: bool },
    Crash { restores: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..32u64;
    prop_oneof![
        10 => (key.clone(), 0..3u8).prop_map(|(key, hint)| Step::Put { key, hint }),
        6 => key.clone().prop_map(Step::Get),
        2 => key.prop_map(Step::Remove),
        2 => Just(Step::Fill),
        1 => Just(Step::Flush),
        2 => any::<(bool, bool)>().prop_map(|(keeps, restores)| Step::Stop { keeps, restores }),
        1 => any::<bool>().prop_map(|restores| Step::Crash { restores }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lookups_after_stops_and_crashes_are_right(
        steps in prop::collection::vec(step(), 1..100),
        survives_crashes in any::<bool>(),
    ) {
        let warm = if survives_crashes { Warm::Crash } else { Warm::Clean };
        let directory = TempDir::new().unwrap();
        let mut cache = open(&directory, warm);
        // The versions that a key may have now; none if there is no entry.
        let mut possible: HashMap<u64, HashSet<u64>> = HashMap::new();
        let mut ever: HashMap<u64, HashSet<u64>> = HashMap::new();
        for (at, step) in (1u64..).zip(steps) {
            match step {
                Step::Put { key, hint } => {
                    let hint = [Hint::Point, Hint::Ingest, Hint::Metadata][hint as usize];
                    let with = Put { hint, ..Put::default() };
                    let stored = cache.put(key.to_string().as_bytes(), Bytes::from(value(key, at)), &with);
                    let is_done = matches!(wait(stored.wait()), Stored::Done { .. });
                    prop_assert!(is_done);
                    possible.insert(key, HashSet::from([at]));
                    ever.entry(key).or_default().insert(at);
                }
                Step::Get(key) => match version(&cache, key) {
                    Some(found) => {
                        let allowed = possible.get(&key).is_some_and(|all| all.contains(&found));
                        prop_assert!(allowed, "key {} has version {}", key, found);
                        possible.insert(key, HashSet::from([found]));
                    }
                    None => { possible.remove(&key); }
                },
                Step::Remove(key) => {
                    cache.remove(key.to_string().as_bytes());
                    possible.remove(&key);
                }
                Step::Fill => {
                    for n in 0..60u64 {
                        let key = format!("filler {at} {n}");
                        wait(cache.put(key.as_bytes(), Bytes::from(vec![3; 30_000]), &Put::default()).wait());
                    }
                }
                Step::Flush => {
                    cache.flush_all(None);
                    possible.clear();
                }
                Step::Stop { keeps, restores } => {
                    if keeps {
                        let file = directory.path().join("memory");
                        cache.close_into(&file, Notes::new(), Duration::from_secs(30)).unwrap();
                    } else {
                        cache.close(Duration::from_secs(30));
                    }
                    drop(cache);
                    cache = open_and_restore(&directory, warm, restores);
                }
                Step::Crash { restores } => {
                    drop(cache);
                    cache = open_and_restore(&directory, warm, restores);
                    possible = if survives_crashes { ever.clone() } else { HashMap::new() };
                }
            }
        }
    }
}

#[test]
fn a_clean_stop_keeps_items_that_were_only_in_memory() {
    let directory = TempDir::new().unwrap();
    let cache = open(&directory, Warm::Clean);
    for key in 0..40 {
        wait(cache.put(key.to_string().as_bytes(), Bytes::from(value(key, 1)), &Put::default()).wait());
    }
    let before = (0..40).filter(|key| version(&cache, *key).is_some()).count();
    cache.close(Duration::from_secs(30));
    drop(cache);
    let cache = open(&directory, Warm::Clean);
    let after = (0..40).filter(|key| version(&cache, *key) == Some(1)).count();
    assert!(before == 40 && after == 40, "{before} before the stop, {after} after it");
    let item = wait(cache.get(b"7", &Read::default()).wait()).unwrap();
    assert_eq!(item.meta.tier, Tier::Ram, "a value that was read again is in memory");
    drop(cache);
    let cache = open(&directory, Warm::Clean);
    let kept = (0..40).filter(|key| version(&cache, *key).is_some()).count();
    assert_eq!(kept, 0, "the options discard everything after a crash");
}

#[test]
fn a_memory_file_restores_memory_together_with_flash() {
    const KEYS: u64 = 120;
    let directory = TempDir::new().unwrap();
    let cache = open(&directory, Warm::Clean);
    for key in 0..KEYS {
        let with = Put { hint: if key % 2 == 0 { Hint::Ingest } else { Hint::Point }, ..Put::default() };
        wait(cache.put(key.to_string().as_bytes(), Bytes::from(value(key, 1)), &with).wait());
    }
    let found = |cache: &Cache| (0..KEYS).filter(|key| version(cache, *key) == Some(1)).count() as u64;
    let before = found(&cache);
    let in_memory = cache.stats().items;
    let file = directory.path().join("memory");
    let saved = cache.close_into(&file, Notes::new(), Duration::from_secs(30)).unwrap();
    drop(cache);
    let cache = open(&directory, Warm::Clean);
    let Restored::Items(restored) = cache.restore(&file).unwrap() else { panic!("the file is valid") };
    assert_eq!((saved.items, restored.items), (in_memory, in_memory));
    assert_eq!(found(&cache), before);
    assert!(in_memory < before, "{in_memory} of {before} were in memory");
}
