//! Goal: an answer from the step cache equals a new evaluation, whatever happens to the rows meanwhile.
//!
//! Method: seeded runs of an engine over a store in memory. Late, repeated and current rows are pushed,
//! heads are flushed, blocks merged, removed and rewritten by retention, lines deleted and restored, in
//! any order and also while a query runs. Then every query is sent twice, with the cache and without.
//! The cache is small, so that units are also evicted.

#![allow(clippy::unwrap_used)] // a test: a panic is how it fails

use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;
use sandur_base::units::{KIB, MIB};
use sandur_engine::{DeleteOptions, Engine, EngineOptions, MaintenanceOptions, Retention};
use sandur_logql::{DeleteQuery, Kind, Request};
use sandur_memory::MemoryBudget;
use sandur_model::{
    Dataset, Labels, Limits, LogBatch, LogBatchBuilder, MatchOp, Matcher, RetentionRule, RetentionRules,
    TenantId, TimeRange,
};
use sandur_query::{Direction, QueryContext, QueryResult, ResultsCache};
use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

const S: i64 = 1_000_000_000;
/// 2026-11-20 10:00 UTC.
const START_NS: i64 = 1_795_168_800 * S;
/// Retention of rows, and of those of single streams.
const RETENTION_NS: i64 = 20 * 3_600 * S;
const RETENTION_OF: [(&str, i64); 2] = [("s1", 8 * 3_600 * S), ("s2", 23 * 3_600 * S)];
const STEPS: usize = 25;

const QUERIES: &[&str] = &[
    r#"sum(count_over_time({job="sim"}[5m]))"#,
    r#"count_over_time({job="sim"}[1m])"#,
    r#"sum by (stream) (count_over_time({job="sim"} |= "1" [17m] offset 3m))"#,
    r#"topk(1, bytes_over_time({stream=~"s[01]"}[10m]))"#,
    r#"sum(rate({job="sim"}[2h]))"#,
    r#"count_over_time({stream="s1"}[5m]) / count_over_time({stream="s1"} [15m])"#,
    r#"absent_over_time({stream="s2"}[5m])"#,
    r#"max by (stream) (max_over_time({job="sim"} | logfmt | unwrap n [30m]))"#,
];

fn retention() -> Retention {
    let rule = |(stream, period_ns): (&str, i64)| {
        let matcher = Matcher::new("stream", MatchOp::Equal, stream).unwrap();
        RetentionRule::new(format!("{{stream={stream:?}}}"), vec![matcher], 0, period_ns).unwrap()
    };
    let rules = RetentionRules::new(RETENTION_OF.map(rule).into()).unwrap();
    Retention { rules, ..Retention::uniform(RETENTION_NS) }
}

struct World {
    env: Env,
    engine: Arc<Engine>,
    results: ResultsCache,
    written: u64,
}

impl World {
    async fn new(seed: u64) -> Self {
        let env = Env::simulated(seed, START_NS);
        let world = FaultStore::new(env.clone(), seed, FaultPlan::latency_only());
        let client = world.client("node");
        let store = Store::from_object_store(Arc::new(client), env.clone(), StoreOptions::default());
        let mut maintenance = MaintenanceOptions {
            interval: Duration::from_secs(5),
            retention_of: Arc::new(|_: &Dataset| retention()),
            ..MaintenanceOptions::default()
        };
        maintenance.compaction.quiet = Duration::from_secs(5);
        maintenance.compaction.hour_blocks_max = 3;
        maintenance.compaction.window_grace = Duration::from_secs(60);
        let write_budget = MemoryBudget::root("write", 64 * MIB);
        let deletes = DeleteOptions {
            cancel_period: Duration::from_secs(600),
            compile: Arc::new(|text| Ok(Arc::new(DeleteQuery::new(text)?))),
            ..DeleteOptions::default()
        };
        let options = EngineOptions { write_budget, maintenance, deletes, ..EngineOptions::default() };
        let engine = Engine::open(store, env.clone(), options).await.unwrap();
        let results = ResultsCache::new(MemoryBudget::root("results", 48 * KIB));
        Self { env, engine, results, written: 0 }
    }

