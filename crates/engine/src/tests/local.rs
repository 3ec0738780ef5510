//! One engine at a time over a directory.

use std::path::{Path, PathBuf};

use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

use super::*;

async fn open(directory: &Path) -> Arc<Engine> {
    open_with(directory, small_options()).await
}

async fn open_with(directory: &Path, options: EngineOptions) -> Arc<Engine> {
    let env = Env::system(2);
    let store = Store::open(directory.to_str().unwrap(), env.clone(), StoreOptions::default()).await.unwrap();
    Engine::open(store, env, options).await.unwrap()
}

fn wal_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(incarnations) = std::fs::read_dir(directory.join("wal")) else { return Vec::new() };
    let files = incarnations.flat_map(|i| std::fs::read_dir(i.unwrap().path()).unwrap());
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_found_in_the_head_and_then_in_blocks() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let first = push_rows(&engine, "a", 0..20).await;
    assert_eq!(read_all(&engine).await, first);
    assert_eq!(engine.view().head_totals().rows, 20);
    engine.flush().await.unwrap();
    assert_eq!((engine.view().head_totals().rows, engine.view().snapshot.block_count()), (0, 1));
    assert_eq!(read_all(&engine).await, first);
    assert_eq!(wal_files(directory.path()), Vec::<PathBuf>::new(), "flushed files are deleted");
    let second = push_rows(&engine, "b", 10..30).await;
    push_rows(&engine, "b", 10..12).await;
    assert_eq!(read_all(&engine).await, sorted([first.clone(), second.clone()]));
    engine.shutdown().await.unwrap();
    assert!(matches!(push_row(&engine, "a", 1, "x").await, Err(Error::ShuttingDown)));
}

#[test]
fn a_clean_shutdown_leaves_nothing_to_recover() {
    let directory = TempDir::new().unwrap();
    let rows = process(async {
        let engine = open(directory.path()).await;
        let rows = push_rows(&engine, "a", 0..10).await;
        engine.shutdown().await.unwrap();
        rows
    });
    process(async {
        let engine = open(directory.path()).await;
        assert_eq!(engine.view().heads.len(), 0);
        assert_eq!(read_all(&engine).await, rows);
    });
}

/// Runs a process that dies where `body` ends: its runtime is dropped with all tasks and files.
pub(super) fn process<T>(body: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(body)
}

#[test]
fn a_crash_loses_and_duplicates_no_row() {
    let directory = TempDir::new().unwrap();
    let (mut expected, mut crashed) = (Vec::new(), String::new());
    for round in 0..4 {
        process(async {
            let engine = open(directory.path()).await;
            assert_eq!(read_all(&engine).await, expected, "round {round}: rows are found when it opens");
            let rows = push_rows(&engine, "a", round * 100..round * 100 + 30).await;
            if round % 2 == 1 {
                engine.flush().await.unwrap();
            }
            let more = push_rows(&engine, "b", round * 100..round * 100 + 30).await;
            expected = sorted([std::mem::take(&mut expected), rows, more]);
            assert_eq!(read_all(&engine).await, expected);
            crashed = engine.incarnation().to_string();
        });
    }
    process(async {
        let engine = open(directory.path()).await;
        engine.flush().await.unwrap();
        assert_eq!(engine.view().head_totals().rows, 0, "recovered rows are flushed too");
        assert_eq!(read_all(&engine).await, expected);
        let snapshot = engine.view().snapshot.clone();
        let unsealed = snapshot.writers().values().filter(|writer| !writer.is_sealed()).count();
        assert_eq!(unsealed, 1, "only the running process is not sealed");
        // Files of earlier processes may be left to garbage collection, since these crashed at random times.
        let left = wal_files(directory.path());
        assert!(left.iter().all(|file| !file.to_string_lossy().contains(&crashed)), "{left:?}");
    });
}

#[test]
fn a_torn_end_is_ignored() {
    let directory = TempDir::new().unwrap();
    let rows = process(async { push_rows(&*open(directory.path()).await, "a", 0..10).await });
    let file = wal_files(directory.path()).remove(0);
    let whole = std::fs::read(&file).unwrap();
    let frame = whole.len() / 10;
    std::fs::write(&file, &whole[..whole.len() - frame / 2]).unwrap();
    for start in 0..3 {
        let found = process(async { read_all(&open(directory.path()).await).await });
        assert_eq!(found, rows[..9], "start {start}, flushed meanwhile or not");
    }
}

