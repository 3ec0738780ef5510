//! Both tiers through the public interface: evicted items are found on flash, and nothing stale is ever
//! served.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_cache::device::FilePart;
use sandur_cache::flash::{FlashOptions, FlashStats, Journaling, SegmentState, Warm};
use sandur_cache::policy::Refusal;
use sandur_cache::{
    Applied, Cache, CacheOptions, Change, Condition, Hint, Item, ItemMeta, Lookup, Put, Read, Revision,
    Stored, Tier,
};
use sandur_runtime::Env;
use tempfile::TempDir;

fn options(directory: &TempDir, memory: u64, flash: u64) -> CacheOptions {
    let part = FilePart { path: directory.path().join("flash"), bytes: flash };
    let flash = FlashOptions {
        parts: vec![part],
        warm: Warm::Crash,
        journaling: Journaling::Grouped,
        segment_bytes: Some(1 << 20),
        read_deadline: Duration::from_secs(60),
        ..FlashOptions::default()
    };
    CacheOptions { memory, flash: Some(flash), ..CacheOptions::default() }
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn get(cache: &Cache, key: &str) -> Option<Item> {
    wait(cache.get(key.as_bytes(), &Read::default()).wait())
}

fn put(cache: &Cache, key: &str, value: Vec<u8>, put: &Put) -> Stored {
    wait(cache.put(key.as_bytes(), Bytes::from(value), put).wait())
}

fn device(cache: &Cache) -> FlashStats {
    cache.stats().flash.unwrap().device
}

/// Number of writes that may be queued: a fraction of the buffers.
const QUEUED: u64 = 4;

/// Waits, as a slower writer would, until the next items evicted from memory find room in the write
/// buffers. Without that, values are dropped in numbers that depend on the scheduler.
fn drain(cache: &Cache) {
    while cache.backpressure().is_some() || device(cache).queued_writes > QUEUED {
        std::thread::yield_now();
    }
}

/// Waits until everything is written.
fn write_out(cache: &Cache) {
    while device(cache).unwritten_bytes > 0 {
        std::thread::yield_now();
    }
}

/// Segments that a small device keeps free: one for each of four classes, and two.
const KEPT_FREE: usize = 6;

/// Waits until everything is written and flash has freed its reserve. Before that, flash holds more than
/// its normal content, and it is not known what it must evict for the next value.
fn settle(cache: &Cache) {
    let is_settled = || {
        let device = device(cache);
        let free = device.segments.iter().filter(|segment| segment.state == SegmentState::Free).count();
        device.unwritten_bytes == 0 && device.queued_writes == 0 && free >= KEPT_FREE
    };
    while !is_settled() {
        std::thread::yield_now();
    }
}

/// A value that names its key and version, with a length that follows from both.
fn value(key: u64, version: u64, longest: u64) -> Vec<u8> {
    let mut value = format!("{key}:{version}:").into_bytes();
    let length = key.wrapping_mul(7919).wrapping_add(version.wrapping_mul(104_729)) % longest;
    value.extend((0..length).map(|at| (at ^ key ^ version) as u8));
    value
}

/// The version of a value. Panics unless it is complete and of the key.
fn version(key: u64, bytes: &[u8], longest: u64) -> u64 {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned();
    let mut parts = text.split(':');
    assert_eq!(parts.next().unwrap(), key.to_string(), "another key's value");
    let version = parts.next().unwrap().parse().unwrap();
    assert_eq!(bytes, value(key, version, longest), "key {key}: the value is complete");
    version
}

#[test]
fn evicted_items_are_found_on_flash_and_promoted_when_read_again() {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 4 << 20, 128 << 20)).unwrap();
    let count = 4000;
    for key in 0..count {
        let put = put(&cache, &key.to_string(), value(key, 1, 10_000), &Put::default());
        assert!(matches!(put, Stored::Done { .. }));
        drain(&cache);
    }
    let stats = cache.stats();
    let lost = stats.ram.evicted;
    assert!(stats.ram.demoted > count / 2, "{:?}", stats.ram);
    assert!(lost <= count / 100, "{lost} lost although flash has room");
    let mut missing = 0;
    for key in 0..count {
        match get(&cache, &key.to_string()) {
            Some(item) => assert_eq!(version(key, &item.value, 10_000), 1),
            None => missing += 1,
        }
    }
    assert!(missing <= lost, "{missing} missing, {lost} lost");
    let tier = |key: u64| get(&cache, &key.to_string()).map(|item| item.meta.tier);
    let key = (0..count).find(|key| tier(*key) == Some(Tier::Flash)).unwrap().to_string();
    for _ in 0..2 {
        get(&cache, &key);
    }
    assert_eq!(get(&cache, &key).unwrap().meta.tier, Tier::Ram);
    let stats = cache.stats();
    let flash = stats.flash.unwrap();
    let counts = &flash.device.counts;
    assert!(flash.hits > count / 2 && flash.promoted > 0, "{} hits, {counts:?}", flash.hits);
    assert!(flash.latency.count >= flash.hits);
    assert!(stats.memory_used <= stats.memory_limit + stats.memory_limit / 16);
}

