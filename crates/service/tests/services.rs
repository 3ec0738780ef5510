//! Goal: a caller without HTTP stores lines and samples and queries them in all three languages, within the
//! limits of their tenant.
//!
//! Method: the services use an engine whose store is in memory. Bodies of the write protocols go to
//! [`Writes`]; [`LogqlQuery`], [`PromqlQuery`] and [`GraphiteQuery`] read them back, before and after a
//! flush.

#![allow(clippy::unwrap_used)] // a test: a panic is how it fails

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::memory::InMemory;
use sandur_base::units::MIB;
use sandur_base::{BoxFuture, ErrorKind, Id};
use sandur_engine::{Engine, EngineOptions};
use sandur_graphite::{RenderRequest, Zone};
use sandur_ingest::{DeltaStreams, ImportOptions, SamplePush, SeriesCache};
use sandur_memory::MemoryBudget;
use sandur_model::{Batch, Limits, SECOND_NS, SampleConflicts, TenantId};
use sandur_promql::{Point, Times, Value};
use sandur_query::{Direction, FairQueue, QueryResult, ResultsCache};
use sandur_runtime::{Env, FairBudget, FairReservation, Party, Patience};
use sandur_service::graphite::{GraphiteQuery, GraphiteRequest, rendered};
use sandur_service::logql::{LogqlQuery, QueryKind, QueryText};
use sandur_service::promql::{PromqlQuery, PromqlRequest, Rows};
use sandur_service::query_log::SlowQueries;
use sandur_service::writes::{BodyHeaders, Received};
use sandur_service::{
    Caller, Failure, Intake, LimitsOf, Queries, QueryMemory, QueryMetrics, QueryOptions, QueryParts,
    WriteMetrics, WriteParts, Writes,
};
use sandur_store::{Store, StoreOptions};

/// 2026-11-20 10:00 UTC, in seconds.
const NOW: i64 = 1_795_168_800;

/// Adapts the engine to the services.
struct EngineServices(Arc<Engine>);

fn failure(error: sandur_engine::Error) -> Failure {
    Failure::new(error.kind(), error.to_string())
}

impl Intake for EngineServices {
    fn push(
        &self,
        batch: Batch,
        held: Option<FairReservation>,
    ) -> BoxFuture<'_, Result<SampleConflicts, Failure>> {
        Box::pin(async move { self.0.push_holding(batch, held).await.map_err(failure) })
    }

    fn push_under(&self, batch: Batch, incarnation: Id) -> BoxFuture<'_, Result<SampleConflicts, Failure>> {
        Box::pin(async move { self.0.push_under(incarnation, batch).await.map_err(failure) })
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move { self.0.flush().await.map_err(failure) })
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move { self.0.shutdown().await.map_err(failure) })
    }
}

