//! Goal: a query that is split into pieces has the same answer as the complete query, reads no more than
//! necessary, and releases its turn between pieces.
//!
//! Method: rows in memory in a source that reports each hour as its own block, large enough to be worth a
//! turn. Answers are compared with those of the same rows in one piece.

#![allow(clippy::unwrap_used)] // tests may panic

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_logql::{Kind, Request};
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, Limits, Matcher, TenantId, TimeRange};
use sandur_query::{
    Direction, Error, FairQueue, Follow, Holding, Indexed, LogSource, MemoryRow, MemorySource, QueryContext,
    QueryResult, ResultsCache, Scan, Selection, StreamVolume, StreamsRequest, Versions,
};
use sandur_runtime::Env;

const S: i64 = 1_000_000_000;
const HOUR: i64 = 3_600 * S;
const HOURS: i64 = 12;

/// A source whose rows are in hourly blocks.
struct Hours {
    rows: MemorySource,
    scans: AtomicUsize,
    version: AtomicUsize,
    /// Called before each scan with its number.
    before_scan: Box<dyn Fn(usize) + Send + Sync>,
}

impl Hours {
    fn new() -> Self {
        let row = |n: i64| MemoryRow {
            labels: Arc::new(Labels::from_pairs([("app", format!("a{}", n % 3))])),
            timestamp: n * 60 * S + 7,
            line: format!("row {n} n={}", n % 7).into(),
            metadata: Vec::new(),
            level: Level::None,
        };
        let rows = MemorySource::new((0..HOURS * 60).map(row).collect()).page_rows(20);
        Self { rows, scans: AtomicUsize::new(0), version: AtomicUsize::new(0), before_scan: Box::new(|_| ()) }
    }
}

impl Indexed for Hours {
    type Index = MemorySource;

    fn index(&self) -> &MemorySource {
        &self.rows
    }
}

impl Versions for Hours {
    fn holdings(&self, _context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        let version = self.version.load(Ordering::SeqCst) as u128;
        let hour = |n: i64| Holding {
            first: n * HOUR,
            last: n * HOUR + HOUR - 1,
            version: (n as u128) << 64 | version,
            bytes: 2 << 30,
            block: (n * HOUR, n * HOUR + HOUR - 1),
        };
        Some((0..HOURS).map(hour).filter(|h| range.touches(h.first, h.last)).collect())
    }
}

impl LogSource for Hours {
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        (self.before_scan)(self.scans.fetch_add(1, Ordering::SeqCst));
        self.rows.scan(context, selection)
    }

    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        request: StreamsRequest,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        self.rows.volumes(context, request)
    }

    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        self.rows.follow(context, matchers)
    }
}

fn paused<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn context() -> QueryContext {
    let (tenant, budget) = (TenantId::default_tenant(), MemoryBudget::root("query", 64 << 20));
    QueryContext::new(Env::simulated(1, 0), tenant, budget, Duration::from_secs(600))
}

fn log_request(query: &str, limit: u32, direction: Direction) -> Request {
    let kind = Kind::Range { start_ns: 5 * 60 * S, end_ns: HOURS * HOUR, step_ns: 0 };
    Request { query: query.to_owned(), kind, limit, direction, interval_ns: 0 }
}

fn metric_request(query: &str, start: i64, end: i64, step: i64) -> Request {
    let kind = Kind::Range { start_ns: start * S, end_ns: end * S, step_ns: step * S };
    Request { query: query.to_owned(), kind, limit: 10, direction: Direction::Backward, interval_ns: 0 }
}

async fn ask(source: &dyn LogSource, context: &QueryContext, request: &Request) -> QueryResult {
    sandur_logql::query(source, context, &Limits::default(), request.clone()).await.unwrap()
}

const METRICS: &[&str] = &[
    r#"sum by (app) (count_over_time({app=~".+"} |= "n=3" [5m]))"#,
    r#"count_over_time({app=~".+"}[30m] offset 10m)"#,
    r#"topk(1, rate({app=~".+"}[10m])) / on() group_left sum(rate({app=~".+"}[1h]))"#,
    r#"sum(sum_over_time({app=~".+"} | logfmt | unwrap n [20m]))"#,
    r#"absent_over_time({app="a0"} |= "row 77 " [15m])"#,
];

