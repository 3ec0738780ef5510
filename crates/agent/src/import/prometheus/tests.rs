//! Goal: blocks in a bucket are read as those in a folder are, in bounded memory; what is missing, truncated
//! or marked is said, and the rest is read.
//!
//! Method: the blocks of the tests of `sandur-tsdb` in a store in memory with faults. A test with drawn
//! faults prints its seed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sandur_runtime::Env;
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Intent, Store, StoreOptions};
use sandur_tsdb::{ReadAt, Samples};

use super::pieces::{Bucket, HELD_MAX, PIECE_BYTES, Pieces};
use super::place::{BlockFile, Files, Objects};
use super::{Blocks, Place, listing};
use crate::import::series::{Sink, Source, Wanted};

const BLOCKS: [&str; 3] = ["floats", "histograms", "deleted"];

/// What a source passed on.
#[derive(Clone, Debug, Default, PartialEq)]
struct Passed {
    parts: Vec<String>,
    /// Labels, and samples with the bits of floats.
    series: Vec<String>,
    failures: Vec<(String, String)>,
    skipped: Vec<(String, String)>,
    notices: Vec<String>,
}

impl Sink for Passed {
    fn begin(&mut self, line: &str) -> bool {
        self.parts.push(line.to_owned());
        true
    }

    fn series(&mut self, labels: &[(String, String)], samples: &Samples) {
        let floats: Vec<(i64, u64)> = samples.floats.iter().map(|(time, v)| (*time, v.to_bits())).collect();
        let mut histograms = Vec::new();
        samples.each_histogram(|one| histograms.push(one.clone()));
        self.series.push(format!("{labels:?} {floats:?} {histograms:?}"));
    }

    fn end(&mut self) {}

    fn failure(&mut self, name: &str, text: &str) {
        self.failures.push((name.to_owned(), text.to_owned()));
    }

    fn skipped(&mut self, name: &str, text: &str) {
        self.skipped.push((name.to_owned(), text.to_owned()));
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.to_owned());
    }

    fn is_closed(&self) -> bool {
        false
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tsdb/tests/fixtures/blocks")
}

fn wanted() -> Wanted {
    Wanted { from_ms: i64::MIN, to_ms: i64::MAX, labels: Vec::new() }
}

/// The id in the `meta.json` of a block.
fn ulid(block: &str) -> String {
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(fixtures().join(block).join("meta.json")).unwrap()).unwrap();
    json["ulid"].as_str().unwrap().to_owned()
}

async fn read(env: &Env, place: Place, with_marked: bool) -> Passed {
    let blocks = Blocks { place, wanted: wanted(), memory: 1 << 20, with_external: true, with_marked };
    let passed = Arc::new(Mutex::new(Passed::default()));
    let to = Arc::clone(&passed);
    env.run_blocking(move || blocks.read(&mut *to.lock().unwrap())).await;
    passed.lock().unwrap().clone()
}

/// A bucket with the blocks below `tenant/`, and what else is in buckets of Thanos and Mimir.
async fn bucket(env: &Env, seed: u64) -> (FaultStore, Bucket) {
    let faults = FaultStore::new(env.clone(), seed, FaultPlan::none());
    let store = Store::from_fault_store(faults.clone(), env.clone(), StoreOptions::default());
    let bucket = Bucket::new(env.clone(), store);
    for block in BLOCKS {
        for file in ["meta.json", "index", "tombstones", "chunks/000001"] {
            let bytes = fs::read(fixtures().join(block).join(file)).unwrap();
            put(&bucket, &format!("tenant/{}/{file}", ulid(block)), bytes).await;
        }
        put(&bucket, &format!("tenant/{}/no-compact-mark.json", ulid(block)), b"{}".to_vec()).await;
        put(&bucket, &format!("debug/metas/{}.json", ulid(block)), b"{}".to_vec()).await;
    }
    put(&bucket, "tenant/bucket-index.json.gz", b"?".to_vec()).await;
    put(&bucket, "tenant/markers/01A-deletion-mark.json", b"{}".to_vec()).await;
    put(&bucket, "too/deep/for/a/block/meta.json", b"{}".to_vec()).await;
    (faults, bucket)
}

async fn put(bucket: &Bucket, path: &str, bytes: Vec<u8>) {
    bucket.store.put(path, Bytes::from(bytes), Intent::block()).await.unwrap();
}

async fn listed(bucket: &Bucket) -> Place {
    Place::Bucket(listing::list_store(bucket.clone()).await.unwrap())
}