    /// Makes some rows of one stream: mostly current, sometimes up to a day old, sometimes repeated.
    fn batch(&mut self) -> LogBatch {
        let env = &self.env;
        let stream = format!("s{}", env.random_below(3));
        let labels = Arc::new(Labels::from_pairs([("job", "sim"), ("stream", &*stream)]));
        let late_ns = match env.random_below(3) {
            0 => env.random_below(24 * 3_600) as i64 * S,
            _ => env.random_below(120) as i64 * S,
        };
        let mut batch = LogBatchBuilder::new(TenantId::default_tenant());
        for n in 0..1 + env.random_below(12) {
            self.written += 1;
            let text = format!("row={} n={}", self.written, self.written % 5);
            let timestamp = env.now_ns() - late_ns + n as i64 * 7 * S;
            batch.row(&labels, timestamp, text);
        }
        batch.build()
    }

    async fn change(&mut self) {
        match self.env.random_below(10) {
            0 => self.engine.flush().await.unwrap(),
            3 => self.create_delete().await,
            4 => self.cancel_delete().await,
            1 => self.env.sleep(Duration::from_secs(self.env.random_below(90))).await,
            2 => self.env.sleep(Duration::from_secs(self.env.random_below(3_600))).await,
            _ => {
                let batch = self.batch();
                self.engine.push(batch.clone()).await.unwrap();
                if self.env.random_below(4) == 0 {
                    self.engine.push(batch).await.unwrap(); // as a client that missed the answer
                }
            }
        }
    }