#[test]
fn log_queries_stop_at_the_piece_with_enough_rows() {
    paused(async {
        let (source, whole) = (Hours::new(), Hours::new().rows);
        for direction in [Direction::Backward, Direction::Forward] {
            for (query, limit, most) in [
                (r#"{app=~".+"}"#, 5, 1),
                (r#"{app=~".+"} |= "n=3""#, 20, 4),
                (r#"{app="a1"} |= "row 37" "#, 10, 12),
                (r#"{app="a1"} |= "nowhere""#, 10, 12),
            ] {
                let request = log_request(query, limit, direction);
                source.scans.store(0, Ordering::SeqCst);
                let context = context();
                let answer = ask(&source, &context, &request).await;
                assert_eq!(answer, ask(&whole, &self::context(), &request).await, "{query} {direction:?}");
                let scans = source.scans.load(Ordering::SeqCst);
                assert!(scans <= most, "{query} {direction:?}: {scans} pieces");
                assert_eq!(context.stats().snapshot().splits, scans as u64);
            }
        }
    });
}

#[test]
fn metric_queries_are_the_same_in_pieces() {
    paused(async {
        let (source, whole) = (Hours::new(), Hours::new().rows);
        for query in METRICS {
            for (start, end, step) in [(0, 43_200, 60), (1_000, 40_000, 345), (3_600, 7_200, 3_600)] {
                let request = metric_request(query, start, end, step);
                let answer = ask(&source, &context(), &request).await;
                assert_eq!(answer, ask(&whole, &context(), &request).await, "{query} {start} {end} {step}");
            }
        }
        source.scans.store(0, Ordering::SeqCst);
        ask(&source, &context(), &metric_request(METRICS[0], 0, 43_200, 60)).await;
        assert!(source.scans.load(Ordering::SeqCst) >= 10, "each hour is a piece");
    });
}

#[test]
fn cached_steps_are_not_evaluated_again_until_rows_change() {
    paused(async {
        let source = Hours::new();
        let results = ResultsCache::new(MemoryBudget::root("results", 8 << 20));
        for query in METRICS {
            let context = || context().with_results(results.clone());
            let first = metric_request(query, 600, 30_000, 60);
            let fresh = ask(&source, &context(), &first).await;
            source.scans.store(0, Ordering::SeqCst);
            let again = context();
            assert_eq!(ask(&source, &again, &first).await, fresh, "{query}");
            assert_eq!(source.scans.load(Ordering::SeqCst), 0, "{query}");
            let stats = again.stats().snapshot();
            assert!(stats.result_cache_hits > 50 && stats.result_cache_hits == stats.result_cache_requests);
            // A later window evaluates only the new steps.
            let later = metric_request(query, 900, 30_300, 60);
            let shifted = context();
            let answer = ask(&source, &shifted, &later).await;
            assert_eq!(answer, ask(&source, &self::context(), &later).await, "{query}");
            let stats = shifted.stats().snapshot();
            assert!(stats.result_cache_hits + 3 >= stats.result_cache_requests, "{query}: {stats:?}");
            source.version.fetch_add(1, Ordering::SeqCst);
            let changed = context();
            assert_eq!(ask(&source, &changed, &first).await, fresh, "{query}");
            assert_eq!(changed.stats().snapshot().result_cache_hits, 0, "{query}");
        }
    });
}

#[test]
fn steps_are_not_cached_if_rows_change_or_the_query_reads_the_clock() {
    paused(async {
        let mut source = Hours::new();
        let version = Arc::new(AtomicUsize::new(0));
        let results = ResultsCache::new(MemoryBudget::root("results", 8 << 20));
        let request = metric_request(METRICS[0], 600, 30_000, 60);
        let by_clock = r#"sum(count_over_time({app=~".+"} | label_format t="{{ now }}" [5m]))"#;
        ask(&source, &context().with_results(results.clone()), &metric_request(by_clock, 0, 9_000, 60)).await;
        ask(&source, &context().with_results(results.clone()).with_earliest(S), &request).await;
        assert_eq!(results.figures().stored, 0);
        let changing = Arc::clone(&version);
        source.before_scan = Box::new(move |_| _ = changing.fetch_add(1, Ordering::SeqCst));
        let source = Changing { hours: source, version };
        ask(&source, &context().with_results(results.clone()), &request).await;
        assert_eq!(results.figures().stored, 0);
    });
}

/// Durations with the same rounded text have different cache keys.
#[test]
fn windows_that_differ_by_less_than_a_millisecond_are_cached_separately() {
    paused(async {
        let source = Hours::new();
        let results = ResultsCache::new(MemoryBudget::root("results", 8 << 20));
        // Rows are 7 ns after each minute, steps 2 ms after.
        for offset in ["1ms", "1999999ns"] {
            let query = format!(r#"sum(count_over_time({{app=~".+"}}[1ms] offset {offset}))"#);
            let kind = Kind::Range { start_ns: 600_002_000_000, end_ns: 9_000_002_000_000, step_ns: 60 * S };
            let request = Request { kind, ..metric_request(&query, 0, 0, 1) };
            let (knowing, limits) = (context().with_results(results.clone()), Limits::default());
            let kept = sandur_logql::query_unaligned(&source, &knowing, &limits, request.clone()).await;
            let fresh = sandur_logql::query_unaligned(&source, &context(), &limits, request).await.unwrap();
            assert_eq!(matches!(&fresh, QueryResult::Matrix(s) if s.is_empty()), offset != "1ms");
            assert_eq!(kept.unwrap(), fresh, "{offset}");
        }
    });
}

/// A source whose version changes during scans.
struct Changing {
    hours: Hours,
    version: Arc<AtomicUsize>,
}

impl Indexed for Changing {
    type Index = Hours;

    fn index(&self) -> &Hours {
        &self.hours
    }
}

impl Versions for Changing {
    fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        self.hours.version.store(self.version.load(Ordering::SeqCst), Ordering::SeqCst);
        self.hours.holdings(context, range)
    }
}

impl LogSource for Changing {
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        self.hours.scan(context, selection)
    }

    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        request: StreamsRequest,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        self.hours.volumes(context, request)
    }

    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        self.hours.follow(context, matchers)
    }
}

/// A cancelled query starts no further piece, and each piece takes its own turn.
#[test]
fn pieces_take_turns_and_a_cancelled_query_starts_no_further_one() {
    paused(async {
        let mut source = Hours::new();
        let queue = FairQueue::new(1, 10);
        let context = context().with_queue(queue.clone());
        let (watched, cancelled) = (queue.clone(), context.clone());
        source.before_scan = Box::new(move |scan| {
            assert_eq!(watched.running(), 1, "a scan runs in a turn");
            if scan == 3 {
                cancelled.cancel();
            }
        });
        let request = log_request(r#"{app=~".+"} |= "nowhere""#, 10, Direction::Backward);
        let outcome = sandur_logql::query(&source, &context, &Limits::default(), request).await;
        assert!(matches!(outcome, Err(Error::Cancelled)));
        assert_eq!((source.scans.load(Ordering::SeqCst), queue.running()), (4, 0));
    });
}

#[test]
fn queries_that_would_read_too_many_bytes_are_refused() {
    paused(async {
        let source = Hours::new();
        let refusal = async |limits: Limits, request: Request| {
            let outcome = sandur_logql::query(&source, &context(), &limits, request).await;
            outcome.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let metric = || metric_request(METRICS[0], 0, 43_200, 60);
        let log = || log_request(r#"{app=~".+"}"#, 10, Direction::Backward);
        let most = |bytes| Limits { max_query_bytes_read: bytes, ..Limits::default() };
        assert_eq!(refusal(most(1 << 20), metric()).await, "");
        for request in [metric(), log()] {
            assert_eq!(
                refusal(most(2_000), request).await,
                "the query would read too many bytes (query: 7.6 KiB, limit: 2.0 KiB); consider adding more \
                 specific stream selectors or reduce the time range of the query"
            );
        }
        let piece = |bytes| Limits { max_querier_bytes_read: bytes, ..Limits::default() };
        assert_eq!(refusal(piece(2_000), metric()).await, "");
        let instant = |query: &str| Request {
            kind: Kind::Instant { time_ns: HOURS * HOUR },
            ..metric_request(query, 0, 0, 1)
        };
        let recent = instant(r#"count_over_time({app="a0"}[5m])"#);
        assert_eq!(refusal(piece(100), recent).await, "");
        for request in [log(), instant(r#"count_over_time({app="a0"}[12h])"#)] {
            assert!(
                refusal(piece(100), request)
                    .await
                    .starts_with("query too large to execute on a single querier: (query: ")
            );
        }
    });
}

/// The results of finished pieces stay reserved until the answer is built.
#[test]
fn pieces_together_stay_within_the_memory_of_a_query() {
    paused(async {
        let source = Hours::new();
        let peak = async |request: &Request, bytes: u64| {
            let budget = MemoryBudget::root("query", bytes);
            let (env, tenant) = (Env::simulated(1, 0), TenantId::default_tenant());
            let context = QueryContext::new(env, tenant, budget.clone(), Duration::from_secs(600));
            let asked = sandur_logql::query(&source, &context, &Limits::default(), request.clone()).await;
            assert_eq!(budget.used(), 0);
            asked.map(|_| budget.peak())
        };
        let log = |limit| log_request(r#"{app=~".+"}"#, limit, Direction::Forward);
        let metric =
            |hours| metric_request(r#"count_over_time({app=~".+"} | logfmt [1m])"#, 0, hours * 3_600, 60);
        for (less, more) in [(log(60), log(700)), (metric(1), metric(HOURS))] {
            let (one, all) = (peak(&less, 64 << 20).await.unwrap(), peak(&more, 64 << 20).await.unwrap());
            assert!(all > one + 640 * 16, "{one} bytes for one piece, {all} for all");
            assert!(matches!(peak(&more, one + 640 * 8).await, Err(Error::OverBudget(_))));
        }
    });
}

/// The first piece with too many series fails, and cached results are not truncated.
#[test]
fn pieces_with_too_many_series_are_refused_at_once() {
    paused(async {
        let source = Hours::new();
        let limits = Limits { max_query_series: 5, ..Limits::default() };
        let request = metric_request(r#"count_over_time({app=~".+"} | logfmt [1h])"#, 0, 43_200, 60);
        let refused = sandur_logql::query(&source, &context(), &limits, request.clone()).await;
        let reason = refused.unwrap_err().to_string();
        assert!(reason.starts_with("maximum number of series (5) reached for a single query; consider"));
        assert!(source.scans.load(Ordering::SeqCst) <= 3, "later pieces do not start");
        let results = ResultsCache::new(MemoryBudget::root("results", 8 << 20));
        let partial = context().with_results(results.clone());
        partial.allow_partial();
        let cut = sandur_logql::query(&source, &partial, &limits, request.clone()).await.unwrap();
        let (QueryResult::Matrix(cut), QueryResult::Matrix(all)) =
            (cut, ask(&source, &context(), &request).await)
        else {
            panic!("matrices")
        };
        assert_eq!((cut.len(), cut.as_slice()), (5, &all[..5]));
        assert_eq!(partial.warnings().len(), 1);
        let whole = ask(&source, &context().with_results(results.clone()), &request).await;
        assert_eq!(whole, QueryResult::Matrix(all), "cached results are not truncated");
    });
}

#[test]
fn rows_before_the_lookback_are_not_read() {
    paused(async {
        let source = Hours::new();
        let since = context().with_earliest(6 * HOUR);
        let QueryResult::Streams(rows) =
            ask(&source, &since, &log_request(r#"{app=~".+"}"#, 5_000, Direction::Forward)).await
        else {
            panic!("rows")
        };
        assert_eq!((rows.len(), rows[0].timestamp), (360, 6 * HOUR + 7));
        let before = metric_request(METRICS[0], 0, 3_600, 60);
        assert_eq!(ask(&source, &since, &before).await, QueryResult::Matrix(Vec::new()));
        let across = metric_request(r#"sum(count_over_time({app=~".+"}[12h]))"#, 0, 43_200, 3_600);
        let QueryResult::Matrix(series) = ask(&source, &since, &across).await else { panic!("a matrix") };
        assert_eq!(series[0].samples.iter().map(|s| s.value).fold(0.0, f64::max), 360.0);
    });
}