/// Goal: an item in memory counts once, whether flash has dropped its copy or not. Method: some items are
/// read repeatedly, so that memory keeps them while all of flash is replaced; then every key is looked up.
#[test]
fn items_of_both_tiers_are_counted_once_each() {
    const KEYS: u64 = 24_000;
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 4 << 20, 64 << 20)).unwrap();
    for key in 0..KEYS {
        let hint = if key % 2 == 0 { Hint::Ingest } else { Hint::Point };
        if hint == Hint::Point {
            // Without a miss before it, an ordinary value would be evicted for ingested ones.
            assert!(get(&cache, &key.to_string()).is_none());
        }
        put(&cache, &key.to_string(), value(key, 1, 8_000), &Put { hint, ..Put::default() });
        get(&cache, &(key % 50).to_string());
        if key % 100 == 3 {
            cache.remove((key - 1).to_string().as_bytes());
            put(&cache, &(key - 2).to_string(), value(key - 2, 2, 8_000), &Put { hint, ..Put::default() });
        }
        drain(&cache);
    }
    write_out(&cache);
    let quiet = Read { quiet: true, ..Read::default() };
    let find = |key: u64| wait(cache.get(key.to_string().as_bytes(), &quiet).wait());
    // Segments may still be freed, so the count is compared before and after.
    let found = loop {
        let before = cache.count_items();
        // Only the metadata: the items would hold the buffers of reads.
        let found: Vec<ItemMeta> = (0..KEYS).filter_map(|key| find(key).map(|item| item.meta)).collect();
        if cache.count_items() == before {
            assert_eq!(before, found.len() as u64);
            break found;
        }
    };
    let stats = cache.stats();
    let flash = stats.flash.unwrap().device;
    assert!(flash.counts.segments_reclaimed > 20, "flash was replaced completely");
    assert!((found.len() as u64) < stats.items + flash.records, "some are in both");
    let says_so = found.iter().filter(|meta| meta.tier == Tier::Ram && meta.on_flash).count() as u64;
    let shared = stats.items + flash.records - found.len() as u64;
    assert!(says_so > shared, "memory does not know that {} copies are dropped", says_so - shared);
    // With many items in memory, the count looks at a sample.
    let directory = TempDir::new().unwrap();
    let memory = Cache::open(&Env::system(1), options(&directory, 64 << 20, 64 << 20)).unwrap();
    for key in 0..60_000 {
        // Items that are on flash too were stored consecutively.
        let hint = if key < 20_000 { Hint::Ingest } else { Hint::Point };
        put(&memory, &key.to_string(), value(key, 1, 300), &Put { hint, ..Put::default() });
    }
    let (counted, items) = (memory.count_items(), memory.stats().items);
    assert_eq!(items, 60_000, "all are in memory");
    assert!(counted.abs_diff(items) * 100 < items * 6, "{counted} counted, {items} there");
}

