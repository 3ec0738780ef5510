//! The cache without flash through its public interface: one test per promise of a call.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sandur_cache::{
    Answer, Applied, Cache, CacheOptions, Change, Condition, Item, Lookup, Put, Read, RemovalListener,
    RemovalReason, RemovedItem, Revision, Stored, Updated,
};
use sandur_runtime::Env;

const START_NS: i64 = 1_700_000_000 * 1_000_000_000;

fn open(options: CacheOptions) -> (Env, Cache) {
    let env = Env::simulated(1, START_NS);
    let cache = Cache::open(&env, options).unwrap();
    (env, cache)
}

fn small() -> (Env, Cache) {
    open(CacheOptions::default())
}

fn put(cache: &Cache, key: &str, value: &str, put: &Put) -> Stored {
    match cache.put(key.as_bytes(), Bytes::copy_from_slice(value.as_bytes()), put) {
        Answer::Ready(stored) => stored,
        Answer::Pending(_) => panic!("memory answers at once"),
    }
}

fn get(cache: &Cache, key: &str) -> Option<Item> {
    match cache.get(key.as_bytes(), &Read::default()) {
        Lookup::Hit(item) => Some(item),
        Lookup::Miss => None,
        Lookup::Pending(_) => panic!("memory answers at once"),
    }
}

fn text(cache: &Cache, key: &str) -> Option<String> {
    get(cache, key).map(|item| String::from_utf8(item.value.to_vec()).unwrap())
}

fn update<R: Send + 'static>(
    cache: &Cache,
    key: &str,
    change: impl FnOnce(Option<&Item>) -> (Change, R) + Send + 'static,
) -> Updated<R> {
    match cache.update(key.as_bytes(), change) {
        Answer::Ready(updated) => updated,
        Answer::Pending(_) => panic!("memory answers at once"),
    }
}

fn now(env: &Env) -> u32 {
    (env.now_ns() / 1_000_000_000) as u32
}

#[test]
fn conditions_decide_over_writes() {
    let (_env, cache) = small();
    let with = |condition| Put { condition, ..Put::default() };
    assert_eq!(put(&cache, "k", "0", &with(Condition::Present)), Stored::Missing);
    assert_eq!(put(&cache, "k", "0", &with(Condition::Cas(1))), Stored::Missing);
    let Stored::Done { cas } = put(&cache, "k", "1", &with(Condition::Absent)) else { panic!() };
    assert_eq!(put(&cache, "k", "2", &with(Condition::Absent)), Stored::Exists);
    assert_eq!(put(&cache, "k", "2", &with(Condition::Cas(cas + 1))), Stored::Exists);
    assert_eq!(text(&cache, "k").unwrap(), "1");
    let Stored::Done { cas: second } = put(&cache, "k", "2", &with(Condition::Cas(cas))) else { panic!() };
    assert!(second != cas);
    assert_eq!(text(&cache, "k").unwrap(), "2");
    let explicit = Put { cas: Some(77), flags: 5, ..Put::default() };
    assert_eq!(put(&cache, "k", "3", &explicit), Stored::Done { cas: 77 });
    let item = get(&cache, "k").unwrap();
    assert_eq!((item.cas, item.flags, &*item.value), (77, 5, b"3".as_slice()));
}

#[tokio::test(start_paused = true)]
async fn items_expire_and_a_touch_changes_the_expiry() {
    let (env, cache) = small();
    let expires = |seconds| Put { expires_at: now(&env) + seconds, ..Put::default() };
    put(&cache, "short", "s", &expires(2));
    put(&cache, "long", "l", &expires(10));
    let touch = Read { expires_at: Some(now(&env) + 5), ..Read::default() };
    assert!(matches!(cache.get(b"long", &touch), Lookup::Hit(_)));
    env.sleep(Duration::from_secs(2)).await;
    assert_eq!((text(&cache, "short"), text(&cache, "long")), (None, Some("l".into())));
    env.sleep(Duration::from_secs(3)).await;
    assert_eq!(text(&cache, "long"), None);
    let stats = cache.stats();
    assert_eq!((stats.ram.found_expired, stats.ram.expired, stats.ram.expired_unfetched), (2, 2, 1));
    assert_eq!(stats.items, 0);
}

#[tokio::test(start_paused = true)]
async fn a_flush_voids_only_items_written_before_it() {
    let (env, cache) = small();
    put(&cache, "old", "1", &Put::default());
    cache.flush_all(None);
    assert_eq!(text(&cache, "old"), None);
    put(&cache, "same second", "2", &Put::default());
    assert_eq!(text(&cache, "same second").unwrap(), "2");
    cache.flush_all(Some(now(&env) + 3));
    put(&cache, "before", "3", &Put::default());
    assert_eq!(text(&cache, "before").unwrap(), "3");
    env.sleep(Duration::from_secs(3)).await;
    assert_eq!((text(&cache, "same second"), text(&cache, "before")), (None, None));
    put(&cache, "after", "4", &Put::default());
    env.sleep(Duration::from_secs(3)).await;
    assert_eq!(text(&cache, "after").unwrap(), "4");
    assert_eq!(cache.stats().ram.found_flushed, 3);
}

