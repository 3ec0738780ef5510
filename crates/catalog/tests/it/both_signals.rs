//! Goal: a check finds damage of samples as well as of logs and calls nothing sound that it could not
//! verify; a repair restores blocks and WAL of both signals. Method: real blocks and frames of both
//! signals in a memory store, damaged by hand.

#![allow(clippy::unwrap_used)] // also in the functions that tests share

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::Id;
use sandur_catalog::{Catalog, CheckReport, LogPosition, Repair, Severity, check, check_block};
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_format::catalog_entry::{BlockMeta, Edit, WritePlace};
use sandur_format::wal_segment::{FrameId, Record, encode_fence, encode_frame};
use sandur_format::{log_block, sample_block};
use sandur_model::{Batch, Dataset, Labels, SampleBatch, TenantId, TimeRange};
use sandur_runtime::Env;
use sandur_store::{Intent, Store};

use crate::world::{START_NS, add, block, memory, options, register};

const START_MS: i64 = START_NS / 1_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

fn tenant() -> TenantId {
    TenantId::new("t").unwrap()
}

fn fill(meta: &mut BlockMeta, summary: &BlockSummary) {
    (meta.rows, meta.raw_bytes, meta.size) = (summary.rows, summary.raw_bytes, summary.size);
    (meta.min_ts, meta.max_ts) = (summary.min_ts, summary.max_ts);
    (meta.streams, meta.pages) = (summary.streams, summary.pages);
    (meta.footer_offset, meta.footer_len) = (summary.footer_offset, summary.footer_len);
}

/// A block of two series in several pages, which starts at the start of its window.
fn samples(meta: &mut BlockMeta, origin: BlockOrigin, value: f64) -> Bytes {
    let begin = meta.window.start;
    samples_from(meta, origin, &[begin], value)
}

/// Like [`samples`], but with a minute of samples at each of several times.
fn samples_from(meta: &mut BlockMeta, origin: BlockOrigin, begins: &[i64], value: f64) -> Bytes {
    meta.dataset = Dataset::metrics(tenant());
    let mut options = sample_block::BlockOptions::new(tenant(), meta.window, meta.level);
    (options.page_rows, options.origin) = (50, origin);
    let mut writer = sample_block::BlockWriter::new(options);
    for app in ["a", "b"] {
        writer.push_series([("__name__", "up"), ("app", app)].into_iter()).unwrap();
    }
    for series in 0..2 {
        let minute = |begin: i64| (0..60).map(move |n| (begin / 1_000_000 + n * 1_000, n as f64));
        let (times, values): (Vec<i64>, Vec<f64>) =
            begins.iter().copied().flat_map(minute).map(|(time, n)| (time, value + n)).unzip();
        let floats = sample_block::Floats { times: &times, values: &values, ..Default::default() };
        writer.push_floats(series, floats).unwrap();
    }
    let mut bytes = Vec::new();
    fill(meta, &writer.finish(&mut bytes).unwrap());
    Bytes::from(bytes.concat())
}

/// A block of logs, without rows.
fn logs(meta: &mut BlockMeta, origin: BlockOrigin) -> Bytes {
    let mut options = log_block::BlockOptions::new(tenant(), meta.window, meta.level);
    options.origin = origin;
    let mut bytes = Vec::new();
    let writer = log_block::BlockWriter::new(options, Vec::new()).unwrap();
    fill(meta, &writer.finish(&mut bytes).unwrap());
    Bytes::from(bytes.concat())
}

struct Scene {
    env: Env,
    store: Store,
    writer: Id,
    blocks: Vec<BlockMeta>,
}

impl Scene {
    /// Two blocks of samples and one of logs, each in its own entry, and WAL of both signals.
    async fn new(seed: u64) -> Self {
        let (env, store) = memory(seed);
        let catalog = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
        let writer = env.new_id();
        register(&catalog, writer).await.unwrap();
        let mut scene = Self { env, store, writer, blocks: Vec::new() };
        for hour in 0..3 {
            let mut meta = block(&scene.env, writer, hour);
            let bytes = match hour {
                2 => logs(&mut meta, seen(catalog.snapshot().position())),
                _ => samples(&mut meta, seen(catalog.snapshot().position()), hour as f64),
            };
            scene.put(&meta.path(), bytes).await;
            catalog.commit(writer, vec![add(&meta)], vec![]).await.unwrap();
            scene.blocks.push(meta);
        }
        scene.put(&scene.wal(0), frame(writer, 0)).await;
        scene.put(&scene.wal(1), encode_fence(FrameId { incarnation: writer, sequence: 1 })).await;
        catalog.commit(writer, vec![Edit::Seal { incarnation: writer, fence: 1 }], vec![]).await.unwrap();
        scene
    }

