//! Goal: items come back exactly as they were saved; anything else never comes back.

#![allow(clippy::unwrap_used)] // also for functions that tests share

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_runtime::Env;
use tempfile::TempDir;

use super::files::{MemoryFileError, Notes, Refusal, Restored, RestoredItems, SaveId};
use super::frames::{Broken, FRAME_BYTES, FrameReader, FrameWriter};
use super::item::{HEAD, Head, Next};
use super::meta::{Meta, NotMeta};
use crate::device::FilePart;
use crate::flash::FlashOptions;
use crate::{Cache, CacheOptions, Change, Error, Hint, Put, Read, Revision, Stored};

const NOW: u32 = 1_700_000_000;
const PATIENCE: Duration = Duration::from_secs(30);

struct Place {
    directory: TempDir,
    /// Stops simulated clocks while it is entered.
    still: tokio::runtime::Runtime,
}

impl Place {
    fn new() -> Self {
        let still = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        Self { directory: TempDir::new().unwrap(), still: still.unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("memory")
    }

    fn meta(&self) -> PathBuf {
        self.directory.path().join("memory.meta")
    }

    /// Opens a cache with `memory` bytes at `now`.
    fn open_at(&self, now: u32, memory: u64) -> Cache {
        let env = Env::simulated(u64::from(now), i64::from(now) * 1_000_000_000);
        Cache::open(&env, CacheOptions { memory, ..CacheOptions::default() }).unwrap()
    }

    fn open(&self) -> Cache {
        self.open_at(NOW, 8 << 20)
    }

    fn open_with_flash(&self) -> Cache {
        let part = FilePart { path: self.directory.path().join("flash"), bytes: 24 << 20 };
        let segment_bytes = Some(1 << 20);
        let flash = FlashOptions { parts: vec![part], segment_bytes, ..FlashOptions::default() };
        let options = CacheOptions { memory: 8 << 20, flash: Some(flash), ..CacheOptions::default() };
        let cache = Cache::open(&Env::system(1), options).unwrap();
        while cache.is_recovering() {
            std::thread::yield_now();
        }
        cache
    }

    fn keep(&self, cache: Cache) -> u64 {
        cache.close_into(&self.file(), Notes::new(), PATIENCE).unwrap().items
    }

    fn put_back(&self, cache: &Cache) -> RestoredItems {
        match cache.restore(&self.file()).unwrap() {
            Restored::Items(items) => items,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&self, cache: &Cache) -> Refusal {
        match cache.restore(&self.file()).unwrap() {
            Restored::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn put(cache: &Cache, key: &str, value: impl Into<Bytes>, put: Put) -> u64 {
    match wait(cache.put(key.as_bytes(), value.into(), &put).wait()) {
        Stored::Done { cas } => cas,
        other => panic!("{key}: {other:?}"),
    }
}

fn get(cache: &Cache, key: &str) -> Option<crate::Item> {
    let read = Read { quiet: true, ..Read::default() };
    wait(cache.get(key.as_bytes(), &read).wait())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn items_come_back_with_all_their_metadata() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open();
    assert!(matches!(cache.restore(&place.file()).unwrap(), Restored::Nothing));
    let lengths = [0, 1, 100, 16 << 10, (16 << 10) + 1, FRAME_BYTES, 3 * FRAME_BYTES + 7];
    for (number, length) in (1..).zip(lengths) {
        let with = Put {
            flags: u32::MAX - number,
            expires_at: NOW + 100 * number,
            cas: Some(1000 + u64::from(number)),
            stale: number % 2 == 0,
            won: number % 3 == 0,
            tenant: number,
            hint: if number == 2 { Hint::Metadata } else { Hint::Scan { bytes: 1 << 40 } },
            ..Put::default()
        };
        put(&cache, &format!("key{number}"), pattern(length), with);
    }
    put(&cache, "gone", "x", Put::default());
    cache.remove(b"gone");
    let _ = cache.get(b"key1", &Read::default());
    let before: Vec<_> = (1..8).map(|number| get(&cache, &format!("key{number}")).unwrap()).collect();
    let notes = vec![("power".to_owned(), "17 and more".to_owned())];
    let saved = cache.close_into(&place.file(), notes.clone(), PATIENCE).unwrap();
    assert_eq!((saved.items, saved.bytes), (7, fs::metadata(place.file()).unwrap().len()));
    let next_cas = put(&cache, "later", "x", Put::default());

    let cache = place.open();
    assert_eq!(place.put_back(&cache), RestoredItems { items: 7, notes, ..RestoredItems::default() });
    for (number, before) in (1..).zip(&before) {
        let after = get(&cache, &format!("key{number}")).unwrap();
        assert_eq!(format!("{after:?} {:?}", after.value), format!("{before:?} {:?}", before.value));
        assert_eq!(*after.value, *before.value);
    }
    assert!(before[0].meta.fetched && !before[1].meta.fetched);
    assert!(get(&cache, "gone").is_none() && get(&cache, "later").is_none());
    assert_eq!(put(&cache, "new", "x", Put::default()), next_cas, "version numbers continue");
    // A run that crashes leaves nothing.
    assert!(!place.file().exists() && !place.meta().exists());
    assert!(matches!(place.open().restore(&place.file()).unwrap(), Restored::Nothing));
}

#[test]
fn items_expire_while_the_cache_is_stopped() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open();
    for ttl in [10, 20, 30] {
        put(&cache, &ttl.to_string(), "x", Put { expires_at: NOW + ttl, ..Put::default() });
    }
    assert_eq!(place.keep(cache), 3);
    let cache = place.open_at(NOW + 20, 8 << 20);
    let items = place.put_back(&cache);
    assert_eq!((items.items, items.expired), (1, 2));
    assert!(get(&cache, "20").is_none() && get(&cache, "30").is_some());
}

#[test]
fn a_file_written_in_the_future_is_refused() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open();
    put(&cache, "a", "x", Put::default());
    place.keep(cache);
    let cache = place.open_at(NOW - 1, 8 << 20);
    let refusal = place.refusal(&cache);
    assert!(matches!(refusal, Refusal::ClockWentBack { written_at: NOW, .. }), "{refusal}");
    assert!(get(&cache, "a").is_none());
}

#[test]
fn a_scheduled_flush_is_kept() {
    for (passed, due) in [(50, false), (100, true)] {
        let place = Place::new();
        let _still = place.still.enter();
        let cache = place.open();
        put(&cache, "a", "x", Put::default());
        cache.flush_all(Some(NOW + 100));
        place.keep(cache);
        let env = Env::simulated(1, i64::from(NOW + passed) * 1_000_000_000);
        let cache = Cache::open(&env, CacheOptions::default()).unwrap();
        if due {
            let refusal = place.refusal(&cache);
            assert!(matches!(refusal, Refusal::Flushed { .. }), "{refusal}");
        } else {
            place.put_back(&cache);
            assert!(get(&cache, "a").is_some());
            env.set_clock_skew(Duration::from_secs(50), true);
        }
        assert!(get(&cache, "a").is_none());
        put(&cache, "b", "x", Put::default());
        assert!(get(&cache, "b").is_some());
    }
}

#[test]
fn memory_stays_within_a_smaller_limit() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open_at(NOW, 16 << 20);
    for number in 0..700 {
        put(&cache, &number.to_string(), pattern(20_000), Put::default());
    }
    let kept = place.keep(cache);
    let env = Env::simulated(1, i64::from(NOW) * 1_000_000_000);
    let options = CacheOptions { memory: 4 << 20, max_value: 30_000, ..CacheOptions::default() };
    let cache = Cache::open(&env, options).unwrap();
    let items = place.put_back(&cache);
    let stats = cache.stats();
    assert_eq!(items.items, kept);
    assert!(stats.memory_used <= 4 << 20 && stats.items > 100 && stats.items < kept, "{stats:?}");

    // Values above the cache's limit are left out, and so are values without room if nothing is evicted.
    place.keep(cache);
    let options = CacheOptions { max_value: 10_000, ..CacheOptions::default() };
    let cache = Cache::open(&env, options).unwrap();
    let items = place.put_back(&cache);
    assert_eq!((items.items, items.left_out), (0, stats.items));
}

#[test]
fn a_changed_file_leaves_memory_empty() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open();
    for number in 0..40 {
        put(&cache, &number.to_string(), pattern(20_000), Put::default());
    }
    place.keep(cache);
    let (file, meta) = (fs::read(place.file()).unwrap(), fs::read(place.meta()).unwrap());
    assert!(file.len() > 2 * FRAME_BYTES);
    let attempt = |file: &[u8], meta: &[u8]| {
        fs::write(place.file(), file).unwrap();
        fs::write(place.meta(), meta).unwrap();
        let cache = place.open();
        let restored = cache.restore(&place.file());
        assert_eq!(cache.stats().items, if matches!(restored, Ok(Restored::Items(_))) { 40 } else { 0 });
        assert!(cache.stats().bytes < 1 << 20 || matches!(restored, Ok(Restored::Items(_))));
        restored
    };
    assert!(matches!(attempt(&file, &meta), Ok(Restored::Items(_))));
    let places = (0..64).chain((64..file.len()).step_by(9973)).chain(file.len() - HEAD..file.len());
    for at in places {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        let refused = attempt(&changed, &meta);
        assert!(matches!(refused, Ok(Restored::Refused(Refusal::Damaged { .. }))), "byte {at}: {refused:?}");
        let cut = attempt(&file[..at], &meta);
        assert!(matches!(cut, Ok(Restored::Refused(Refusal::Damaged { .. }))), "{at} bytes: {cut:?}");
    }
    for at in 0..meta.len() {
        let mut changed = meta.clone();
        changed[at] ^= 1 << (at % 7);
        let refused = attempt(&file, &changed);
        let is_tag = at < b"Tsandur\n".len();
        assert!(
            matches!(refused, Ok(Restored::Refused(_))) && !is_tag
                || matches!(refused, Err(Error::MemoryFile(MemoryFileError::Foreign { .. }))) && is_tag,
            "byte {at} of the description: {refused:?}"
        );
        let cut = attempt(&file, &meta[..at]);
        assert!(matches!(cut, Ok(Restored::Refused(_))) || at == 0, "{at} bytes of the description: {cut:?}");
    }
    // A complete description of another save, and none at all.
    let other = Meta { save: [7; 16], ..Meta::decode(&meta).unwrap() }.encode();
    assert!(matches!(attempt(&file, other.as_bytes()), Ok(Restored::Refused(Refusal::Damaged { .. }))));
    for (content, stays) in [(&file[..], false), (b"of another program", true)] {
        fs::write(place.file(), content).unwrap();
        assert!(matches!(place.open().restore(&place.file()), Ok(Restored::Nothing)));
        assert_eq!(place.file().exists(), stays);
    }
    fs::write(place.meta(), &meta).unwrap();
    fs::remove_file(place.file()).unwrap();
    let refused = place.open().restore(&place.file());
    assert!(matches!(refused, Ok(Restored::Refused(Refusal::Unreadable { .. }))), "{refused:?}");
}

#[test]
fn files_of_other_programs_are_recognised() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open();
    put(&cache, "a", "x", Put::default());
    fs::write(place.meta(), "").unwrap();
    let refused = cache.restore(&place.file());
    assert!(matches!(refused, Err(Error::MemoryFile(MemoryFileError::Foreign { .. }))), "{refused:?}");
    assert!(place.meta().exists(), "a file of another program stays");