#[test]
fn a_multiget_over_both_tiers_keeps_the_order_of_its_keys() {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 4 << 20, 128 << 20)).unwrap();
    for key in 0..1000 {
        put(&cache, &key.to_string(), value(key, 1, 20_000), &Put::default());
        drain(&cache);
    }
    let names: Vec<String> = (0..1100).step_by(7).map(|key: u64| key.to_string()).collect();
    let mut lookups = Vec::new();
    cache.get_many(names.iter().map(|name| name.as_bytes()), &Read::default(), &mut lookups);
    assert!(lookups.iter().any(|lookup| matches!(lookup, Lookup::Pending(_))));
    for (name, lookup) in names.iter().zip(lookups) {
        let key = name.parse().unwrap();
        let item = wait(lookup.wait());
        assert_eq!(item.is_some(), key < 1000, "{key}: {:?}", cache.stats().ram);
        item.inspect(|item| assert_eq!(version(key, &item.value, 20_000), 1));
    }
}

#[test]
fn hints_decide_what_is_written_at_once() {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 16 << 20, 64 << 20)).unwrap();
    let records = || device(&cache).records;
    let with = |hint| Put { hint, ..Put::default() };
    put(&cache, "point", value(1, 1, 1000), &with(Hint::Point));
    assert_eq!(records(), 0, "an ordinary value is not written yet");
    put(&cache, "ingest", value(2, 1, 1000), &with(Hint::Ingest));
    put(&cache, "metadata", value(3, 1, 1000), &with(Hint::Metadata));
    put(&cache, "small scan", value(4, 1, 1000), &with(Hint::Scan { bytes: 1 << 20 }));
    assert_eq!(records(), 3);
    put(&cache, "large scan", value(5, 1, 1000), &with(Hint::Scan { bytes: 1 << 30 }));
    assert_eq!(records(), 4, "there is room");
    put(&cache, "ingest", value(2, 2, 1000), &with(Hint::Point));
    assert_eq!(records(), 3, "no older version stays on flash");
}

#[test]
fn values_of_a_large_scan_are_evicted_without_a_write() {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 4 << 20, 64 << 20)).unwrap();
    let with = |hint| Put { hint, ..Put::default() };
    for key in 0..9_000 {
        put(&cache, &format!("new {key}"), value(key, 1, 20_000), &with(Hint::Ingest));
        drain(&cache);
    }
    settle(&cache);
    for key in 0..1_000 {
        put(&cache, &format!("scan {key}"), value(key, 1, 20_000), &with(Hint::Scan { bytes: 1 << 30 }));
        drain(&cache);
    }
    let of_scan = |key| cache.get(format!("scan {key}").as_bytes(), &Read::default());
    let on_flash = (0..1_000).filter(|key| matches!(of_scan(*key), Lookup::Pending(_))).count();
    // Equal fingerprints admit one in some thousands.
    assert!(on_flash <= 2, "{on_flash} of 1,000 on flash");
    let refused = cache.stats().flash.unwrap().refused;
    let scanned_once = refused.iter().find(|(reason, _)| *reason == Refusal::ScannedOnce).unwrap().1;
    assert!(scanned_once >= 1_500, "{scanned_once}: at storing, and mostly again at eviction from memory");
}