    fn wal(&self, sequence: u64) -> String {
        format!("wal/{}/{sequence:020}", self.writer)
    }

    async fn put(&self, path: &str, bytes: Bytes) {
        self.store.put(path, bytes, Intent::block()).await.unwrap();
    }

    async fn get(&self, path: &str) -> Bytes {
        self.store.get(path, Intent::block()).await.unwrap()
    }

    async fn check(&self) -> CheckReport {
        check(&self.store, &self.env).await.unwrap()
    }

    /// Returns what `sandur check` reports about the catalog, the WAL and the contents of all blocks.
    async fn problems(&self) -> Vec<String> {
        let report = self.check().await;
        let bad = report.findings.iter().filter(|finding| finding.severity > Severity::Note);
        let mut problems: Vec<String> = bad.map(|f| format!("{}: {}", f.object, f.problem)).collect();
        for meta in report.snapshot.all_blocks() {
            problems.extend(check_block(&self.store, meta).await.err());
        }
        problems
    }
}

fn seen(position: LogPosition) -> BlockOrigin {
    BlockOrigin { seen: position, ..BlockOrigin::default() }
}

/// A frame with samples, in version 2.
fn frame(incarnation: Id, sequence: u64) -> Bytes {
    let mut batch = SampleBatch::new(tenant());
    let labels = Arc::new(Labels::from_pairs([("__name__", "up"), ("app", "a")]));
    batch.push(labels, (0..7).map(|n| (START_MS + n, n as f64)));
    let record = Record::of(&Batch::from(batch)).unwrap();
    let mut pieces = Vec::new();
    let header = encode_frame(FrameId { incarnation, sequence }, &[record], &mut pieces).unwrap();
    assert_eq!(header.version, 2);
    Bytes::from(pieces.concat())
}

fn flip(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes.into()
}

#[tokio::test]
async fn sound_blocks_and_wal_of_both_signals_are_verified() {
    let scene = Scene::new(1).await;
    assert_eq!(scene.problems().await, Vec::<String>::new());
    let report = scene.check().await;
    assert!(report.is_sound());
    assert_eq!((report.blocks, report.frames, report.wal_rows), (3, 1, 7));
    let mut pieces = Vec::new();
    for meta in &scene.blocks {
        pieces.push(check_block(&scene.store, meta).await.unwrap());
    }
    assert_eq!(
        pieces,
        [11, 11, 0],
        "every page of samples and of their times and part of the index was decoded"
    );
}

/// Every byte of a block of samples is covered by a checksum or by a rule that the check verifies.
#[tokio::test]
async fn every_flipped_byte_of_a_sample_block_is_found() {
    let scene = Scene::new(2).await;
    let meta = &scene.blocks[0];
    let whole = scene.get(&meta.path()).await;
    for at in 0..whole.len() {
        scene.put(&meta.path(), flip(&whole, at)).await;
        assert!(check_block(&scene.store, meta).await.is_err(), "byte {at} of {}", whole.len());
    }
    scene.put(&meta.path(), whole).await;
    check_block(&scene.store, meta).await.unwrap();
}

#[tokio::test]
async fn a_truncated_missing_or_swapped_sample_block_is_found() {
    let scene = Scene::new(3).await;
    let (first, second, lines) = (&scene.blocks[0], &scene.blocks[1], &scene.blocks[2]);
    let (whole, other) = (scene.get(&first.path()).await, scene.get(&second.path()).await);
    let of_logs = scene.get(&lines.path()).await;
    for len in [0, 7, 27, 28, whole.len() / 2, whole.len() - 1] {
        scene.put(&first.path(), whole.slice(..len)).await;
        assert!(!scene.check().await.is_undamaged(), "{len} bytes");
    }
    scene.put(&first.path(), other).await;
    assert!(!scene.problems().await.is_empty());
    // A block of the right length, but another one.
    let (id, window) = (first.id, first.window);
    let meta = BlockMeta { id, window, min_ts: first.min_ts, max_ts: first.max_ts, ..second.clone() };
    let problem = check_block(&scene.store, &meta).await.unwrap_err();
    assert!(problem.contains("another block, with a window"), "{problem}");
    // A block of the other signal.
    let meta = BlockMeta { id: first.id, dataset: first.dataset.clone(), ..lines.clone() };
    scene.put(&meta.path(), of_logs).await;
    let problem = check_block(&scene.store, &meta).await.unwrap_err();
    assert!(problem.contains("another block, logs of tenant 't'"), "{problem}");
    scene.store.delete(&first.path(), Intent::block()).await.unwrap();
    scene.store.delete(&meta.path(), Intent::block()).await.unwrap();
    let problems = scene.problems().await;
    assert!(problems[0].contains("is missing") && problems[0].contains("metrics"), "{problems:?}");
}