    fs::write(place.meta(), "Tmain\nKslab_config (null)\n").unwrap();
    fs::write(place.file(), "slabs").unwrap();
    let refusal = place.refusal(&cache);
    assert!(matches!(refusal, Refusal::OfMemcached { .. }), "{refusal}");
    // memcached would accept the file later, when its content is outdated.
    assert!(!place.meta().exists());

    place.keep(cache);
    let meta = fs::read_to_string(place.meta()).unwrap().replace("Kformat 1\n", "Kformat 2\n");
    fs::write(place.meta(), meta).unwrap();
    let refusal = place.refusal(&place.open());
    assert!(matches!(refusal, Refusal::OtherFormat { found: 2, known: 1, .. }), "{refusal}");
}

#[test]
fn an_unwritable_path_is_reported_at_the_start() {
    let place = Place::new();
    let _still = place.still.enter();
    let error = place.open().restore(&place.directory.path().join("nowhere/memory"));
    assert!(matches!(error, Err(Error::MemoryFile(MemoryFileError::File { .. }))), "{error:?}");
}

#[test]
fn a_failed_write_leaves_no_file() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open();
    put(&cache, "a", "x", Put::default());
    // A directory has the name that the file would get.
    fs::create_dir(place.file()).unwrap();
    let error = cache.close_into(&place.file(), Notes::new(), PATIENCE);
    assert!(matches!(error, Err(Error::MemoryFile(MemoryFileError::File { .. }))), "{error:?}");
    let left: Vec<_> = fs::read_dir(place.directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [place.file()]);
}

