//! Goal: lines that a delete request names are hidden from every answer at once and as long as the
//! request is open, and are removed from the blocks afterwards. No other line is ever missing, across
//! crashes, restarts and several processes. Method: complete engines over a directory and over a
//! simulated bucket with faults, a query language of one or two words, and comparison with the
//! acknowledged rows.

use std::ops::Range;

use sandur_catalog::DeleteProgress;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, DeletionMode, LineColumn, LogPage, MINUTE_NS, Matcher};
use sandur_query::{
    Error as QueryError, Followed, Needle, QueryStats, RowLook, RowSelector, SeriesRequest, all_texts,
};
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

use super::*;
use crate::blocks::cache::BlockCache;
use crate::blocks::reader::BlockReader;
use crate::fixtures::{app_is, rows_of};
use crate::{CancelRefusal, DeleteOptions, MaintenanceOptions};

/// A query `app` or `app word`: the lines of one app, or those of them that contain a word.
struct Word {
    matchers: Vec<Matcher>,
    word: Option<String>,
    needles: Needles,
}

impl RowSelector for Word {
    fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    fn looks_at_rows(&self) -> bool {
        self.word.is_some()
    }

    fn needles(&self) -> &Needles {
        &self.needles
    }

    fn memory_bytes(&self) -> u64 {
        self.word.as_ref().map_or(0, |word| word.len() as u64)
    }

    fn look(&self) -> Box<dyn RowLook + '_> {
        Box::new(self)
    }
}

impl RowLook for &Word {
    fn select(&mut self, _: &LogPage, lines: &LineColumn, _: usize, rows: Range<u32>, out: &mut Vec<u32>) {
        let holds = |line: &[u8], word: &str| String::from_utf8_lossy(line).split(' ').any(|w| w == word);
        out.extend(
            rows.filter(|row| self.word.as_ref().is_some_and(|w| holds(lines.line(*row as usize), w))),
        );
    }
}

pub(super) fn compile(text: &str) -> Result<Arc<dyn RowSelector>, QueryError> {
    let (app, word) = match text.split_once(' ') {
        Some((app, word)) => (app, Some(word.to_owned())),
        None => (text, None),
    };
    let needle = |word: &String| vec![Needle { literal: word.as_bytes().to_vec(), ignore_ascii_case: false }];
    let needles = Needles(word.iter().map(needle).collect());
    Ok(Arc::new(Word { matchers: app_is(app), word, needles }))
}

fn options(cancel_period: Duration, mode: DeletionMode) -> EngineOptions {
    let deletes = DeleteOptions {
        cancel_period,
        mode_of: Arc::new(move |_| mode),
        compile: Arc::new(compile),
        ..DeleteOptions::default()
    };
    let maintenance =
        MaintenanceOptions { interval: Duration::from_millis(20), ..MaintenanceOptions::default() };
    EngineOptions { deletes, maintenance, ..small_options() }
}

const DAY: Duration = Duration::from_secs(86_400);

async fn open(directory: &TempDir, cancel_period: Duration, mode: DeletionMode) -> Arc<Engine> {
    let env = Env::system(2);
    let url = directory.path().to_str().unwrap();
    let store = Store::open(url, env.clone(), StoreOptions::default()).await.unwrap();
    Engine::open(store, env, options(cancel_period, mode)).await.unwrap()
}

/// Requests a delete of the rows with these numbers, both inclusive.
async fn delete(engine: &Engine, query: &str, first: i64, last: i64) -> sandur_base::Id {
    let ms = START_NS / 1_000_000;
    engine
        .create_delete(&Dataset::logs(TenantId::default_tenant()), query, ms + first, ms + last)
        .await
        .unwrap()
}

/// Waits until the request is processed.
pub(super) async fn processed(engine: &Engine, id: sandur_base::Id) {
    let mut snapshots = engine.catalog().watch();
    let tenant = TenantId::default_tenant();
    let wait = snapshots.wait_for(|snapshot| {
        let progress = snapshot.delete(&Dataset::logs(tenant.clone()), id).map(|record| record.progress);
        matches!(progress, Some(DeleteProgress::Processed { .. }))
    });
    let snapshot = engine
        .env()
        .timeout(Duration::from_secs(60), wait)
        .await
        .expect("the request is processed")
        .unwrap()
        .clone();
    engine.publish(snapshot);
}