async fn of_folder(env: &Env) -> Passed {
    read(env, Place::Folder(fixtures()), false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_read_as_a_folder_is_whatever_requests_fail_for_a_moment() {
    let env = Env::system(1);
    let expected = of_folder(&env).await;
    assert_eq!((expected.failures.len(), expected.parts.len()), (0, 3));
    for seed in 1..=10 {
        eprintln!("seed {seed}");
        let (faults, bucket) = bucket(&env, seed).await;
        faults.set_plan(FaultPlan {
            latency_median: Duration::from_millis(1),
            refused: 0.05,
            failed: 0.05,
            truncated: 0.05,
            broken_body: 0.05,
            partial_list: 0.2,
            unordered_list: 0.5,
            ..FaultPlan::none()
        });
        let found = read(&env, listed(&bucket).await, false).await;
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_or_truncated_is_said_and_the_rest_is_read() {
    let env = Env::system(1);
    let expected = of_folder(&env).await;
    for (file, is_after_listing, what) in [
        ("index", false, "index is missing"),
        ("index", true, "no longer in the bucket"),
        ("chunks/000001", true, "no longer in the bucket"),
        ("meta.json", true, "no longer in the bucket"),
        ("meta.json", false, "has no meta.json"),
        ("chunks/000001", false, "the part is not imported"),
    ] {
        let (_, bucket) = bucket(&env, 1).await;
        let path = format!("tenant/{}/{file}", ulid("floats"));
        let before = if is_after_listing { Some(listed(&bucket).await) } else { None };
        bucket.store.delete(&path, Intent::block()).await.unwrap();
        let place = match before {
            Some(place) => place,
            None => listed(&bucket).await,
        };
        let found = read(&env, place, false).await;
        assert!(found.failures.iter().all(|(_, text)| text.contains(what)), "{file}: {:?}", found.failures);
        assert!(found.failures.len() == 1, "{file}: {:?}", found.failures);
        let name = &found.failures[0].0;
        assert!(name.contains(&ulid("floats")), "{name}");
        let rest = |series: &&String| !series.contains("requests_total") && !series.contains("one_sample");
        let others: Vec<&String> = expected.series.iter().filter(rest).collect();
        let found_others: Vec<&String> = found.series.iter().filter(rest).collect();
        assert!(found_others.len() + 1 >= others.len(), "{file}");
        assert!(found.series.iter().all(|series| expected.series.contains(series)), "{file}");

        // Truncated to half, before and after the listing.
        put(&bucket, &path, fs::read(fixtures().join("floats").join(file)).unwrap()).await;
        let place = listed(&bucket).await;
        let half = fs::read(fixtures().join("floats").join(file)).unwrap();
        put(&bucket, &path, half[..half.len() / 2].to_vec()).await;
        for place in [place, listed(&bucket).await] {
            let found = read(&env, place, false).await;
            assert_eq!(found.failures.len(), 1, "{file}: {:?}", found.failures);
            assert!(found.series.iter().all(|series| expected.series.contains(series)), "{file}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_one_of_the_files_of_chunks_nothing_of_the_block_is_read() {
    let env = Env::system(1);
    let (_, bucket) = bucket(&env, 1).await;
    let chunks = format!("tenant/{}/chunks", ulid("floats"));
    let bytes = bucket.store.get(&format!("{chunks}/000001"), Intent::block()).await.unwrap();
    put(&bucket, &format!("{chunks}/000003"), bytes.to_vec()).await;
    let found = read(&env, listed(&bucket).await, false).await;
    assert_eq!(found.failures.len(), 1);
    assert!(found.failures[0].1.contains("chunks 000002 is missing"), "{:?}", found.failures);
    assert!(found.series.iter().all(|series| !series.contains("one_sample")));
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_that_are_marked_for_deletion_are_skipped_and_said() {
    let env = Env::system(1);
    let expected = of_folder(&env).await;
    let (_, bucket) = bucket(&env, 1).await;
    put(&bucket, &format!("tenant/{}/deletion-mark.json", ulid("deleted")), b"{}".to_vec()).await;
    // What is left of a block that is being deleted.
    put(&bucket, "tenant/01ARZ3NDEKTSV4RRFFQ69G5FAV/index", b"x".to_vec()).await;
    put(&bucket, "tenant/01ARZ3NDEKTSV4RRFFQ69G5FAV/deletion-mark.json", b"{}".to_vec()).await;
    let found = read(&env, listed(&bucket).await, false).await;
    assert_eq!((found.failures.len(), found.skipped.len(), found.parts.len()), (0, 1, 2));
    assert!(found.skipped[0].0.ends_with(&format!("tenant/{}", ulid("deleted"))), "{:?}", found.skipped);
    assert_eq!(read(&env, listed(&bucket).await, true).await, expected);

    let folder = tempfile::tempdir().unwrap();
    for file in ["meta.json", "index", "tombstones", "chunks/000001"] {
        let target = folder.path().join(file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(fixtures().join("deleted").join(file), target).unwrap();
    }
    fs::write(folder.path().join("deletion-mark.json"), "{}").unwrap();
    let place = || Place::Folder(folder.path().to_owned());
    let found = read(&env, place(), false).await;
    assert_eq!((found.parts.len(), found.skipped.len(), found.failures.len()), (0, 1, 0));
    assert_eq!(read(&env, place(), true).await.parts.len(), 1);
}

/// Each further read would wait as long as the first one.
#[tokio::test(flavor = "multi_thread")]
async fn reading_ends_when_the_bucket_denies_access() {
    let env = Env::system(1);
    let (faults, bucket) = bucket(&env, 1).await;
    let place = listed(&bucket).await;
    faults.fail_next(Op::Get, &format!("tenant/{}/chunks", ulid("deleted")), Fault::Denied);
    let found = read(&env, place, false).await;
    assert_eq!(found.failures.len(), 1, "{:?}", found.failures);
    assert!(found.failures[0].1.contains("denied"), "{:?}", found.failures);
    faults.set_plan(FaultPlan { denies_reads: true, ..FaultPlan::none() });
    assert!(listing::list_store(bucket).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_ahead_in_pieces_of_bounded_memory() {
    let env = Env::system(1);
    let (faults, bucket) = bucket(&env, 1).await;
    let size = 12 * PIECE_BYTES + 12_345;
    let bytes: Vec<u8> = (0..size).map(|at| (at * 31 + at / 4_099) as u8).collect();
    put(&bucket, "chunks", bytes.clone()).await;
    let pieces = Arc::new(Mutex::new(Pieces::default()));
    let objects = Objects {
        bucket,
        prefix: String::new(),
        sizes: vec![("chunks".to_owned(), size)],
        pieces: Arc::clone(&pieces),
    };
    let before = faults.requests();
    let requests = faults.clone();
    env.run_blocking(move || {
        let file = Files::Bucket(objects).open("chunks").unwrap();
        let check = |file: &BlockFile, at: u64, length: u64| {
            let mut buffer = vec![0; length as usize];
            file.read_exact_at(&mut buffer, at).unwrap();
            assert!(buffer == bytes[at as usize..(at + length) as usize], "{at} {length}");
            assert!(pieces.lock().unwrap().count() <= HELD_MAX);
        };
        let window = 1 << 20;
        for at in (0..size).step_by(window) {
            check(&file, at, (window as u64 + 999).min(size - at));
        }
        assert_eq!(requests.requests() - before, 13, "each piece once");
        check(&file, 5 * PIECE_BYTES - 7, 14);
        check(&file, 0, size);
        let mut random = 1u64;
        for _ in 0..200 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 20) % size;
            check(&file, at, ((random >> 7) % 200_000).min(size - at));
        }
        assert!(file.read_exact_at(&mut [0; 8], size - 7).is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wal_of_a_data_directory_is_said_to_be_left_out() {
    let env = Env::system(1);
    assert!(of_folder(&env).await.notices.is_empty());
    let data = tempfile::tempdir().unwrap();
    fs::create_dir(data.path().join("wal")).unwrap();
    let place = || Place::Folder(data.path().to_owned());
    assert!(read(&env, place(), false).await.notices.is_empty(), "the WAL is empty");
    fs::write(data.path().join("wal/00000000"), "x").unwrap();
    let notices = read(&env, place(), false).await.notices;
    assert!(notices.len() == 1 && notices[0].ends_with("no samples are in blocks yet"), "{notices:?}");
    let block = data.path().join("block");
    fs::create_dir(&block).unwrap();
    fs::copy(fixtures().join("floats/meta.json"), block.join("meta.json")).unwrap();
    let notices = read(&env, place(), false).await.notices;
    assert!(notices.len() == 1 && notices[0].contains("are not imported: samples after 20"), "{notices:?}");
}