/// Goal: a key that is only on flash works in conditions and read-modify-writes like any other.
#[test]
fn changes_of_keys_on_flash_are_atomic() {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 4 << 20, 128 << 20)).unwrap();
    let push_out = || {
        for key in 0..200 {
            put(&cache, &format!("filler {key}"), vec![1; 15_000], &Put::default());
            drain(&cache);
        }
        // In small steps, because only a part of the remaining memory may wait to be written.
        for limit in (1 << 20..4 << 20).rev().step_by(48 << 10) {
            cache.set_memory_limit(limit);
            drain(&cache);
        }
        cache.set_memory_limit(4 << 20);
    };
    let Stored::Done { cas } = put(&cache, "k", b"1".to_vec(), &Put::default()) else { panic!() };
    push_out();
    let absent = Put { condition: Condition::Absent, ..Put::default() };
    let found = cache.get(b"k", &Read { quiet: true, ..Read::default() });
    assert!(matches!(found, Lookup::Pending(_)), "{found:?}: {:?}", cache.stats().ram);
    assert_eq!(put(&cache, "k", b"2".to_vec(), &absent), Stored::Exists);
    push_out();
    let stale = Put { condition: Condition::Cas(cas + 1_000_000), ..Put::default() };
    assert_eq!(put(&cache, "k", b"2".to_vec(), &stale), Stored::Exists);
    push_out();
    let right = Put { condition: Condition::Cas(cas), ..Put::default() };
    assert!(matches!(put(&cache, "k", b"10".to_vec(), &right), Stored::Done { .. }));
    for _ in 0..5 {
        push_out();
        let increment = |item: Option<&Item>| {
            let number: u64 = std::str::from_utf8(&item.unwrap().value).unwrap().parse().unwrap();
            (Change::Write(Bytes::from((number + 1).to_string()), Put::default()), number + 1)
        };
        wait(cache.update(b"k", increment).wait());
    }
    push_out();
    assert_eq!(&*get(&cache, "k").unwrap().value, b"15");
    push_out();
    let mark = Revision { stale: Some(true), ..Revision::default() };
    let updated = wait(cache.update(b"k", move |_| (Change::Revise(mark), ())).wait());
    assert_eq!(updated.applied, Applied::Revised);
    assert!(get(&cache, "k").unwrap().meta.stale);
    push_out();
    // Marks cannot be stored on flash: the item is dropped instead of becoming fresh again.
    assert!(get(&cache, "k").is_none_or(|item| item.meta.stale));
    put(&cache, "k", b"20".to_vec(), &Put::default());
    push_out();
    assert!(cache.remove(b"k"));
    assert!(get(&cache, "k").is_none() && !cache.remove(b"k"));
    let missing = wait(cache.update(b"k", |item| (Change::Keep, item.is_none())).wait());
    assert!(missing.answer);
}

#[test]
fn a_flush_voids_both_tiers() {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 4 << 20, 64 << 20)).unwrap();
    for key in 0..1000 {
        put(&cache, &key.to_string(), value(key, 1, 10_000), &Put::default());
    }
    cache.flush_all(None);
    put(&cache, "1", value(1, 2, 10_000), &Put::default());
    let left: Vec<u64> = (0..1000).filter(|key| get(&cache, &key.to_string()).is_some()).collect();
    assert_eq!(left, [1]);
}

/// Goal: a value is not lost when memory is full and cannot evict.
#[test]
fn a_value_that_does_not_fit_into_memory_goes_to_flash() {
    let directory = TempDir::new().unwrap();
    let mut options = options(&directory, 4 << 20, 512 << 20);
    options.flash.as_mut().unwrap().segment_bytes = None;
    let cache = Cache::open(&Env::system(1), options).unwrap();
    let _held = cache.reserve(3 << 20).unwrap();
    let large = vec![7u8; 2 << 20];
    let stored = put(&cache, "large", large.clone(), &Put::default());
    let flash = cache.stats().flash.unwrap();
    let (dropped, refused) = (flash.device.counts.dropped, flash.refused);
    assert!(matches!(stored, Stored::Done { .. }), "{stored:?}: {dropped:?}, {refused:?}");
    let stats = cache.stats();
    assert_eq!((stats.items, stats.flash.unwrap().device.records > 0), (0, true));
}