pub(super) fn without(rows: &[Row], app: &str, word: Option<&str>, numbers: Range<i64>) -> Vec<Row> {
    let named = |row: &&Row| {
        let number = (row.1 - START_NS) / 1_000_000;
        row.0 == app
            && numbers.contains(&number)
            && word.is_none_or(|word| row.2.split(' ').any(|other| other == word))
    };
    rows.iter().filter(|row| !named(row)).cloned().collect()
}

/// Counts the rows of the hour around the start: those counted from footers and those read.
async fn count_all(engine: &Arc<Engine>) -> (u64, u64) {
    let context = context(engine.env());
    let selection = Selection {
        matchers: Vec::new(),
        range: TimeRange::new(START_NS + 1 - 60 * MINUTE_NS, START_NS + 1 + 60 * MINUTE_NS),
        order: Order::Any,
        needles: Needles::default(),
        columns: Columns { lines: false, metadata: false },
        counts: true,
        counts_by: Vec::new(),
    };
    let mut scan = engine.sources().logs.scan(&context, selection).await.unwrap();
    let (mut counted, mut read) = (0, 0);
    while let Some(item) = scan.next().await.unwrap() {
        match item {
            ScanItem::Counts(task) => {
                let counts = task.decode().unwrap();
                let minutes = counts.iter().flat_map(|stream| stream.minutes());
                counted += minutes.map(|minute| u64::from(minute.lines)).sum::<u64>();
            }
            ScanItem::Page(mut task) => read += task.narrow().unwrap().rows() as u64,
        }
    }
    (counted, read)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_hidden_at_once_and_shown_again_after_a_cancellation() {
    let directory = TempDir::new().unwrap();
    let engine = open(&directory, DAY, DeletionMode::FilterAndDelete).await;
    let tenant = TenantId::default_tenant();
    let generation = || engine.sources().logs.delete_generation(&tenant);
    let in_blocks = sorted([push_rows(&engine, "a", 0..40).await, push_rows(&engine, "b", 0..40).await]);
    engine.flush().await.unwrap();
    let in_head = push_rows(&engine, "a", 40..60).await;
    let all = sorted([in_blocks, in_head]);
    assert_eq!((read_all(&engine).await, generation()), (all.clone(), 0));
    assert_eq!(count_all(&engine).await, (80, 20), "blocks are counted from their footers");
    let by_time = delete(&engine, "a", 10, 49).await;
    let left = without(&all, "a", None, 10..50);
    assert_eq!(read_all(&engine).await, left);
    assert_eq!(count_all(&engine).await, (40, 20), "the touched stream is read, the other one counted");
    let first = generation();
    assert!(first > 0);
    let by_line = delete(&engine, "b 7", 0, 100).await;
    let less = without(&left, "b", Some("7"), 0..100);
    assert_eq!(less.len() + 1, left.len());
    assert_eq!((read_all(&engine).await, generation() > first), (less, true));
    let absent = delete(&engine, "b nothing-like-this", 0, 100).await;
    engine.cancel_delete(&Dataset::logs(tenant.clone()), by_line, false).await.unwrap();
    let (counted, read) = count_all(&engine).await;
    assert_eq!(counted + read, 60, "a rule that names no row hides none");
    engine.cancel_delete(&Dataset::logs(tenant.clone()), absent, false).await.unwrap();
    let whole = delete(&engine, "a", 0, 100).await;
    assert_eq!(count_all(&engine).await, (40, 0), "a completely hidden stream is not read");
    for id in [whole, by_time] {
        engine.cancel_delete(&Dataset::logs(tenant.clone()), id, false).await.unwrap();
    }
    assert_eq!(read_all(&engine).await, all);
    assert_eq!(count_all(&engine).await, (80, 20));
    let unknown = engine.cancel_delete(&Dataset::logs(tenant.clone()), whole, false).await;
    assert!(matches!(unknown, Err(Error::Cancel(CancelRefusal::Unknown))), "{unknown:?}");
    assert!(engine.deletes(&Dataset::logs(tenant.clone())).await.unwrap().is_empty());
    assert_eq!(engine.queries().rulebook.datasets(), [], "nothing is cached for a tenant without requests");
}

/// The catalog's entry of a block changes while its footer is cached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cached_footer_has_the_entry_of_the_snapshot() {
    let directory = TempDir::new().unwrap();
    let engine = open(&directory, DAY, DeletionMode::FilterAndDelete).await;
    push_rows(&engine, "a", 0..10).await;
    engine.flush().await.unwrap();
    let before = Arc::clone(engine.view().snapshot.all_blocks().next().unwrap());
    let bytes = engine.queries().reader.bytes().clone();
    let cache = Arc::new(BlockCache::new(bytes.cache().clone()));
    let reader = BlockReader::new(engine.env().clone(), bytes, cache);
    let stats = QueryStats::default();
    reader.open::<sandur_format::log_block::Footer>(&before, &stats).await.unwrap();
    let hits = stats.snapshot().index_cache_hits;
    let clean = Arc::new(BlockMeta { deletes_through: 7, ..BlockMeta::clone(&before) });
    let opened = reader.open::<sandur_format::log_block::Footer>(&clean, &stats).await.unwrap();
    assert_eq!((opened.meta.deletes_through, stats.snapshot().index_cache_hits), (7, hits + 1));
    assert_eq!(
        reader.open::<sandur_format::log_block::Footer>(&before, &stats).await.unwrap().meta.deletes_through,
        before.deletes_through
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_do_not_see_hidden_rows() {
    let directory = TempDir::new().unwrap();
    let engine = open(&directory, DAY, DeletionMode::FilterOnly).await;
    let context = context(engine.env());
    let mut follow = engine.sources().logs.follow(&context, app_is("a")).unwrap();
    delete(&engine, "a 5", 0, 100).await;
    let rows = push_rows(&engine, "a", 4..7).await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let Some(Followed::Page(page)) = follow.next().await else { panic!("a page") };
        seen.extend(rows_of(&page));
    }
    assert_eq!(seen, [rows[0].clone(), rows[2].clone()]);
}

/// Runs a process that dies where `body` ends: its runtime is dropped with all tasks and files.
fn process<T>(body: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(body)
}

#[test]
fn deleted_lines_are_removed_from_blocks_across_restarts() {
    let directory = TempDir::new().unwrap();
    let tenant = TenantId::default_tenant();
    let left = process(async {
        let engine = open(&directory, DAY, DeletionMode::FilterAndDelete).await;
        let flushed = [push_rows(&engine, "a", 0..40).await, push_rows(&engine, "b", 0..40).await];
        let whole = push_rows(&engine, "c", 0..40).await;
        engine.flush().await.unwrap();
        let all = sorted([sorted(flushed), push_rows(&engine, "a", 40..60).await, whole]);
        delete(&engine, "a", 10, 49).await;
        delete(&engine, "b 7", 0, 39).await;
        delete(&engine, "c", 0, 100).await;
        let left = without(&all, "a", None, 10..50);
        let left = without(&left, "b", Some("7"), 0..40);
        let left = without(&left, "c", None, 0..100);
        assert_eq!(read_all(&engine).await, left);
        left
    });
    process(async {
        // The head of the previous process is read from its WAL; no request is started for a day.
        let engine = open(&directory, DAY, DeletionMode::FilterAndDelete).await;
        assert_eq!(read_all(&engine).await, left);
        engine.flush().await.unwrap();
        assert_eq!(read_all(&engine).await, left);
        engine.catalog().checkpoint().await.unwrap();
    });
    process(async {
        let engine = open(&directory, Duration::ZERO, DeletionMode::FilterAndDelete).await;
        let ids: Vec<_> = engine
            .deletes(&Dataset::logs(tenant.clone()))
            .await
            .unwrap()
            .iter()
            .map(|d| d.record.request.id)
            .collect();
        assert_eq!(ids.len(), 3);
        for id in ids {
            processed(&engine, id).await;
        }
        assert_eq!(read_all(&engine).await, left);
        let view = engine.view();
        let rows: u64 = view.snapshot.all_blocks().map(|block| block.rows).sum();
        assert_eq!(rows, left.len() as u64, "the blocks themselves hold no more");
        assert_eq!(engine.metrics().deleted_rows.get(), 40 + 1 + 40);
        let context = context(engine.env());
        let labels =
            all_texts(&*engine.sources().logs, &context, SeriesRequest::everything().values("app")).await;
        assert_eq!(labels.unwrap().0, ["a", "b"], "a stream without rows is not listed");
        let processed = engine.deletes(&Dataset::logs(tenant.clone())).await.unwrap()[0].record.request.id;
        let refused = engine.cancel_delete(&Dataset::logs(tenant.clone()), processed, true).await;
        assert!(matches!(refused, Err(Error::Cancel(CancelRefusal::Processed))), "{refused:?}");
        // Rows that arrive after the request was processed are kept.
        let late = push_row(&engine, "a", 20, "late").await.unwrap();
        assert_eq!(read_all(&engine).await, sorted([left.clone(), vec![late]]));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_without_remaining_rows_is_removed() {
    let directory = TempDir::new().unwrap();
    let engine = open(&directory, Duration::ZERO, DeletionMode::FilterAndDelete).await;
    push_rows(&engine, "a", 0..10).await;
    engine.flush().await.unwrap();
    processed(&engine, delete(&engine, "a", 0, 100).await).await;
    assert_eq!((engine.view().snapshot.block_count(), read_all(&engine).await), (0, Vec::new()));
    let line = |n| format!("secret {n}");
    for n in 0..5 {
        push_row(&engine, "a", n, &line(n)).await.unwrap();
    }
    engine.flush().await.unwrap();
    processed(&engine, delete(&engine, "a secret", 0, 100).await).await;
    assert_eq!((engine.view().snapshot.block_count(), read_all(&engine).await), (0, Vec::new()));
}

#[test]
fn the_deletion_mode_of_a_tenant_is_applied() {
    let directory = TempDir::new().unwrap();
    let all = process(async {
        let engine = open(&directory, Duration::ZERO, DeletionMode::FilterOnly).await;
        let all = push_rows(&engine, "a", 0..10).await;
        engine.flush().await.unwrap();
        delete(&engine, "a", 0, 100).await;
        assert_eq!(read_all(&engine).await, []);
        engine.shutdown().await.unwrap();
        all
    });
    process(async {
        let engine = open(&directory, Duration::ZERO, DeletionMode::Disabled).await;
        assert_eq!(read_all(&engine).await, all, "nothing was removed, and nothing is hidden");
        let status = engine.deletes(&Dataset::logs(TenantId::default_tenant())).await.unwrap();
        assert_eq!((status[0].record.progress, status[0].percent), (DeleteProgress::Received, 0));
    });
}

/// One of several processes on a bucket.
async fn member(env: &Env, client: &FaultStore) -> Arc<Engine> {
    let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
    let options = options(Duration::from_secs(30), DeletionMode::FilterAndDelete);
    let maintenance = MaintenanceOptions::default();
    let options = EngineOptions { maintenance, flush_age: Duration::from_secs(45), ..options };
    loop {
        if let Ok(engine) = Engine::open(store.clone(), env.clone(), options.clone()).await {
            return engine;
        }
        env.sleep(Duration::from_secs(1)).await;
    }
}

/// About every tenth request fails, each in a way that a retry fixes.
fn bad_day() -> FaultPlan {
    FaultPlan {
        latency_median: Duration::from_millis(10),
        refused: 0.02,
        throttled: 0.02,
        failed: 0.03,
        lost_ack: 0.01,
        false_conflict: 0.01,
        truncated: 0.01,
        broken_body: 0.01,
        ..FaultPlan::none()
    }
}

/// Blocks that the store does not return for a while are cleaned later, and those of other tenants
/// meanwhile.
#[tokio::test(start_paused = true)]
async fn a_temporary_store_failure_leaves_no_request_stuck() {
    let env = Env::simulated(7, START_NS);
    let plan = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
    let bucket = FaultStore::new(env.clone(), 7, plan);
    let engine = member(&env, &bucket.client("one")).await;
    let (first, other) = (TenantId::default_tenant(), TenantId::new("other").unwrap());
    assert!(first < other, "requests are processed by tenant");
    let rows = push_rows(&engine, "a", 0..20).await;
    let batch = BatchBuilder::of(other.clone()).stream("a").row(START_NS, "x").build();
    engine.push(batch).await.unwrap();
    engine.flush().await.unwrap();
    // New blocks must come from the store, as after a restart.
    engine.queries().reader.bytes().cache().flush_all(None);
    let unread =
        engine.view().snapshot.blocks(&Dataset::logs(first.clone()), TimeRange::ALL).next().unwrap().path();
    for _ in 0..200 {
        bucket.fail_next(Op::Get, &unread, Fault::Failed);
    }
    let id = delete(&engine, "a 7", 0, 100).await;
    let ms = START_NS / 1_000_000;
    let others = engine.create_delete(&Dataset::logs(other.clone()), "a x", ms, ms).await.unwrap();
    let is_processed = async |tenant: &TenantId, id| {
        let snapshot = engine.catalog().refresh().await.unwrap();
        matches!(
            snapshot.delete(&Dataset::logs(tenant.clone()), id).unwrap().progress,
            DeleteProgress::Processed { .. }
        )
    };
    while !is_processed(&other, others).await {
        assert!(env.monotonic() < Duration::from_secs(3_600), "the other tenant's request waits");
        env.sleep(Duration::from_secs(5)).await;
    }
    assert!(engine.metrics().delete_failures.get() > 0 && !is_processed(&first, id).await);
    while !is_processed(&first, id).await {
        assert!(env.monotonic() < Duration::from_secs(7_200), "the block was given up");
        env.sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(read_all(&engine).await, without(&rows, "a", Some("7"), 0..100));
}

/// Two processes push and delete while the bucket fails often. One of them is killed repeatedly, at
/// random moments of the processing. Hidden rows must never be shown again by the process that hid them
/// or by its successors, all other rows must be found, and in the end every request is processed.
async fn survives(seed: u64) {
    println!("seed {seed}");
    let env = Env::simulated(seed, START_NS);
    let bucket = FaultStore::new(env.clone(), seed, bad_day());
    let one = member(&env, &bucket.client("one")).await;
    let (mut victim, mut names) = (member(&env, &bucket.client("victim-0")).await, 1);
    let mut rows: Vec<Row> = Vec::new();
    let mut ids = Vec::new();
    for round in 0..6i64 {
        let (from, to) = (round * 100, round * 100 + 20);
        rows.extend(push_rows(&one, "a", from..to).await);
        rows.extend(push_rows(&victim, "b", from..to).await);
        env.sleep(Duration::from_secs(3)).await;
        rows.sort();
        if round < 4 {
            let word = (from + 3).to_string();
            ids.push(delete(&one, "b", from, from + 10).await);
            ids.push(delete(&one, &format!("a {word}"), from, to).await);
            rows = without(&without(&rows, "b", None, from..from + 11), "a", Some(&word), from..to);
        }
        assert_eq!(read_newest(&one).await, rows, "seed {seed}, round {round}");
        env.sleep(Duration::from_millis(env.random_below(60_000))).await;
        assert_eq!(read_newest(&one).await, rows, "seed {seed}, round {round}, later");
        if env.random_below(2) == 0 {
            drop(victim);
            victim = member(&env, &bucket.client(&format!("victim-{names}"))).await;
            names += 1;
            assert_eq!(read_newest(&victim).await, rows, "seed {seed}, round {round}, after a crash");
        }
    }
    let tenant = TenantId::default_tenant();
    for id in ids {
        let mut waited = 0;
        loop {
            let snapshot = one.catalog().refresh().await.unwrap();
            let record = snapshot.delete(&Dataset::logs(tenant.clone()), id).unwrap();
            if matches!(record.progress, DeleteProgress::Processed { .. }) {
                break;
            }
            assert!(waited < 900, "seed {seed}: {record:?} is stuck at {}", snapshot.delete_percent(record));
            env.sleep(Duration::from_secs(5)).await;
            waited += 5;
            assert_eq!(read_newest(&one).await, rows, "seed {seed}, while {id} is processed");
        }
    }
    env.sleep(Duration::from_secs(120)).await;
    assert_eq!(read_newest(&one).await, rows, "seed {seed}, at the end");
    one.flush().await.unwrap();
    victim.flush().await.unwrap();
    let snapshot = one.catalog().refresh().await.unwrap();
    let stored: u64 = snapshot.all_blocks().map(|block| block.rows).sum();
    assert_eq!(stored, rows.len() as u64, "seed {seed}: rows in blocks");
}

#[tokio::test(start_paused = true)]
async fn crashes_and_other_processes_neither_lose_nor_restore_rows() {
    let is_long = sandur_runtime::environment::variable("SANDUR_LONG_FORMS").is_some();
    for seed in 0..if is_long { 12 } else { 3 } {
        survives(seed).await;
    }
}