#[test]
fn damage_loses_one_frame_and_keeps_a_copy() {
    for place in ["in the middle", "in the last frame"] {
        let directory = TempDir::new().unwrap();
        let rows = process(async { push_rows(&*open(directory.path()).await, "a", 0..10).await });
        let file = wal_files(directory.path()).remove(0);
        let mut bytes = std::fs::read(&file).unwrap();
        let at = if place == "in the middle" { bytes.len() / 2 } else { bytes.len() - 3 };
        bytes[at] ^= 0xFF;
        std::fs::write(&file, &bytes).unwrap();
        process(async {
            let engine = open(directory.path()).await;
            engine.flush().await.unwrap();
            let found = read_all(&engine).await;
            assert_eq!(found.len(), 9, "one frame is lost: damage {place}");
            assert!(found.iter().all(|row| rows.contains(row)));
        });
        assert!(!file.exists());
        let kept = directory.path().join("damaged").join(file.strip_prefix(directory.path()).unwrap());
        assert_eq!(std::fs::read(kept).unwrap(), bytes, "damage {place}");
    }
}

/// Uses one thread, so that all pushes wait before the committer receives the first.
#[tokio::test]
async fn concurrent_pushes_share_frames() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let pushes = (0..200).map(|n| {
        let engine = Arc::clone(&engine);
        async move { push_row(&engine, &format!("app{}", n % 7), n, &format!("line {n}")).await.unwrap() }
    });
    let rows = futures_util::future::join_all(pushes).await;
    let frames = engine.metrics().wal_frames.get();
    assert_eq!(frames, 1, "all of them waited together");
    assert_eq!(read_all(&engine).await, sorted([rows]));
    assert_eq!(engine.metrics().pushes.get(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_heads_refuse_pushes_and_recover() {
    let directory = TempDir::new().unwrap();
    let options = EngineOptions {
        write_budget: MemoryBudget::root("write", 1 << 20),
        flush_bytes: u64::MAX,
        ..EngineOptions::default()
    };
    let engine = open_with(directory.path(), options).await;
    let line = "x".repeat(100_000);
    let mut acknowledged = Vec::new();
    let mut refused = 0;
    for n in 0..40 {
        match push_row(&engine, "a", n, &format!("{n} {line}")).await {
            Ok(row) => acknowledged.push(row),
            Err(error @ Error::HeadsFull(_)) => {
                assert!(error.to_string().contains("raise --memory-limit"), "{error}");
                assert_eq!(error.kind(), sandur_base::ErrorKind::Busy);
                refused += 1;
                engine.flush().await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(acknowledged.len() > 30, "{refused} refused");
    assert_eq!(read_all(&engine).await, sorted([acknowledged]));
    let huge = engine.push(BatchBuilder::new().stream("a").row(START_NS, &"x".repeat(1 << 20)).build()).await;
    assert!(matches!(huge, Err(Error::BatchTooLarge { .. })), "{huge:?}");
}

#[test]
fn recovery_with_less_memory_than_the_wal_flushes_in_parts() {
    let directory = TempDir::new().unwrap();
    let line = "x".repeat(50_000);
    let rows = process(async {
        let engine = open(directory.path()).await;
        let mut rows = Vec::new();
        for n in 0..60 {
            rows.push(push_row(&engine, "a", n, &format!("{n} {line}")).await.unwrap());
        }
        sorted([rows])
    });
    process(async {
        let write_budget = MemoryBudget::root("write", 1 << 20);
        let engine =
            open_with(directory.path(), EngineOptions { write_budget, ..EngineOptions::default() }).await;
        assert_eq!(read_all(&engine).await, rows);
        engine.flush().await.unwrap();
        assert_eq!(read_all(&engine).await, rows);
    });
}

/// The rows of the earlier of two dead writers kept the memory that those of the later one needed.
#[test]
fn recovery_flushes_the_earlier_of_two_dead_writers_for_the_later_one() {
    let directory = TempDir::new().unwrap();
    let blocks = directory.path().join("blocks");
    let in_the_way = blocks.join(TenantId::default_tenant().as_str());
    std::fs::create_dir(&blocks).unwrap();
    // No block can be written, so that the first writer is not sealed while the second one lives.
    std::fs::write(&in_the_way, "").unwrap();
    let mut written = Vec::new();
    for n in 0..2 {
        process(async {
            let engine = open(directory.path()).await;
            written.push(push_row(&engine, "a", n, &n.to_string().repeat(400_000)).await.unwrap());
        });
    }
    std::fs::remove_file(&in_the_way).unwrap();
    process(async {
        let write_budget = MemoryBudget::root("write", 1 << 20);
        let engine =
            open_with(directory.path(), EngineOptions { write_budget, ..EngineOptions::default() }).await;
        assert_eq!(read_all(&engine).await, sorted([written]));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_and_new_rows_are_in_their_windows() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let hour = 3_600_000;
    let mut rows = Vec::new();
    for n in 0..60 {
        rows.push(push_row(&engine, "a", -n * hour, &format!("line {n}")).await.unwrap());
    }
    engine.flush().await.unwrap();
    let view = engine.view();
    let blocks: Vec<_> = view.snapshot.all_blocks().collect();
    assert!(blocks.iter().all(|b| b.window.covers(b.min_ts, b.max_ts)));
    assert_eq!(blocks.iter().map(|b| b.rows).sum::<u64>(), 60);
    let hourly: Vec<_> = blocks.iter().filter(|b| b.window.length_ns() == hour * 1_000_000).collect();
    assert_eq!((hourly.len(), hourly[0].rows, blocks.len()), (1, 1, 2), "thin hours share a block");
    assert_eq!(read_all(&engine).await, sorted([rows]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_see_acknowledged_rows() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let context = context(engine.env());
    let mut follow = engine.sources().logs.follow(&context, crate::fixtures::app_is("a")).unwrap();
    push_rows(&engine, "b", 0..1).await;
    let rows = push_rows(&engine, "a", 0..1).await;
    let Some(sandur_query::Followed::Page(page)) = follow.next().await else { panic!("a page") };
    assert_eq!(crate::fixtures::rows_of(&page), rows);
    engine.shutdown().await.unwrap();
    assert!(follow.next().await.is_none());
}

/// Labels of new series count as twelve times what a push may take; such pushes were always refused.
#[test]
fn a_large_push_is_stored_in_parts_and_may_be_repeated() {
    let directory = TempDir::new().unwrap();
    let options =
        || EngineOptions { write_budget: MemoryBudget::root("write", 6 << 20), ..EngineOptions::default() };
    let mut samples = sandur_model::SampleBatch::new(sandur_model::TenantId::default_tenant());
    for n in 0..5_000i64 {
        let labels = (0..10).map(|label| (format!("label_{label}"), format!("value-{n}-{label}")));
        samples.push(
            std::sync::Arc::new(sandur_model::Labels::from_pairs(labels)),
            [(START_NS / 1_000_000 + n, n as f64)],
        );
    }
    let mut lines = BatchBuilder::new();
    let mut rows = Vec::new();
    for n in 0..4_000i64 {
        let (app, line) = (format!("app{}", n % 1_000), format!("{n} {}", "x".repeat(600)));
        lines = lines.stream(&app).row(START_NS + n, &line);
        rows.push((app, START_NS + n, line));
    }
    let lines = lines.build();
    let rows = sorted([rows]);
    process(async {
        let engine = open_with(directory.path(), options()).await;
        for times in 1..=2 {
            engine.push(samples.clone()).await.unwrap();
            engine.push(lines.clone()).await.unwrap();
            assert_eq!(engine.metrics().pushes_in_parts.get(), 2 * times);
        }
        engine.flush().await.unwrap();
        assert_eq!(read_all(&engine).await, rows);
    });
    process(async {
        let engine = open_with(directory.path(), options()).await;
        assert_eq!(read_all(&engine).await, rows);
        let found = super::samples::all(&engine).await;
        assert_eq!(found.len(), 5_000);
        assert!(found.values().all(|samples| samples.len() == 1), "repeated samples are stored once");
    });
}