/// Goal: no reader gets a value older than an acknowledged one, or another key's, while items move
/// between the tiers. Method: each key has one writer, which publishes its last write; readers take that
/// first and must not find an older one.
#[test]
fn readers_never_see_an_acknowledged_write_undone() {
    const KEYS: u64 = 96;
    const LONGEST: u64 = 120_000;
    const ROUNDS: u64 = 79;
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 2 << 20, 32 << 20)).unwrap();
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (cache, acknowledged) = (cache.clone(), Arc::clone(&acknowledged));
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    for key in (writer..KEYS).step_by(2) {
                        let name = key.to_string();
                        let hint = [Hint::Point, Hint::Ingest, Hint::Point, Hint::Metadata];
                        let with = Put { hint: hint[(round % 4) as usize], ..Put::default() };
                        match (key + round) % 5 {
                            0 => drop(cache.remove(name.as_bytes())),
                            1 => {
                                let next = Bytes::from(value(key, round, LONGEST));
                                let update =
                                    cache.update(name.as_bytes(), |_| (Change::Write(next, with), ()));
                                wait(update.wait());
                            }
                            _ => drop(put(&cache, &name, value(key, round, LONGEST), &with)),
                        }
                        acknowledged[key as usize].store(round, Ordering::Release);
                        // If values were dropped because the device is too slow, nothing would be evicted.
                        drain(&cache);
                    }
                }
            });
        }
        for reader in 0..2 {
            let (cache, acknowledged) = (cache.clone(), Arc::clone(&acknowledged));
            scope.spawn(move || {
                let is_written = || acknowledged.iter().all(|of| of.load(Ordering::Acquire) == ROUNDS);
                // A last pass after the last write, when most remaining values are only on flash.
                let mut left = KEYS;
                for step in 0.. {
                    match step >= 6_000 && is_written() {
                        true if left == 0 => break,
                        true => left -= 1,
                        false => left = KEYS,
                    }
                    let key = (step * 7 + reader) % KEYS;
                    let least = acknowledged[key as usize].load(Ordering::Acquire);
                    let Some(item) = get(&cache, &key.to_string()) else { continue };
                    let found = version(key, &item.value, LONGEST);
                    assert!(
                        found >= least,
                        "key {key}: found {found} after {least} from {:?}",
                        item.meta.tier
                    );
                }
            });
        }
    });
    let flash = cache.stats().flash.unwrap();
    let reclaimed = flash.device.counts.segments_reclaimed;
    assert!(flash.hits > 0 && reclaimed > 0, "hits {}, reclaimed {reclaimed}", flash.hits);
}

