//! Measures how fast queries run over pages in memory: `cargo run --release --example logql_speed [threads]
//! [part of a name]`.
//!
//! Lines are generated, a third each JSON, logfmt and text. 64 pages of 2 MiB are read repeatedly, 1 GiB in
//! total. The output is the best of three runs, and raw bytes per second.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a measuring tool

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandur_base::BoxFuture;
use sandur_logql::{Kind, Request};
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, Limits, LineAutomaton, LineColumn, LogPage, Matcher, StreamRun, TenantId};
use sandur_query::{
    CountsTask, Direction, Error, Follow, KnownSeries, LogSource, MinuteCount, Order, PageTask, QueryContext,
    QueryResult, SampleScan, Scan, ScanItem, Selection, SeriesIndex, SeriesRequest, StreamCounts,
    StreamVolume, StreamsRequest, Versions,
};
use sandur_runtime::Env;

const S: i64 = 1_000_000_000;
const PAGE_BYTES: usize = 2 << 20;
const DISTINCT: usize = 64;
const PAGES: usize = 512;

struct Stored {
    page: LogPage,
    lines: LineColumn,
    bounds: (i64, i64),
}

struct Pages {
    pages: Vec<Arc<Stored>>,
    served: usize,
    counts: Vec<StreamCounts>,
}