#[tokio::test]
async fn objects_of_unknown_kinds_are_reported() {
    let scene = Scene::new(4).await;
    let mut stranger = block(&scene.env, scene.writer, 7);
    let bytes = samples(&mut stranger, seen(LogPosition::default()), 0.0);
    let mut unknown = bytes.to_vec();
    let end = unknown.len();
    unknown[end - 4..].copy_from_slice(b"WHAT");
    let paths = [stranger.path(), "blocks/t/2026-11-21/notes".to_owned(), "wal/notes/1".to_owned()];
    for path in &paths {
        scene.put(path, Bytes::from(unknown.clone())).await;
    }
    let report = scene.check().await;
    assert!(!report.is_sound() && report.is_undamaged(), "{report:?}");
    for path in ["blocks/t/2026-11-21/notes", "wal/notes", &stranger.path()] {
        assert!(report.findings.iter().any(|finding| finding.object == path), "{path}: {report:?}");
    }
    let finding = report.findings.iter().find(|finding| finding.object == stranger.path()).unwrap();
    assert!(finding.problem.contains("no known kind"), "{finding:?}");
    // If the catalog names such a block, it is damage.
    let known = &scene.blocks[0];
    let mut bytes = scene.get(&known.path()).await.to_vec();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(b"WHAT");
    scene.put(&known.path(), bytes.into()).await;
    let problem = check_block(&scene.store, known).await.unwrap_err();
    assert!(problem.contains("no known kind"), "{problem}");
}

#[tokio::test]
async fn damaged_and_misplaced_frames_of_samples_are_found() {
    let scene = Scene::new(5).await;
    let whole = scene.get(&scene.wal(0)).await;
    for at in 0..whole.len() {
        scene.put(&scene.wal(0), flip(&whole, at)).await;
        assert!(!scene.check().await.is_sound(), "byte {at} of {}", whole.len());
    }
    for (bytes, why) in [
        (frame(scene.env.new_id(), 0), "of another writer"),
        (frame(scene.writer, 3), "with another number"),
        (whole.slice(..whole.len() - 1), "cut"),
        (Bytes::from_static(b"what is this?"), "of no known kind"),
    ] {
        scene.put(&scene.wal(0), bytes).await;
        assert!(!scene.check().await.is_undamaged(), "a frame {why}");
    }
    scene.put(&scene.wal(0), whole).await;
    assert!(scene.check().await.is_sound());
}