    /// Deletes rows of up to some hours, of whole streams or of some of their lines; some are removed
    /// later.
    async fn create_delete(&self) {
        let env = &self.env;
        let query = [r#"{stream="s1"}"#, r#"{job="sim"} |= "n=3""#][env.random_below(2) as usize];
        let end_ms = env.now_ns() / 1_000_000 - env.random_below(7_200_000) as i64;
        let start_ms = end_ms - env.random_below(7_200_000) as i64;
        let tenant = TenantId::default_tenant();
        self.engine.create_delete(&Dataset::logs(tenant.clone()), query, start_ms, end_ms).await.unwrap();
    }

    /// Cancels the oldest delete request, if it was not processed yet.
    async fn cancel_delete(&self) {
        let tenant = TenantId::default_tenant();
        let requests = self.engine.deletes(&Dataset::logs(tenant.clone())).await.unwrap();
        if let Some(open) = requests.iter().find(|request| request.record.is_open()) {
            let cancelled =
                self.engine.cancel_delete(&Dataset::logs(tenant.clone()), open.record.request.id, true).await;
            assert!(cancelled.is_ok() || self.is_processed(open.record.request.id).await, "{cancelled:?}");
        }
    }

    async fn is_processed(&self, id: Id) -> bool {
        let requests = self.engine.deletes(&Dataset::logs(TenantId::default_tenant())).await.unwrap();
        requests.iter().any(|request| request.record.request.id == id && !request.record.is_open())
    }

    fn request(&self) -> Request {
        let env = &self.env;
        let query = QUERIES[env.random_below(QUERIES.len() as u64) as usize];
        let step = [15, 60, 120, 600][env.random_below(4) as usize];
        let length = [1_800, 3_600, 6 * 3_600, 24 * 3_600][env.random_below(4) as usize].min(step * 2_000);
        let end_ns = env.now_ns() - [0, 0, 40, 7_000][env.random_below(4) as usize] * S;
        let kind = Kind::Range { start_ns: end_ns - length * S, end_ns, step_ns: step * S };
        let query = query.to_owned();
        Request { query, kind, limit: 10, direction: Direction::Backward, interval_ns: 0 }
    }

    async fn ask(&self, request: &Request, with_results: bool) -> QueryResult {
        let budget = MemoryBudget::root("query", 64 * MIB);
        let tenant = TenantId::default_tenant();
        let context = QueryContext::new(self.env.clone(), tenant, budget, Duration::from_secs(3_600));
        let context = if with_results { context.with_results(self.results.clone()) } else { context };
        let source = self.engine.sources().logs;
        let answer = sandur_logql::query(&*source, &context, &Limits::default(), request.clone()).await;
        assert!(context.warnings().is_empty(), "{:?}", context.warnings());
        answer.unwrap()
    }

    /// Sends a query while rows arrive. The answer is not determined, but the entries that it leaves in
    /// the cache are.
    async fn ask_while_rows_come(&mut self, request: &Request) {
        let (env, engine) = (self.env.clone(), Arc::clone(&self.engine));
        let batches: Vec<LogBatch> = (0..3).map(|_| self.batch()).collect();
        let flushes = env.random_below(2) == 0;
        let writer = self.env.spawn("writer", async move {
            for batch in batches {
                engine.push(batch).await.unwrap();
                if flushes {
                    engine.flush().await.unwrap();
                }
                env.sleep(Duration::from_millis(env.random_below(50))).await;
            }
        });
        for _ in 0..3 {
            self.ask(request, true).await;
        }
        writer.join().await.unwrap();
    }
}

/// Viewers of one panel refresh it while rows arrive: their answers must be equal to a new evaluation.
async fn refresh(world: &mut World, seed: u64, request: &Request) {
    let Kind::Range { start_ns, end_ns, step_ns } = request.kind else { return };
    for _ in 0..3 {
        let batch = world.batch();
        world.engine.push(batch).await.unwrap();
        world.env.sleep(Duration::from_secs(5 + world.env.random_below(20))).await;
        let last_ns = world.env.now_ns().div_euclid(step_ns) * step_ns;
        let kind = Kind::Range { start_ns: last_ns - (end_ns - start_ns), end_ns: last_ns, step_ns };
        let request = Request { kind, ..request.clone() };
        let before = world.ask(&request, false).await;
        let (ask, late) = (|| world.ask(&request, true), world.env.random_below(20));
        let delayed = async {
            world.env.sleep(Duration::from_millis(late)).await;
            ask().await
        };
        let (a, b, c) = tokio::join!(ask(), ask(), delayed);
        for kept in [a, b, c] {
            if kept != before {
                assert_eq!(kept, world.ask(&request, false).await, "seed {seed}: {request:?}");
            }
        }
    }
}

async fn play(seed: u64) -> ResultsCache {
    let mut world = World::new(seed).await;
    for step in 0..STEPS {
        for _ in 0..world.env.random_below(4) {
            world.change().await;
        }
        let request = world.request();
        if world.env.random_below(3) == 0 {
            world.ask_while_rows_come(&request).await;
        }
        if world.env.random_below(3) == 0 {
            refresh(&mut world, seed, &request).await;
        }
        for _ in 0..2 {
            // Retention may remove blocks meanwhile, so the cached answer must equal the one before or
            // the one after.
            let before = world.ask(&request, false).await;
            let kept = world.ask(&request, true).await;
            if kept != before {
                let after = world.ask(&request, false).await;
                assert_eq!(kept, after, "seed {seed} step {step}: {request:?}");
            }
        }
    }
    assert!(world.engine.sources().logs.holdings(&context(&world.env), TimeRange::ALL).is_some());
    world.results.clone()
}

fn context(env: &Env) -> QueryContext {
    let budget = MemoryBudget::root("query", MIB);
    QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(3_600))
}

/// Returns the hits, the outdated units and the evicted units of several runs.
fn play_all(seeds: std::ops::RangeInclusive<u64>) -> (u64, u64, u64) {
    let (mut hits, mut outdated, mut evicted) = (0, 0, 0);
    for seed in seeds {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let figures = runtime.block_on(play(seed)).figures();
        hits += figures.hits;
        outdated += figures.outdated;
        evicted += figures.evicted;
    }
    (hits, outdated, evicted)
}

#[test]
fn answers_of_the_step_cache_equal_new_evaluations() {
    let (hits, outdated, _) = play_all(1..=2);
    assert!(hits > 20 && outdated > 5, "{hits} {outdated}: the runs did enough");
}

#[test]
#[ignore = "takes minutes; `cargo xtask sim` runs it"]
fn answers_of_the_step_cache_never_differ_from_fresh_ones() {
    let (hits, outdated, evicted) = play_all(1..=40);
    assert!(hits > 100 && outdated > 20 && evicted > 10, "{hits} {outdated} {evicted}: the runs did enough");
}