#[tokio::test(start_paused = true)]
async fn returned_metadata_is_from_before_the_access() {
    let (env, cache) = small();
    put(&cache, "k", "v", &Put::default());
    let stored_at = now(&env);
    env.sleep(Duration::from_secs(4)).await;
    let quiet = Read { quiet: true, ..Read::default() };
    let Lookup::Hit(item) = cache.get(b"k", &quiet) else { panic!() };
    assert_eq!((item.meta.fetched, item.meta.accessed_at), (false, stored_at));
    let item = get(&cache, "k").unwrap();
    assert_eq!((item.meta.fetched, item.meta.accessed_at), (false, stored_at));
    let item = get(&cache, "k").unwrap();
    assert_eq!((item.meta.fetched, item.meta.accessed_at), (true, stored_at + 4));
    let marks = Revision { stale: Some(true), won: Some(true), cas: Some(9), ..Revision::default() };
    assert_eq!(update(&cache, "k", move |_| (Change::Revise(marks), ())).applied, Applied::Revised);
    let item = get(&cache, "k").unwrap();
    assert_eq!((item.meta.stale, item.meta.won, item.cas), (true, true, 9));
    put(&cache, "k", "new", &Put::default());
    let meta = get(&cache, "k").unwrap().meta;
    assert!(!meta.stale && !meta.won && !meta.fetched);
}

#[test]
fn ranges_are_cut_at_the_end_of_the_value() {
    let (_env, cache) = small();
    put(&cache, "k", "0123456789", &Put::default());
    for (range, want) in [(2..5, "234"), (8..20, "89"), (15..20, ""), (0..10, "0123456789")] {
        let Lookup::Hit(item) = cache.get(b"k", &Read { range: Some(range), ..Read::default() }) else {
            panic!()
        };
        assert_eq!((&*item.value, item.length), (want.as_bytes(), 10));
    }
}

#[test]
fn a_refused_write_removes_the_value_that_it_was_to_replace() {
    let (_env, cache) = open(CacheOptions { max_value: 100, ..CacheOptions::default() });
    put(&cache, "k", "old", &Put::default());
    assert_eq!(put(&cache, "k", &"x".repeat(101), &Put::default()), Stored::TooLarge { limit: 100 });
    assert_eq!(text(&cache, "k"), None);
}

#[test]
fn memory_stays_within_its_limit_and_is_released_with_items() {
    for length in [10, 1000, 40_000] {
        let limit = 16 << 20;
        let (_env, cache) = open(CacheOptions { memory: limit, ..CacheOptions::default() });
        for number in 0..(40 << 20) / (length as u64 + 100) {
            put(&cache, &number.to_string(), &"v".repeat(length), &Put::default());
            // A table grows after the item is stored; the next write evicts for that.
            let slack = limit / 16;
            assert!(cache.stats().memory_used <= limit + slack, "{:?}", cache.stats());
            if number % 1000 != 0 {
                continue;
            }
            assert!(get(&cache, &number.to_string()).is_some(), "the newest item is there");
        }
        let stats = cache.stats();
        assert!(stats.ram.evicted > 0 && stats.ram.evicted_unfetched > 0);
        assert!(stats.memory_used > limit * 8 / 10, "memory is used: {stats:?}");
        cache.visit(|key, _| {
            let key = key.to_vec();
            assert!(!key.is_empty());
            true
        });
        if length > 10 {
            cache.set_memory_limit(4 << 20);
            assert!(cache.stats().memory_used <= 4 << 20, "{:?}", cache.stats());
        }
    }
}

#[test]
fn a_reservation_evicts_items_and_is_released_on_drop() {
    let (_env, cache) = open(CacheOptions { memory: 8 << 20, ..CacheOptions::default() });
    for number in 0..10_000 {
        put(&cache, &number.to_string(), &"v".repeat(1000), &Put::default());
    }
    let before = cache.stats();
    let held = cache.reserve(4 << 20).expect("items are evicted");
    let during = cache.stats();
    assert!(during.items < before.items * 6 / 10 && during.memory_used <= 8 << 20);
    assert!(cache.reserve(8 << 20).is_none());
    drop(held);
    assert!(cache.stats().memory_used < 5 << 20);
}

