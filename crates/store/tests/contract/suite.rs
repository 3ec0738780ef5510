//! Checks that every store must pass.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use sandur_base::ErrorKind;
use sandur_runtime::Env;
use sandur_store::{Created, Error, Intent, Store, Updated};

const MIB: usize = 1 << 20;

/// Runs every check, each below its own prefix.
pub async fn run(store: &Store) {
    let env = Env::system(1);
    let root = format!("contract/{}", env.new_id());
    let place = |name: &str| format!("{root}/{name}");
    reads_and_writes(store, &place("objects")).await;
    ranges(store, &place("ranges")).await;
    listings(store, &place("listings")).await;
    creates(store, &place("creates")).await;
    racing_creates(store, &env, &place("races")).await;
    updates(store, &place("updates")).await;
    racing_updates(store, &env, &place("counter")).await;
    uploads(store, &place("uploads")).await;
    refusals(store, &place("refusals")).await;
    for object in store.list(&root, Intent::gc()).await.unwrap() {
        store.delete(&object.path, Intent::gc()).await.unwrap();
    }
    assert_eq!(store.list(&root, Intent::gc()).await.unwrap(), vec![]);
    let usage = store.meter().snapshot();
    assert!(usage.iter().all(|u| u.retries == 0), "a healthy store needs no retries: {usage:?}");
}

/// Bytes that differ at every position, so that a shifted range is noticed. At most 32 MiB.
pub fn pattern(length: usize) -> Bytes {
    static WHOLE: LazyLock<Bytes> = LazyLock::new(|| {
        let words = (0..8 * MIB as u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes());
        Bytes::from(words.collect::<Vec<_>>().concat())
    });
    WHOLE.slice(..length)
}

async fn reads_and_writes(store: &Store, root: &str) {
    let (path, intent) = (format!("{root}/a=b/t %25#x/Ünïcode"), Intent::block);
    assert!(store.get(&path, intent()).await.unwrap_err().is_not_found());
    assert_eq!(store.head(&path, intent()).await.unwrap(), None);
    store.delete(&path, intent()).await.unwrap();
    store.put(&path, Bytes::from("one"), intent()).await.unwrap();
    assert_eq!(store.get(&path, intent()).await.unwrap(), "one");
    store.put(&path, pattern(3 * MIB), intent()).await.unwrap();
    assert_eq!(store.get(&path, Intent::catalog()).await.unwrap(), pattern(3 * MIB));
    let info = store.head(&path, intent()).await.unwrap().unwrap();
    assert_eq!((info.path.as_str(), info.size), (path.as_str(), 3 * MIB as u64));
    assert!(info.modified_ms > 1_700_000_000_000, "{info:?}");
    store.put(&path, Bytes::new(), intent()).await.unwrap();
    assert_eq!(store.get(&path, intent()).await.unwrap(), "");
    store.delete(&path, intent()).await.unwrap();
    store.delete(&path, intent()).await.unwrap();
    assert!(store.get(&path, intent()).await.unwrap_err().is_not_found());
}