#[test]
fn both_tiers_are_restored_consistently() {
    let place = Place::new();
    let cache = place.open_with_flash();
    let ingest = || Put { hint: Hint::Ingest, ..Put::default() };
    for number in 0..20 {
        put(&cache, &format!("both{number}"), pattern(5000 + number), ingest());
        put(&cache, &format!("memory{number}"), pattern(6000 + number), Put::default());
    }
    // Items in both tiers are changed: memory is authoritative.
    let far = NOW + 1_000_000_000;
    let touch = Read { expires_at: Some(far), ..Read::default() };
    wait(cache.get(b"both1", &touch).wait()).unwrap();
    let mark = Revision { stale: Some(true), ..Revision::default() };
    wait(cache.update(b"both2", move |_| (Change::Revise(mark), ())).wait());
    put(&cache, "both3", "newer", Put::default());
    cache.remove(b"both4");
    let kept = place.keep(cache);
    assert_eq!(kept, 39);

    let cache = place.open_with_flash();
    assert_eq!(place.put_back(&cache).items, kept);
    for number in (0..20).filter(|number| *number != 3 && *number != 4) {
        assert_eq!(*get(&cache, &format!("both{number}")).unwrap().value, pattern(5000 + number));
        assert_eq!(*get(&cache, &format!("memory{number}")).unwrap().value, pattern(6000 + number));
    }
    let both = |number: u32| get(&cache, &format!("both{number}"));
    assert!(both(0).unwrap().meta.on_flash && !get(&cache, "memory0").unwrap().meta.on_flash);
    assert_eq!(both(1).unwrap().expires_at, far);
    assert!(both(2).unwrap().meta.stale && !both(2).unwrap().meta.on_flash);
    assert_eq!(*both(3).unwrap().value, *b"newer");
    assert!(both(4).is_none());
}