#[test]
fn without_eviction_a_full_cache_refuses() {
    let (_env, cache) = open(CacheOptions { memory: 2 << 20, evict: false, ..CacheOptions::default() });
    let refused = (0..4000).position(|n| {
        put(&cache, &format!("key{n}"), &"v".repeat(1000), &Put::default()) == Stored::NoMemory
    });
    let refused = refused.expect("memory is full at some point");
    assert!(refused > 1000);
    assert!(get(&cache, "key0").is_some());
    // A table may have grown beyond the limit with the last item that was stored.
    for number in 0..refused / 4 {
        assert!(cache.remove(format!("key{number}").as_bytes()));
    }
    assert!(matches!(put(&cache, "key0", &"v".repeat(1000), &Put::default()), Stored::Done { .. }));
}

/// Goal: read-modify-writes of one key are atomic. Method: threads increment one counter together.
#[test]
fn updates_of_one_key_lose_nothing() {
    let (_env, cache) = small();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    update(&cache, "n", |item| {
                        let before = item
                            .map_or(0, |i| std::str::from_utf8(&i.value).unwrap().parse::<u64>().unwrap());
                        let next = Bytes::from((before + 1).to_string());
                        (Change::Write(next, Put::default()), ())
                    });
                }
            });
        }
    });
    assert_eq!(text(&cache, "n").unwrap(), "8000");
}

/// Goal: no reader gets a value older than one whose write was acknowledged, under eviction. Method:
/// each key has one writer, which publishes the number of its last acknowledged write; readers take that
/// number first and must not find an older one.
#[test]
fn readers_never_see_an_acknowledged_write_undone() {
    let (_env, cache) = open(CacheOptions { memory: 4 << 20, ..CacheOptions::default() });
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new((0..64).map(|_| AtomicU64::new(0)).collect());
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (cache, acknowledged) = (cache.clone(), Arc::clone(&acknowledged));
            scope.spawn(move || {
                for round in 1..400u64 {
                    for key in (writer..64).step_by(2) {
                        let value = format!("{key}:{round}:{}", "x".repeat((key * 1009) % 60_000));
                        put(&cache, &key.to_string(), &value, &Put::default());
                        acknowledged[key].store(round, Ordering::Release);
                    }
                }
            });
        }
        for reader in 0..2 {
            let (cache, acknowledged) = (cache.clone(), Arc::clone(&acknowledged));
            scope.spawn(move || {
                for step in 0..40_000 {
                    let key = (step * 7 + reader) % 64;
                    let least = acknowledged[key].load(Ordering::Acquire);
                    let Some(item) = get(&cache, &key.to_string()) else { continue };
                    let value = std::str::from_utf8(&item.value).unwrap();
                    let mut parts = value.split(':');
                    assert_eq!(parts.next().unwrap().parse::<usize>().unwrap(), key);
                    let round = parts.next().unwrap().parse::<u64>().unwrap();
                    assert!(round >= least, "key {key}: found {round} after {least}");
                }
            });
        }
    });
}

#[test]
fn a_listener_receives_each_item_once_with_the_reason() {
    #[derive(Debug, Default)]
    struct Heard(std::sync::Mutex<Vec<(String, RemovalReason, bool)>>);
    impl RemovalListener for Heard {
        fn removed(&self, item: &RemovedItem<'_>) {
            let key = String::from_utf8(item.key.to_vec()).unwrap();
            self.0.lock().unwrap().push((key, item.why, item.looked_up));
        }
    }
    let heard = Arc::new(Heard::default());
    let listener: Arc<dyn RemovalListener> = Arc::clone(&heard) as _;
    let (env, cache) =
        open(CacheOptions { memory: 1 << 20, listener: Some(listener), ..CacheOptions::default() });
    put(&cache, "ends", "v", &Put { expires_at: now(&env), ..Put::default() });
    put(&cache, "flushed", "v", &Put::default());
    assert!(get(&cache, "ends").is_none() && get(&cache, "ends").is_none());
    cache.flush_all(None);
    put(&cache, "flushed", "w", &Put::default());
    cache.remove(b"flushed");
    let expected = [
        ("ends".to_owned(), RemovalReason::Expired, true),
        ("flushed".to_owned(), RemovalReason::Flushed, false),
    ];
    assert_eq!(*heard.0.lock().unwrap(), expected);
    let large = "x".repeat(100_000);
    for n in 0..20 {
        put(&cache, &format!("key{n}"), &large, &Put::default());
    }
    let evicted = heard.0.lock().unwrap().iter().filter(|(_, why, _)| *why == RemovalReason::Evicted).count();
    assert_eq!(evicted as u64, cache.stats().ram.evicted);
    assert!(evicted > 0, "twenty values of 100 kB do not fit a MiB");
}