/// A step that is applied to a cache and its model.
#[derive(Clone, Debug)]
enum Step {
    Put { key: u64, hint: u8, condition: u8 },
    Get(u64),
    Many(u64),
    Remove(u64),
    Update(u64),
    Flush,
    Fill,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..24u64;
    prop_oneof![
        6 => (key.clone(), 0..4u8, 0..4u8)
            .prop_map(|(key, hint, condition)| Step::Put { key, hint, condition }),
        6 => key.clone().prop_map(Step::Get),
        1 => key.clone().prop_map(Step::Many),
        2 => key.clone().prop_map(Step::Remove),
        2 => key.prop_map(Step::Update),
        1 => Just(Step::Flush),
        2 => Just(Step::Fill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Goal: every value found is that of the model. Method: a map from key to version and version
    /// number. The cache may have lost a key, but then every kind of call must say so.
    #[test]
    fn answers_are_the_models_or_a_miss(steps in prop::collection::vec(step(), 1..120)) {
        const LONGEST: u64 = 60_000;
        let directory = TempDir::new().unwrap();
        let cache = Cache::open(&Env::system(1), options(&directory, 2 << 20, 16 << 20)).unwrap();
        let mut model: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut filler = 0;
        for (at, step) in (1u64..).zip(steps) {
            match step {
                Step::Put { key, hint, condition } => {
                    let hints = [Hint::Point, Hint::Ingest, Hint::Metadata, Hint::Scan { bytes: 1 }];
                    let hint = hints[hint as usize];
                    let known = model.get(&key).map_or(0, |(_, cas)| *cas);
                    let condition = [
                        Condition::Always, Condition::Absent, Condition::Present, Condition::Cas(known),
                    ][condition as usize];
                    let with = Put { hint, condition, ..Put::default() };
                    let stored = put(&cache, &key.to_string(), value(key, at, LONGEST), &with);
                    match stored {
                        Stored::Done { cas } => {
                            prop_assert!(condition != Condition::Present || model.contains_key(&key));
                            model.insert(key, (at, cas));
                        }
                        Stored::Exists => {
                            prop_assert!(model.contains_key(&key));
                            prop_assert!(condition == Condition::Absent);
                        }
                        Stored::Missing => { model.remove(&key); }
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
                Step::Get(key) => match get(&cache, &key.to_string()) {
                    Some(item) => {
                        let found = (version(key, &item.value, LONGEST), item.cas);
                        prop_assert_eq!(model.get(&key), Some(&found));
                    }
                    None => { model.remove(&key); }
                },
                Step::Many(first) => {
                    let names: Vec<String> = (first..24).map(|key| key.to_string()).collect();
                    let mut lookups = Vec::new();
                    cache.get_many(names.iter().map(|n| n.as_bytes()), &Read::default(), &mut lookups);
                    for (key, lookup) in (first..24).zip(lookups) {
                        if let Some(item) = wait(lookup.wait()) {
                            let found = (version(key, &item.value, LONGEST), item.cas);
                            prop_assert_eq!(model.get(&key), Some(&found));
                        }
                    }
                }
                Step::Remove(key) => {
                    let removed = cache.remove(key.to_string().as_bytes());
                    let known = model.remove(&key).is_some();
                    prop_assert!(known || !removed);
                }
                Step::Update(key) => {
                    let next = Bytes::from(value(key, at, LONGEST));
                    let change = move |item: Option<&Item>| {
                        (Change::Write(next, Put::default()), item.map(|item| item.cas))
                    };
                    let updated = wait(cache.update(key.to_string().as_bytes(), change).wait());
                    if let Some(cas) = updated.answer {
                        prop_assert_eq!(model.get(&key).map(|known| known.1), Some(cas));
                    }
                    let Applied::Written(Stored::Done { cas }) = updated.applied else { panic!() };
                    model.insert(key, (at, cas));
                }
                Step::Flush => {
                    cache.flush_all(None);
                    model.clear();
                }
                Step::Fill => {
                    for _ in 0..40 {
                        filler += 1;
                        put(&cache, &format!("filler {filler}"), vec![3; 30_000], &Put::default());
                    }
                }
            }
        }
    }
}

#[test]
fn values_larger_than_the_buffers_are_queued_and_written_piece_by_piece() {
    const LENGTH: usize = 5 << 20;
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 32 << 20, 640 << 20)).unwrap();
    let large = |key: u8| {
        let period: Vec<u8> = (0..7 * 256).map(|at| (at / 7 + usize::from(key)) as u8).collect();
        let mut value = period.repeat(LENGTH / period.len() + 1);
        value.truncate(LENGTH);
        value
    };
    let hint = Put { hint: Hint::Ingest, ..Put::default() };
    let name = |key: u8| format!("large {key}");
    for key in 0..8 {
        put(&cache, &name(key), large(key), &hint);
        assert!(*get(&cache, &name(key)).unwrap().value == *large(key), "a queued value is found");
        write_out(&cache);
    }
    let device = device(&cache);
    assert_eq!(device.counts.dropped.iter().sum::<u64>(), 0);
    cache.remove(name(3).as_bytes());
    put(&cache, &name(4), large(40), &hint);
    cache.close(Duration::from_secs(30));
    drop(cache);
    let cache = Cache::open(&Env::system(1), options(&directory, 32 << 20, 640 << 20)).unwrap();
    while cache.is_recovering() {
        std::thread::yield_now();
    }
    for key in 0..8 {
        let found = get(&cache, &name(key)).map(|item| item.value.to_vec());
        let expected = match key {
            3 => None,
            4 => Some(large(40)),
            _ => Some(large(key)),
        };
        assert!(found == expected, "value {key}: {:?} bytes", found.map(|value| value.len()));
    }
}

#[test]
fn a_burst_is_written_or_counted() {
    let directory = TempDir::new().unwrap();
    let cache = Cache::open(&Env::system(1), options(&directory, 16 << 20, 256 << 20)).unwrap();
    let hint = Put { hint: Hint::Ingest, ..Put::default() };
    let count = 600;
    for key in 0..count {
        put(&cache, &key.to_string(), value(key, 1, 90_000), &hint);
        // A value that is replaced or removed while it is queued never comes back.
        if key % 50 == 49 {
            put(&cache, &key.to_string(), value(key, 2, 90_000), &hint);
            cache.remove((key - 1).to_string().as_bytes());
        }
    }
    write_out(&cache);
    let mut missing = 0;
    for key in 0..count {
        match get(&cache, &key.to_string()) {
            Some(item) => assert_eq!(version(key, &item.value, 90_000), if key % 50 == 49 { 2 } else { 1 }),
            None => missing += u64::from(key % 50 != 48),
        }
    }
    let dropped = device(&cache).counts.dropped.iter().sum::<u64>();
    assert!(missing <= dropped, "{missing} missing, but only {dropped} counted as dropped");
    assert!(missing < count, "{missing} of {count} missing");
}