async fn ranges(store: &Store, root: &str) {
    let (path, intent) = (format!("{root}/block"), Intent::block);
    let whole = pattern(5 * MIB);
    store.put(&path, whole.clone(), intent()).await.unwrap();
    assert_eq!(store.get_range(&path, 7..19, intent()).await.unwrap(), whole.slice(7..19));
    assert_eq!(store.get_range(&path, 5..5, intent()).await.unwrap(), "");
    let wanted = [4_000_000..4_000_100, 0..1, 3..3, 10..300_000, 2_900_000..2_900_007, 5..20];
    let expected: Vec<Bytes> = wanted.iter().map(|r| whole.slice(r.start as usize..r.end as usize)).collect();
    assert_eq!(store.get_ranges(&path, &wanted, intent()).await.unwrap(), expected);
    let most = [0..4_000_000, 4_100_000..5_000_000];
    let bodies = store.get_ranges_sized(&path, 5 * MIB as u64, &most, intent()).await.unwrap();
    assert_eq!(bodies[1], whole.slice(4_100_000..5_000_000));
    assert_eq!(store.get_ranges(&path, &[], intent()).await.unwrap(), Vec::<Bytes>::new());
    let end = whole.len() as u64;
    for range in [end - 1..end + 1, end..end + 1, end + 5..end + 9] {
        let error = store.get_range(&path, range.clone(), intent()).await.unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{range:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let ranges = [0..1, range];
        let error = store.get_ranges(&path, &ranges, intent()).await.unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{ranges:?}: {error}");
    }
    let missing = store.get_ranges(&format!("{root}/none"), &[0..1, 5..5], intent()).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
}

async fn listings(store: &Store, root: &str) {
    let intent = Intent::gc;
    assert_eq!(store.list(root, intent()).await.unwrap(), vec![]);
    assert_eq!(store.list_prefixes(root, intent()).await.unwrap(), Vec::<String>::new());
    for name in ["b/2", "a/x/1", "a/1", "b/10", "c", "ab/1"] {
        store.put(&format!("{root}/{name}"), Bytes::from("x"), intent()).await.unwrap();
    }
    let names = |found: Vec<sandur_store::ObjectInfo>| -> Vec<String> {
        found.iter().map(|o| o.path.strip_prefix(&format!("{root}/")).unwrap().to_owned()).collect()
    };
    let all = store.list(root, intent()).await.unwrap();
    assert!(all.iter().all(|o| o.size == 1));
    assert_eq!(names(all), ["a/1", "a/x/1", "ab/1", "b/10", "b/2", "c"]);
    let below = store.list(&format!("{root}/a/"), intent()).await.unwrap();
    assert_eq!(names(below), ["a/1", "a/x/1"]);
    assert_eq!(store.list_prefixes(root, intent()).await.unwrap(), ["a", "ab", "b"]);
    store.delete(&format!("{root}/ab/1"), intent()).await.unwrap();
    assert_eq!(store.list_prefixes(root, intent()).await.unwrap(), ["a", "b"]);
}

async fn creates(store: &Store, root: &str) {
    let (path, intent) = (format!("{root}/00000000000000000001"), Intent::catalog);
    let create = |bytes: &'static str| store.create(&path, Bytes::from(bytes), intent());
    assert_eq!(create("first").await.unwrap(), Created::New);
    assert_eq!(create("second").await.unwrap(), Created::Exists(Bytes::from("first")));
    assert_eq!(create("first").await.unwrap(), Created::New);
    store.delete(&path, intent()).await.unwrap();
    assert_eq!(create("third").await.unwrap(), Created::New);
    assert_eq!(store.get(&path, intent()).await.unwrap(), "third");
}

async fn racing_creates(store: &Store, env: &Env, root: &str) {
    for round in 0..5 {
        let path = format!("{root}/{round}");
        let creators = (0..8).map(|creator| {
            let (store, path) = (store.clone(), path.clone());
            env.spawn("creator", async move {
                let bytes = Bytes::from(format!("creator {creator} {}", "x".repeat(100_000)));
                (bytes.clone(), store.create(&path, bytes, Intent::catalog()).await.unwrap())
            })
        });
        let creators: Vec<_> = creators.collect();
        let (mut winners, mut seen) = (Vec::new(), Vec::new());
        for creator in creators {
            match creator.join().await.unwrap() {
                (bytes, Created::New) => winners.push(bytes),
                (_, Created::Exists(bytes)) => seen.push(bytes),
            }
        }
        assert_eq!(winners.len(), 1, "exactly one create wins");
        assert!(seen.iter().all(|bytes| *bytes == winners[0]), "all others get the winner's bytes");
    }
}

async fn updates(store: &Store, root: &str) {
    let (path, intent) = (format!("{root}/boundary"), Intent::catalog);
    assert!(store.get_versioned(&path, intent()).await.unwrap_err().is_not_found());
    store.create(&path, Bytes::from("0"), intent()).await.unwrap();
    let (bytes, zero) = store.get_versioned(&path, intent()).await.unwrap();
    assert_eq!(bytes, "0");
    let update = |bytes: &'static str, version| {
        let path = &path;
        async move { store.update(path, Bytes::from(bytes), &version, intent()).await.unwrap() }
    };
    assert_eq!(update("1", zero.clone()).await, Updated::Done);
    let Updated::Changed(Some((now, one))) = update("2", zero.clone()).await else { panic!() };
    assert_eq!(now, "1");
    assert_eq!(update("2", one.clone()).await, Updated::Done);
    store.delete(&path, intent()).await.unwrap();
    assert_eq!(update("3", one).await, Updated::Changed(None));
}

async fn racing_updates(store: &Store, env: &Env, path: &str) {
    let intent = Intent::catalog;
    store.create(path, Bytes::from("0 start"), intent()).await.unwrap();
    let store = Arc::new(store.clone());
    let writers = (0..4).map(|writer| {
        let (store, path) = (Arc::clone(&store), path.to_owned());
        env.spawn("updater", async move {
            let mut done = 0;
            while done < 5 {
                let (bytes, version) = store.get_versioned(&path, intent()).await.unwrap();
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                let count: u32 = text.split(' ').next().unwrap().parse().unwrap();
                let next = Bytes::from(format!("{} by {writer}", count + 1));
                if store.update(&path, next, &version, intent()).await.unwrap() == Updated::Done {
                    done += 1;
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.join().await.unwrap();
    }
    let bytes = store.get(path, intent()).await.unwrap();
    assert!(bytes.starts_with(b"20 by "), "every update is applied once: {bytes:?}");
}

async fn uploads(store: &Store, root: &str) {
    let intent = Intent::block;
    for length in [0, 1, 8 * MIB, 8 * MIB + 1, 26 * MIB + 77] {
        let (path, whole) = (format!("{root}/{length}"), pattern(length));
        let mut upload = store.upload(&path, intent()).await.unwrap();
        let mut rest = whole.clone();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(1_234_567));
            upload.write(piece).await.unwrap();
        }
        assert_eq!(store.head(&path, intent()).await.unwrap(), None, "nothing is visible before the end");
        assert_eq!(upload.finish().await.unwrap(), length as u64);
        assert_eq!(store.get(&path, intent()).await.unwrap(), whole, "{length}");
    }
    for (name, length) in [("abort-small", 1), ("abort-large", 20 * MIB)] {
        let path = format!("{root}/{name}");
        let mut upload = store.upload(&path, intent()).await.unwrap();
        upload.write(pattern(length)).await.unwrap();
        upload.abort().await.unwrap();
        let mut dropped = store.upload(&path, intent()).await.unwrap();
        dropped.write(pattern(length)).await.unwrap();
        drop(dropped);
        assert_eq!(store.head(&path, intent()).await.unwrap(), None);
    }
}

async fn refusals(store: &Store, root: &str) {
    let intent = Intent::block;
    for path in ["", "a//b", "../up", "a/./b"] {
        let error = store.put(path, Bytes::new(), intent()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error}");
    }
    let missing = format!("{root}/missing");
    let error = store.get(&missing, intent()).await.unwrap_err();
    assert!(error.to_string().contains(&missing), "{error}");
}