#[tokio::test]
async fn a_lost_catalog_is_rebuilt_from_both_signals() {
    let mut scene = Scene::new(6).await;
    // A merge of the blocks of samples replaces them; a block of an unknown kind is only reported.
    let mut merged = block(&scene.env, scene.writer, 0);
    (merged.level, merged.window) = (1, TimeRange::new(START_NS, START_NS + 2 * HOUR_NS));
    let inputs = scene.blocks[..2].iter().map(|meta| meta.id).collect();
    merged.place = WritePlace::of(2, 0, 1).0;
    let origin = BlockOrigin { inputs, place: merged.place, ..seen(LogPosition::default()) };
    let bytes = samples(&mut merged, origin, 5.0);
    scene.put(&merged.path(), bytes).await;
    // Two blocks of one flush, which was after that merge.
    let position = LogPosition { number: 3, checksum: 7 };
    let mut flushed = [7, 8].map(|hour| block(&scene.env, scene.writer, hour));
    flushed.sort_by_key(|meta| meta.id);
    for (n, meta) in (0..).zip(&mut flushed) {
        let bytes = samples(meta, seen(position), 6.0);
        scene.put(&meta.path(), bytes).await;
        meta.place = WritePlace::after(3).0 + n;
    }
    let stranger = block(&scene.env, scene.writer, 9).path();
    scene.put(&stranger, Bytes::from_static(b"a block of a signal that comes in years")).await;
    for object in scene.store.list("catalog", Intent::gc()).await.unwrap() {
        scene.store.delete(&object.path, Intent::catalog()).await.unwrap();
    }
    let repair = Repair::plan(&scene.store, &scene.env).await.unwrap();
    assert!(repair.is_needed());
    assert_eq!(repair.unreadable.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&stranger]);
    assert_eq!(repair.superseded.len(), 2);
    repair.execute(&scene.store, &scene.env).await.unwrap();
    let catalog = Catalog::open(scene.store.clone(), scene.env.clone(), options()).await.unwrap();
    let snapshot = catalog.snapshot();
    scene.blocks.drain(..2);
    scene.blocks.push(merged);
    scene.blocks.extend(flushed);
    for expected in &scene.blocks {
        assert_eq!(**snapshot.block(expected.id).unwrap(), *expected);
        check_block(&scene.store, expected).await.unwrap();
    }
    assert_eq!(snapshot.all_blocks().count(), scene.blocks.len());
    let writer = snapshot.writer(scene.writer).unwrap();
    assert_eq!((writer.floor, writer.is_drained()), (0, false), "its samples are read by the next start");
    let report = scene.check().await;
    assert!(!report.catalog_is_damaged && report.wal_rows == 7, "{report:?}");
}

/// A split block is restored as long as one of its parts is missing, and left out when all exist.
#[tokio::test]
async fn parts_of_a_split_block_replace_it_when_all_exist() {
    for (seed, kept) in [(8, &[0, 1][..]), (9, &[1, 2]), (10, &[0, 2]), (11, &[0, 1, 2]), (12, &[2])] {
        let scene = Scene::new(seed).await;
        let (env, writer) = (&scene.env, scene.writer);
        let hours = |from, to| TimeRange::new(START_NS + from * HOUR_NS, START_NS + to * HOUR_NS);
        let mut cut = BlockMeta { window: hours(4, 8), ..block(env, writer, 4) };
        let begins = [4, 5, 7].map(|hour| START_NS + hour * HOUR_NS);
        let bytes = samples_from(&mut cut, seen(LogPosition::default()), &begins, 1.0);
        scene.put(&cut.path(), bytes).await;
        let origin = BlockOrigin { inputs: vec![cut.id], ..seen(LogPosition::default()) };
        // The first attempt ended after its first part.
        let mut parts = [4, 4, 5, 7].map(|hour| block(env, writer, hour));
        parts.sort_by_key(|part| (part.window.start, part.id));
        for (n, part) in parts.iter_mut().enumerate() {
            let bytes = samples(part, origin.clone(), 1.0);
            if n == 0 || kept.contains(&(n - 1)) {
                scene.put(&part.path(), bytes).await;
            }
        }
        for object in scene.store.list("catalog", Intent::gc()).await.unwrap() {
            scene.store.delete(&object.path, Intent::catalog()).await.unwrap();
        }
        let repair = Repair::plan(&scene.store, &scene.env).await.unwrap();
        let is_whole = kept.contains(&1) && kept.contains(&2);
        let has = |id| repair.added.iter().any(|meta| meta.id == id);
        assert_eq!(has(cut.id), !is_whole, "{kept:?}");
        assert_eq!((has(parts[0].id), has(parts[1].id)), (!kept.contains(&0), kept.contains(&0)));
        assert!(kept.iter().all(|part| has(parts[part + 1].id)), "{kept:?}");
        assert_eq!(repair.superseded.len(), usize::from(is_whole) + usize::from(kept.contains(&0)));
        // Without the split block, its parts are all that is left.
        scene.store.delete(&cut.path(), Intent::gc()).await.unwrap();
        let repair = Repair::plan(&scene.store, &scene.env).await.unwrap();
        let added = |meta: &&BlockMeta| repair.added.iter().any(|added| added.id == meta.id);
        let expected = kept.len() + usize::from(!kept.contains(&0));
        assert_eq!(parts.iter().filter(added).count(), expected, "{kept:?}");
    }
}