#[test]
fn a_run_with_flash_but_without_the_file_voids_the_file() {
    let place = Place::new();
    for crashes in [false, true] {
        let cache = place.open_with_flash();
        put(&cache, "a", "old", Put { hint: Hint::Ingest, ..Put::default() });
        place.keep(cache);
        let cache = place.open_with_flash();
        put(&cache, "a", "new", Put { hint: Hint::Ingest, ..Put::default() });
        if !crashes {
            cache.close(PATIENCE);
        }
        drop(cache);
        let cache = place.open_with_flash();
        let refusal = place.refusal(&cache);
        assert!(matches!(refusal, Refusal::OtherFlash { .. }), "{refusal}");
        let found = get(&cache, "a").map(|item| item.value.to_vec());
        assert_eq!(found, (!crashes).then(|| b"new".to_vec()));
    }
}

#[test]
fn a_file_of_a_cache_without_flash_is_refused_by_one_with_flash() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open_with_flash();
    put(&cache, "a", "old", Put::default());
    cache.close(PATIENCE);
    drop(cache);
    let cache = place.open();
    cache.remove(b"a");
    put(&cache, "b", "x", Put::default());
    place.keep(cache);
    let cache = place.open_with_flash();
    assert!(matches!(place.refusal(&cache), Refusal::OtherFlash { .. }));
    assert!(get(&cache, "b").is_none());
}

