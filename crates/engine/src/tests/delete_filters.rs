//! Goal: however many delete requests are open and however large their compiled queries are, the memory
//! of compiled queries stays within its budget, and every named row is hidden and removed. Method: a
//! query language whose words specify the size of the compiled query in bytes, and which counts the
//! compiled queries that exist.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use sandur_base::{ErrorKind, Id};
use sandur_memory::Reservation;
use sandur_memory::job::reserve_exactly;
use sandur_model::{Dataset, LineColumn, LogPage, Matcher};
use sandur_query::{Error as QueryError, Followed, RowLook, RowSelector};
use tempfile::TempDir;

use super::deletes::{processed, without};
use super::local::process;
use super::*;
use crate::fixtures::app_is;
use crate::{DeleteOptions, FilterError, MaintenanceOptions};

const BUDGET: u64 = 1 << 20;
/// Bytes of a large query, of which three fit.
const LARGE: u64 = 300 << 10;
/// A new request may use half of the budget.
const TOO_LARGE: u64 = BUDGET / 2 + 1;

/// Bytes of existing compiled queries: now, and at most at one time.
#[derive(Default)]
struct Alive {
    now: AtomicU64,
    most: AtomicU64,
    compiled: AtomicU64,
}

/// A query `app word bytes`: the lines of an app that contain a word.
struct Sized {
    matchers: Vec<Matcher>,
    word: String,
    needles: Needles,
    bytes: u64,
    alive: Arc<Alive>,
    _memory: Option<Reservation>,
}