/// Both services over one engine, with limits for the tenant `narrow`.
async fn services() -> (Queries, Writes) {
    let env = Env::simulated(1, NOW * SECOND_NS);
    let store = Store::from_object_store(Arc::new(InMemory::new()), env.clone(), StoreOptions::default());
    let write_budget = MemoryBudget::root("write", 64 * MIB);
    let options = EngineOptions { write_budget, ..EngineOptions::default() };
    let engine = Engine::open(store, env.clone(), options).await.unwrap();
    let limits_of: LimitsOf = Arc::new(|tenant| {
        let mut limits = Limits::default();
        if tenant.as_str() == "narrow" {
            limits.max_line_size = 10;
            limits.max_query_length = SECOND_NS;
        }
        limits.align_queries_with_step = tenant.as_str() == "aligned";
        Arc::new(limits)
    });
    let queries = Queries::new(QueryParts {
        env: env.clone(),
        options: QueryOptions {
            timeout: Duration::from_secs(60),
            lookback: Duration::from_secs(300),
            samples_max: 1_000_000,
            keeps_steps: true,
            slow_after: Duration::from_secs(10),
            logs_all: false,
            stores_log: false,
        },
        sources: engine.sources(),
        graphite_rules: Arc::new(Default::default),
        limits_of: Arc::clone(&limits_of),
        turns: FairQueue::new(4, 16),
        wide_turns: FairQueue::new(2, 16),
        steps: ResultsCache::new(MemoryBudget::root("steps", MIB)),
        memory: QueryMemory::new(MemoryBudget::root("all queries", 64 * MIB)),
        slow: SlowQueries::new(&MemoryBudget::root("slow queries", MIB)),
        metrics: QueryMetrics::default(),
    });
    let patience = Patience { wait: Duration::from_secs(5), waiting_max: 8, receive: Duration::from_secs(5) };
    let writes = Writes::new(WriteParts {
        env: env.clone(),
        intake: Arc::new(EngineServices(engine)),
        limits_of,
        series: Arc::new(SeriesCache::new(MIB, 1)),
        deltas: Arc::new(DeltaStreams::new(MemoryBudget::root("deltas", MIB))),
        memory: FairBudget::new(env, MemoryBudget::root("bodies", 64 * MIB), patience),
        pressure: Default::default(),
        metrics: WriteMetrics::default(),
    });
    (queries, writes)
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

/// A body with the memory of its bytes.
async fn body(writes: &Writes, text: &str) -> Received {
    let everyone = Party { key: 1, multiple: 7 };
    let mut memory = writes.memory().reservation([everyone, everyone]);
    memory.grow(text.len() as u64).await.unwrap();
    Received { bytes: Bytes::from(text.to_owned()), memory }
}

async fn store_lines(writes: &Writes, of: &str, lines: &[&str]) -> Result<u64, Failure> {
    let value = |(n, line): (usize, &&str)| format!("[\"{}\",\"{line}\"]", NOW * SECOND_NS + n as i64);
    let values: Vec<String> = lines.iter().enumerate().map(value).collect();
    let text =
        format!("{{\"streams\":[{{\"stream\":{{\"app\":\"a\"}},\"values\":[{}]}}]}}", values.join(","));
    let headers = BodyHeaders::new(Some("application/json"), None);
    let received = body(writes, &text).await;
    let stored = writes.store_lines(&tenant(of), (received, headers), sandur_ingest::loki_push_within).await;
    stored.map(|refused| refused.lines())
}

async fn store_samples(writes: &Writes, of: &str, text: &str) -> u64 {
    let options = ImportOptions::default();
    let decode = move |push: SamplePush<'_>, body, lent| sandur_ingest::import(push, &options, body, lent);
    let received = body(writes, text).await;
    let stored = writes.store_samples(&tenant(of), (received, BodyHeaders::default()), decode).await;
    stored.unwrap().written.samples
}

async fn lines_of(queries: &Queries, of: &str, length_s: i64) -> Result<u64, Failure> {
    let (start_ns, end_ns) = ((NOW - length_s) * SECOND_NS, (NOW + 1) * SECOND_NS);
    let request = QueryText {
        query: "{app=\"a\"} |= \"line\"".to_owned(),
        kind: QueryKind::Range { start_ns, end_ns, step_ns: SECOND_NS },
        limit: 100,
        direction: Direction::Forward,
        interval_ns: 0,
    };
    let caller = Caller::internal(tenant(of), "test");
    let query = LogqlQuery::begin(queries, &caller, request, true).await?;
    match query.finish().await?.0 {
        QueryResult::Streams(rows) => Ok(rows.len() as u64),
        _ => panic!("a log query returns lines"),
    }
}

async fn sum_of(queries: &Queries, of: &str) -> Vec<f64> {
    let request = PromqlRequest {
        query: "sum(m)".to_owned(),
        times: Times { start: NOW * 1_000, end: NOW * 1_000, step: 0 },
        lookback_ms: None,
        points_max: 11_000,
        limit: None,
        timeout: None,
    };
    let caller = Caller::internal(tenant(of), "test");
    let query = PromqlQuery::begin(queries, &caller, request);
    match query.finish().await.unwrap().0.rows {
        Rows::Evaluated(answer) => match answer.value {
            Value::Vector(all) => all.into_iter().map(|(_, point)| float(&point)).collect(),
            _ => panic!("an instant query of series returns a vector"),
        },
        Rows::Joined(_) => panic!("an instant has no steps to join"),
    }
}

fn float(point: &Point) -> f64 {
    match point {
        Point::Float(value) => *value,
        Point::Histogram(_) => panic!("no histogram was stored"),
    }
}

/// Times of the points of a range query of PromQL, in seconds, and the number of units that it found in the
/// step cache.
async fn steps_of(queries: &Queries, of: &str, (start, end, step): (i64, i64, i64)) -> (Vec<i64>, u64) {
    let request = PromqlRequest {
        query: "sum(count_over_time(m[1m]))".to_owned(),
        times: Times { start: start * 1_000, end: end * 1_000, step: step * 1_000 },
        lookback_ms: None,
        points_max: 11_000,
        limit: None,
        timeout: None,
    };
    let caller = Caller::internal(tenant(of), "test");
    let (evaluated, cost) = PromqlQuery::begin(queries, &caller, request).finish().await.unwrap();
    let times: Vec<i64> = match evaluated.rows {
        Rows::Evaluated(answer) => match answer.value {
            Value::Matrix(all) => all[0].floats.iter().map(|(time, _)| *time).collect(),
            _ => panic!("a range query returns a matrix"),
        },
        Rows::Joined(held) => held.series[0].samples.iter().map(|sample| sample.timestamp_ms).collect(),
    };
    (times.into_iter().map(|time| time / 1_000).collect(), cost.counters.result_cache_hits)
}

/// The same of LogQL.
async fn log_steps_of(queries: &Queries, of: &str, (start, end, step): (i64, i64, i64)) -> Vec<i64> {
    let ns = |seconds: i64| seconds * SECOND_NS;
    let request = QueryText {
        query: "sum(count_over_time({app=\"a\"}[1h]))".to_owned(),
        kind: QueryKind::Range { start_ns: ns(start), end_ns: ns(end), step_ns: ns(step) },
        limit: 100,
        direction: Direction::Forward,
        interval_ns: 0,
    };
    let caller = Caller::internal(tenant(of), "test");
    let query = LogqlQuery::begin(queries, &caller, request, false).await.unwrap();
    match query.finish().await.unwrap().0 {
        QueryResult::Matrix(all) => all[0].samples.iter().map(|s| s.timestamp_ms / 1_000).collect(),
        _ => panic!("a range query returns a matrix"),
    }
}

async fn render(queries: &Queries, of: &str, target: &str) -> String {
    let pairs = [("target", target), ("format", "json"), ("from", "-5min")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let asked = RenderRequest::read(&pairs, NOW, &Zone::utc()).unwrap();
    let request = GraphiteRequest { kind: "render", text: target.to_owned(), times: Some((NOW - 300, NOW)) };
    let caller = Caller::internal(tenant(of), "test");
    let query = GraphiteQuery::begin(queries, &caller, request);
    let (answer, _memory) =
        query.run(async |series, context| rendered(series, context, &asked).await).await.unwrap();
    String::from_utf8(answer.body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn stored_rows_are_queried_in_all_languages_without_http() {
    let (queries, writes) = services().await;
    assert_eq!(store_lines(&writes, "a", &["line 1", "line 2", "other"]).await.unwrap(), 0);
    let text = format!("m{{i=\"1\"}} 2 {0}\nm{{i=\"2\"}} 3 {0}\n", NOW * 1_000);
    assert_eq!(store_samples(&writes, "a", &text).await, 2);
    for _ in ["in heads", "in blocks"] {
        assert_eq!(lines_of(&queries, "a", 60).await.unwrap(), 2);
        assert_eq!(sum_of(&queries, "a").await, [5.0]);
        let shown = render(&queries, "a", "seriesByTag('name=m','i=2')").await;
        assert!(shown.contains("3.0"), "{shown}");
        assert_eq!((lines_of(&queries, "b", 60).await.unwrap(), sum_of(&queries, "b").await), (0, vec![]));
        writes.intake().flush().await.unwrap();
    }
    // Each query was logged and counted, and none of them is left.
    assert_eq!(queries.metrics().ended.get(), 10);
    assert_eq!((queries.turns().running(), queries.memory().used()), (0, 0));
    writes.intake().shutdown().await.unwrap();
}

/// Goal: with `align_queries_with_step` answers are at multiples of the step, and a dashboard that is
/// refreshed within a step reads the same steps again.
#[tokio::test(start_paused = true)]
async fn ranges_of_a_tenant_that_wants_it_are_aligned_to_the_step() {
    let (queries, writes) = services().await;
    let sample = |n: i64| format!("m {n} {}\n", (NOW - 900 + n * 15) * 1_000);
    let text: String = (0..=60).map(sample).collect();
    for of in ["aligned", "exact"] {
        store_samples(&writes, of, &text).await;
        store_lines(&writes, of, &["line 1"]).await.unwrap();
    }
    writes.intake().flush().await.unwrap();
    let multiples =
        |first: i64, last: i64| (first..=last).step_by(60).map(|ago| NOW + ago).collect::<Vec<_>>();
    let (start, end) = (NOW - 607, NOW - 2);
    let (first, _) = steps_of(&queries, "aligned", (start, end, 60)).await;
    assert_eq!(first, multiples(-660, -60));
    let (later, hits) = steps_of(&queries, "aligned", (start + 5, end + 1, 60)).await;
    assert!(later == first && hits > 0, "{hits} hits, {later:?}");
    let (exact, _) = steps_of(&queries, "exact", (start, end, 60)).await;
    assert_eq!(exact, first.iter().map(|at| at + 53).collect::<Vec<_>>());
    // A request may have the most steps, and aligned one more.
    let most = (NOW - 11_000 + 30, NOW - 30, 1);
    assert_eq!(steps_of(&queries, "aligned", most).await.0.last(), Some(&(NOW - 30)));
    assert_eq!(log_steps_of(&queries, "aligned", (start, NOW + 59, 60)).await, [NOW]);
    assert_eq!(log_steps_of(&queries, "exact", (start, NOW + 59, 60)).await, [NOW, NOW + 60]);
    writes.intake().shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn limits_of_the_tenant_hold_without_http() {
    let (queries, writes) = services().await;
    assert_eq!(store_lines(&writes, "narrow", &["line 1", "line that is long"]).await.unwrap(), 1);
    let failed = lines_of(&queries, "narrow", 60).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Limit);
    assert!(failed.message.contains("query time range exceeds the limit"), "{failed}");
    writes.pressure().set(true);
    assert_eq!(writes.admits().unwrap_err().kind, ErrorKind::Busy);
    assert_eq!(writes.metrics().pressure_refusals.get(), 1);
    writes.intake().shutdown().await.unwrap();
}