proptest! {
    #[test]
    fn streams_round_trip_through_frames(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..20),
        repeat in 1..200usize,
    ) {
        let save: SaveId = [3; 16];
        let mut writer = FrameWriter::new(Vec::new(), save);
        for piece in &pieces {
            for _ in 0..repeat {
                writer.put(piece).unwrap();
            }
        }
        let (bytes, count) = writer.finish().unwrap();
        prop_assert_eq!(bytes.len() as u64, count);
        let mut reader = FrameReader::new(bytes.as_slice(), save);
        for piece in &pieces {
            for _ in 0..repeat {
                let mut found = vec![0; piece.len()];
                reader.fill(&mut found).unwrap();
                prop_assert_eq!(&found, piece);
            }
        }
        prop_assert!(matches!(reader.skip(1), Err(Broken::Damaged(_))));
    }

    #[test]
    fn heads_round_trip(bytes in prop::array::uniform32(any::<u8>()), hint in 0..4u8) {
        let mut head = [0; HEAD];
        head[..32].copy_from_slice(&bytes);
        head[HEAD - 24..].copy_from_slice(&bytes[..24]);
        (head[0], head[1], head[24]) = (1, head[1] & 15, hint);
        head[25..32].fill(0);
        if hint != 3 {
            head[48..].fill(0);
        }
        let Some(Next::Item(decoded)) = Next::decode(&head) else { panic!("it is an item") };
        prop_assert_eq!(decoded.encode(), head);
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut ours = b"Tsandur\n".to_vec();
        ours.extend_from_slice(&bytes);
        prop_assert!(matches!(Meta::decode(&ours), Err(NotMeta::Damaged | NotMeta::OtherFormat(_))));
        let _ = Meta::decode(&bytes);
    }
}

/// Written by format 1: later versions must still read it.
const FIXTURE: &[u8] = include_bytes!("../../fixtures/cache-memory-v1.bin");
const FIXTURE_META: &[u8] = include_bytes!("../../fixtures/cache-memory-v1.meta");

fn fixture_items(cache: &Cache) {
    let with =
        |flags| Put { flags, expires_at: u32::MAX, cas: Some(77), stale: flags == 1, ..Put::default() };
    put(cache, "small", "value", with(1));
    put(cache, "large", pattern(20_000), with(2));
}

#[test]
fn the_fixture_is_restored() {
    let place = Place::new();
    let _still = place.still.enter();
    fs::write(place.file(), FIXTURE).unwrap();
    fs::write(place.meta(), FIXTURE_META).unwrap();
    let (cache, expected) = (place.open(), place.open());
    assert_eq!(place.put_back(&cache).notes, [("note".to_owned(), "kept".to_owned())]);
    fixture_items(&expected);
    for key in ["small", "large"] {
        let (found, wanted) = (get(&cache, key).unwrap(), get(&expected, key).unwrap());
        assert_eq!(format!("{found:?}"), format!("{wanted:?}"));
        assert_eq!(*found.value, *wanted.value);
    }
}

#[test]
#[ignore = "writes the fixture, for a new version of the format only"]
fn write_the_fixture() {
    let place = Place::new();
    let _still = place.still.enter();
    let cache = place.open();
    fixture_items(&cache);
    let notes = vec![("note".to_owned(), "kept".to_owned())];
    cache.close_into(&place.file(), notes, PATIENCE).unwrap();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");
    fs::copy(place.file(), format!("{fixtures}/cache-memory-v1.bin")).unwrap();
    fs::copy(place.meta(), format!("{fixtures}/cache-memory-v1.meta")).unwrap();
}

#[test]
fn heads_of_items_and_the_end_round_trip() {
    let head = Head {
        key_bytes: 3,
        value_bytes: 1 << 33,
        flags: 1,
        expires_at: 2,
        accessed_at: 3,
        stored_at: 4,
        tenant: 5,
        hint: Hint::Scan { bytes: 6 },
        cas: 7,
        fetched: true,
        stale: false,
        won: true,
        on_flash: true,
    };
    assert_eq!(Next::decode(&head.encode()), Some(Next::Item(head)));
    assert_eq!(Next::decode(&Next::encode_end(9)), Some(Next::End { items: 9 }));
    assert_eq!(Next::decode(&[2; HEAD]), None);
}