impl Drop for Sized {
    fn drop(&mut self) {
        self.alive.now.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

fn compile(alive: &Arc<Alive>, text: &str) -> Result<Arc<dyn RowSelector>, QueryError> {
    let parts: Vec<&str> = text.split(' ').collect();
    let &[app, word, bytes] = &*parts else { return Err(QueryError::Invalid("no query".to_owned())) };
    let bytes = bytes.parse().unwrap();
    let memory = reserve_exactly(bytes)?;
    let now = alive.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
    alive.most.fetch_max(now, Ordering::SeqCst);
    alive.compiled.fetch_add(1, Ordering::SeqCst);
    let (matchers, word, alive) = (app_is(app), word.to_owned(), Arc::clone(alive));
    Ok(Arc::new(Sized { matchers, word, needles: Needles::default(), bytes, alive, _memory: memory }))
}

impl RowSelector for Sized {
    fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    fn looks_at_rows(&self) -> bool {
        true
    }

    fn needles(&self) -> &Needles {
        &self.needles
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn look(&self) -> Box<dyn RowLook + '_> {
        Box::new(self)
    }
}

impl RowLook for &Sized {
    fn select(&mut self, _: &LogPage, lines: &LineColumn, _: usize, rows: Range<u32>, out: &mut Vec<u32>) {
        let holds = |row: &u32| {
            String::from_utf8_lossy(lines.line(*row as usize)).split(' ').any(|word| word == self.word)
        };
        out.extend(rows.filter(holds));
    }
}

/// An engine whose budget for compiled queries is `filters` bytes.
async fn open(directory: &TempDir, cancel_period: Duration, filters: u64) -> (Arc<Engine>, Arc<Alive>) {
    let alive = Arc::new(Alive::default());
    let counted = Arc::clone(&alive);
    let deletes = DeleteOptions {
        cancel_period,
        compile: Arc::new(move |text| compile(&counted, text)),
        filter_budget: MemoryBudget::root("filters of delete requests", filters),
        ..DeleteOptions::default()
    };
    let maintenance =
        MaintenanceOptions { interval: Duration::from_millis(20), ..MaintenanceOptions::default() };
    let options = EngineOptions { deletes, maintenance, ..small_options() };
    let env = Env::system(2);
    let url = directory.path().to_str().unwrap();
    let store = Store::open(url, env.clone(), StoreOptions::default()).await.unwrap();
    (Engine::open(store, env, options).await.unwrap(), alive)
}

fn logs() -> Dataset {
    Dataset::logs(TenantId::default_tenant())
}

async fn delete(engine: &Engine, query: &str) -> Result<Id, Error> {
    let ms = START_NS / 1_000_000;
    engine.create_delete(&logs(), query, ms, ms + 1_000).await
}

const DAY: Duration = Duration::from_secs(86_400);

/// Every open request was compiled at the first query, and all compiled queries were kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_filters_stay_within_their_memory() {
    let directory = TempDir::new().unwrap();
    let (engine, alive) = open(&directory, DAY, BUDGET).await;
    let mut all = push_rows(&engine, "a", 0..30).await;
    engine.flush().await.unwrap();
    all.extend(push_rows(&engine, "a", 30..60).await);
    let mut left = all.clone();
    for number in (0..60).step_by(3) {
        delete(&engine, &format!("a {number} {LARGE}")).await.unwrap();
        left = without(&left, "a", Some(&number.to_string()), 0..100);
    }
    assert_eq!(left.len(), 40);
    for _ in 0..2 {
        assert_eq!(read_all(&engine).await, left);
    }
    let most = alive.most.load(Ordering::SeqCst);
    assert!(most <= BUDGET, "{most} bytes were alive at once");
    assert!(alive.compiled.load(Ordering::SeqCst) > 20, "evicted queries are compiled again");
    // A follower sees the remaining rows, too.
    let context = context(engine.env());
    let mut follow = engine.sources().logs.follow(&context, app_is("a")).unwrap();
    push_row(&engine, "a", 70, "late 3").await.unwrap();
    let late = push_row(&engine, "a", 71, "late 4").await.unwrap();
    let Some(Followed::Page(page)) = follow.next().await else { panic!("a page") };
    assert_eq!(crate::fixtures::rows_of(&page), [late]);
    assert!(alive.most.load(Ordering::SeqCst) <= BUDGET);
    engine.shutdown().await.unwrap();
}

/// If requests do not fit into memory together, blocks are cleaned of some of them first and of the
/// others later.
#[test]
fn many_large_filters_are_processed_within_their_memory() {
    let directory = TempDir::new().unwrap();
    let left = process(async {
        let (engine, _) = open(&directory, DAY, BUDGET).await;
        let mut left = push_rows(&engine, "a", 0..30).await;
        engine.flush().await.unwrap();
        for number in 0..10 {
            delete(&engine, &format!("a {number} {LARGE}")).await.unwrap();
            left = without(&left, "a", Some(&number.to_string()), 0..100);
        }
        engine.shutdown().await.unwrap();
        left
    });
    process(async {
        let (engine, alive) = open(&directory, Duration::ZERO, BUDGET).await;
        let requests = engine.deletes(&logs()).await.unwrap();
        for request in requests {
            processed(&engine, request.record.request.id).await;
        }
        let rows: u64 = engine.view().snapshot.all_blocks().map(|block| block.rows).sum();
        assert_eq!((read_all(&engine).await, rows), (left, 20), "removed from blocks");
        let most = alive.most.load(Ordering::SeqCst);
        assert!(most <= BUDGET, "{most} bytes were alive at once");
        engine.shutdown().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_filter_is_too_large_is_refused_with_the_limit() {
    let directory = TempDir::new().unwrap();
    let (engine, alive) = open(&directory, DAY, BUDGET).await;
    let refused = delete(&engine, &format!("a 1 {TOO_LARGE}")).await.unwrap_err();
    assert!(matches!(refused, Error::Filter(FilterError::TooLarge { .. })), "{refused:?}");
    assert!(refused.to_string().contains("more than 512KiB"), "{refused}");
    let unreadable = delete(&engine, "a").await.unwrap_err();
    assert_eq!((unreadable.to_string().as_str(), unreadable.kind()), ("no query", ErrorKind::Invalid));
    assert!(engine.deletes(&logs()).await.unwrap().is_empty());
    assert_eq!(alive.now.load(Ordering::SeqCst), 0, "neither is cached");
    engine.shutdown().await.unwrap();
}

/// A process with more memory, or an older version, created the request.
#[test]
fn a_request_too_large_for_this_process_fails_the_queries_that_it_concerns() {
    let directory = TempDir::new().unwrap();
    let (rows, large) = process(async {
        let (engine, _) = open(&directory, DAY, 16 * BUDGET).await;
        let rows = push_rows(&engine, "a", 0..10).await;
        engine.flush().await.unwrap();
        let large = delete(&engine, &format!("a 1 {}", 2 * BUDGET)).await.unwrap();
        delete(&engine, &format!("a 2 {LARGE}")).await.unwrap();
        engine.shutdown().await.unwrap();
        (rows, large)
    });
    process(async {
        let (engine, alive) = open(&directory, DAY, BUDGET).await;
        let asked = context(engine.env());
        let selection = |range| Selection {
            matchers: app_is("a"),
            range,
            order: Order::OldestFirst,
            needles: Needles::default(),
            columns: Columns { lines: true, metadata: true },
            counts: false,
            counts_by: Vec::new(),
        };
        let outcome = async {
            let mut scan = engine.sources().logs.scan(&asked, selection(TimeRange::ALL)).await?;
            while let Some(ScanItem::Page(mut task)) = scan.next().await? {
                task.narrow()?;
            }
            Ok::<_, QueryError>(())
        };
        let refused = outcome.await.expect_err("its hidden rows are unknown").to_string();
        assert!(refused.contains(&large.to_string()) && refused.contains("--memory-limit"), "{refused}");
        let later = TimeRange::new(START_NS + 2_000_000_000, START_NS + 3_000_000_000);
        assert!(
            engine.sources().logs.scan(&asked, selection(later)).await.is_ok(),
            "it names no row of that time"
        );
        assert!(alive.most.load(Ordering::SeqCst) <= BUDGET);
        engine.cancel_delete(&logs(), large, false).await.unwrap();
        assert_eq!(read_all(&engine).await, without(&rows, "a", Some("2"), 0..100));
        engine.shutdown().await.unwrap();
    });
}

/// The series that a request names are known without its compiled query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_not_compiled_again_for_series_that_they_do_not_name() {
    let directory = TempDir::new().unwrap();
    let (engine, alive) = open(&directory, DAY, BUDGET).await;
    let in_block = push_rows(&engine, "b", 0..10).await;
    engine.flush().await.unwrap();
    let all = sorted([in_block, push_rows(&engine, "b", 10..20).await]);
    for number in 0..10 {
        delete(&engine, &format!("a {number} {LARGE}")).await.unwrap();
    }
    assert_eq!(read_all(&engine).await, all);
    let compiled = alive.compiled.load(Ordering::SeqCst);
    assert_eq!(compiled, 20, "each request is compiled when it is created and when it is first read");
    assert_eq!(read_all(&engine).await, all);
    assert_eq!(alive.compiled.load(Ordering::SeqCst), compiled);
    engine.shutdown().await.unwrap();
}