struct Task {
    stored: Arc<Stored>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn line(random: &mut Random, kind: usize, out: &mut Vec<u8>) {
    let status = [200, 200, 200, 200, 404, 500, 503][random.below(7) as usize];
    let (took, user) = (random.below(3000), random.below(100_000));
    let trace = format!("{:032x}", random.below(u64::MAX >> 33));
    let (second, thread) = (random.below(60), random.below(1000));
    let text = match kind {
        0 => [
            format!(r#"{{"ts":"2026-11-21T06:{second:02}:11.{thread:03}Z","level":"info","#),
            format!(r#""msg":"request completed","method":"GET","path":"/api/v1/users/{user}","#),
            format!(r#""status":{status},"duration_ms":{took},"trace_id":"{trace}","#),
            format!(r#""client":{{"ip":"10.1.{second}.{second}","agent":"curl/8.5"}}}}"#),
        ],
        1 => [
            format!("level=info ts=2026-11-21T06:{second:02}:11Z caller=handler.go:{thread} "),
            format!("msg=\"request completed\" method=GET path=/api/v1/users/{user} "),
            format!("status={status} duration={took}ms "),
            format!("trace_id={trace}"),
        ],
        _ => [
            format!("2026-11-21 06:{second:02}:11,{thread:03} INFO  [worker-{second}] "),
            format!("com.example.Service - finished job {user} with status {status} "),
            format!("in {took} ms, "),
            format!("correlation {trace}"),
        ],
    };
    out.extend_from_slice(text.concat().as_bytes());
}

fn pages() -> Vec<Arc<Stored>> {
    let mut random = Random(1);
    let make = |number: usize| {
        let mut text = Vec::with_capacity(PAGE_BYTES + 512);
        let mut ends = Vec::new();
        let mut timestamps = Vec::new();
        let mut runs: Vec<StreamRun> = Vec::new();
        let start = number as i64 * 120 * S;
        for stream in 0..6usize {
            let first = timestamps.len();
            let labels = Labels::from_pairs([
                ("app", ["api", "web", "worker"][stream % 3].to_owned()),
                ("pod", format!("pod-{number}-{stream}")),
                ("env", "prod".to_owned()),
            ]);
            while text.len() < PAGE_BYTES * (stream + 1) / 6 {
                line(&mut random, stream % 3, &mut text);
                ends.push(text.len() as u32);
                text.push(b'\n');
                timestamps.push(start + (timestamps.len() - first) as i64 * 60_000_000);
            }
            let (start, end) = (first as u32, timestamps.len() as u32);
            runs.push(StreamRun { labels: Arc::new(labels), start, end, suspect: None });
        }
        let bounds = (*timestamps.iter().min().unwrap(), *timestamps.iter().max().unwrap());
        let page = LogPage { runs, timestamps, ..LogPage::default() };
        Arc::new(Stored { page, lines: LineColumn { bytes: text.into(), ends }, bounds })
    };
    (0..DISTINCT).map(make).collect()
}

/// 700,000 minute counts of 2,000 streams.
fn counts() -> Vec<StreamCounts> {
    let one = |n: usize| {
        let labels = Labels::from_pairs([("app", format!("app-{}", n % 40)), ("pod", format!("pod-{n}"))]);
        let minutes = (1..=350).map(|minute| MinuteCount { minute, lines: 7, bytes: 900 }).collect();
        StreamCounts {
            labels: Arc::new(labels),
            level: Level::Info,
            minutes: Arc::new(minutes),
            from: 0,
            to: 350,
        }
    };
    (0..2000).map(one).collect()
}

impl PageTask for Task {
    fn bounds(&self) -> (i64, i64) {
        self.stored.bounds
    }
    fn memory_bytes(&self) -> u64 {
        PAGE_BYTES as u64
    }
    fn narrow(&mut self) -> Result<LogPage, Error> {
        Ok(self.stored.page.clone())
    }
    fn lines(&mut self) -> Result<LineColumn, Error> {
        Ok(self.stored.lines.clone())
    }
    fn retain(&mut self, _: &LineAutomaton, _: bool, _: &mut [bool]) -> Result<bool, Error> {
        Ok(false)
    }
    fn lines_of(&mut self, _: &[bool]) -> Result<LineColumn, Error> {
        self.lines()
    }
}

struct Counted(Vec<StreamCounts>);

impl CountsTask for Counted {
    fn memory_bytes(&self) -> u64 {
        1024
    }
    fn decode(self: Box<Self>) -> Result<Vec<StreamCounts>, Error> {
        Ok(self.0)
    }
}

struct Items(Vec<ScanItem>);

impl Scan for Items {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>> {
        let item = self.0.pop();
        Box::pin(async { Ok(item) })
    }
}

impl SeriesIndex for Pages {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        _: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        let none = KnownSeries::new(context, Vec::new()).map(|scan| Box::new(scan) as Box<dyn SampleScan>);
        Box::pin(std::future::ready(none))
    }
}

impl Versions for Pages {}

impl LogSource for Pages {
    fn scan<'a>(
        &'a self,
        _context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        let mut items: Vec<ScanItem> = Vec::new();
        if selection.counts && !self.counts.is_empty() {
            for part in self.counts.chunks(500) {
                items.push(ScanItem::Counts(Box::new(Counted(part.to_vec()))));
            }
        } else {
            let mut tasks: Vec<Task> = (0..self.served)
                .map(|n| Task { stored: Arc::clone(&self.pages[n % self.pages.len()]) })
                .collect();
            if selection.order == Order::NewestFirst {
                tasks.sort_by_key(|task| task.stored.bounds.1);
            }
            items.extend(tasks.into_iter().map(|task| ScanItem::Page(Box::new(task))));
        }
        Box::pin(async { Ok(Box::new(Items(items)) as Box<dyn Scan>) })
    }

    fn volumes<'a>(
        &'a self,
        _: &'a QueryContext,
        _: StreamsRequest,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn follow(&self, _: &QueryContext, _: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        Err(Error::Cancelled)
    }
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|t| t.parse().ok()).unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let env = Env::system(threads);
        let all = Pages { pages: pages(), served: PAGES, counts: Vec::new() };
        let five = Pages { pages: all.pages[..5].to_vec(), served: 5, counts: Vec::new() };
        let counted = Pages { pages: Vec::new(), served: 0, counts: counts() };
        println!("{threads} threads, {} MiB in {PAGES} pages", (PAGES * PAGE_BYTES) >> 20);
        let only = std::env::args().nth(2).unwrap_or_default();
        let over = |text: &str| format!(r#"{{env="prod"}} {text} [8m]"#);
        let count = |text: &str| format!("sum(count_over_time({}))", over(text));
        let by_app = |text: &str| format!("sum by (app) (count_over_time({}))", over(text));
        let unwrapped = over("| logfmt | unwrap duration(duration) | __error__=\"\"");
        for (name, source, query) in [
            ("absent needle", &all, count(r#"|= "absent-needle-xyz""#)),
            ("needle in 1 of 3", &all, count(r#"|= "correlation""#)),
            ("needle, negated", &all, count(r#"!= "correlation""#)),
            ("two needles", &all, count(r#"|= "status" |= "abcdef""#)),
            ("three alternatives", &all, count(r#"|= "zzza" or "zzzb" or "zzzc""#)),
            ("regex, absent", &all, count(r#"|~ "fail(ed|ure).*code=[0-9]+""#)),
            ("regex, no literal", &all, count(r#"|~ "[0-9]{5}[g-z]{4}""#)),
            ("regex, any case", &all, count(r#"|~ "(?i)exception""#)),
            ("pattern", &all, count(r#"|> "<_> INFO <_> finished job <_>""#)),
            ("json, status >= 500", &all, by_app(r#"| json | status >= 500 | __error__="""#)),
            ("json of json only", &all, by_app(r#"|= "{" | json | status >= 500"#)),
            ("logfmt, status >= 500", &all, by_app("| logfmt | status >= 500")),
            ("logfmt, unwrap", &all, format!("avg_over_time({unwrapped}) by (app)")),
            ("rows by missing label", &all, format!("sum by (app, level) (count_over_time({}))", over(""))),
            ("rows by app", &all, by_app("")),
            ("minute counts by app", &counted, by_app("")),
            ("latest 1000 of 5 pages", &five, r#"{env="prod"}"#.to_owned()),
            ("latest 1000 with needle", &all, r#"{env="prod"} |= "status=503""#.to_owned()),
        ] {
            if name.contains(&only) {
                measure(&env, name, source, &query).await;
            }
        }
    });
}

async fn measure(env: &Env, name: &str, source: &Pages, query: &str) {
    let mut best = Duration::MAX;
    let mut answer = String::new();
    for _ in 0..3 {
        let budget = MemoryBudget::root("query", 1 << 30);
        let context =
            QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(600));
        let request = Request {
            query: query.to_owned(),
            kind: Kind::Range { start_ns: 0, end_ns: 480 * 60 * S, step_ns: 480 * S },
            limit: 1000,
            direction: Direction::Backward,
            interval_ns: 0,
        };
        let began = Instant::now();
        let result = sandur_logql::query(source, &context, &Limits::default(), request).await;
        best = best.min(began.elapsed());
        answer = match result {
            Ok(QueryResult::Matrix(series)) => {
                let total: f64 = series.iter().flat_map(|s| &s.samples).map(|s| s.value).sum();
                format!("{} series, {total}", series.len())
            }
            Ok(QueryResult::Streams(rows)) => format!("{} rows", rows.len()),
            other => format!("{other:?}"),
        };
    }
    let bytes = source.served * PAGE_BYTES;
    let speed = bytes as f64 / best.as_secs_f64() / 1e9;
    println!("{name:26} {:9.2} ms {speed:7.2} GB/s   {answer}", best.as_secs_f64() * 1e3);
}
