//! Goal: steps of PromQL that come from the step cache equal a new evaluation, whatever happens to the
//! samples meanwhile.
//!
//! Method: seeded runs of an engine over a store in memory. Current and late samples, corrected points of
//! Graphite's series and repeated pushes arrive; heads are flushed, blocks merged, old points rolled up,
//! samples deleted and restored, in any order and also while a query runs. Then every query is sent twice,
//! with the cache and without, and the bits of the answers are compared.

#![allow(clippy::unwrap_used)] // a test: a panic is how it fails

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_base::units::{KIB, MIB};
use sandur_engine::{DeleteOptions, Engine, EngineOptions, MaintenanceOptions, RollupStep, RollupSteps};
use sandur_logql::DeleteQuery;
use sandur_memory::MemoryBudget;
use sandur_model::{Dataset, Labels, MatchOp, Matcher, SampleBatch, TenantId, graphite_path_labels};
use sandur_promql::{self as promql, Expr, Options, Times, Value};
use sandur_query::{
    Error, HeldSeries, QueryContext, ResultsCache, Sample, SampleSource, Series, StepEvaluator, StepTimes,
    over_steps,
};
use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

const S: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3_600 * S;
/// 2026-11-20 10:00 UTC.
const START_NS: i64 = 1_795_168_800 * S;
const STEPS: usize = 25;

const QUERIES: &[&str] = &[
    "m_total",
    "sum by (instance) (rate(m_total[2m]))",
    "max_over_time(m_total[10m] offset 7m)",
    "count(m_total) or vector(0)",
    "avg by (job) (increase(m_total[1h]))",
    "quantile_over_time(0.5, m_total{instance=\"i1\"}[30m])",
    "sum({__name__=~\"a[.].*\"})",
    "sum_over_time({__name__=~\"a[.].*\"}[5m])",
    "last_over_time({__name__=\"a.load.h1\"}[1m])",
];

/// Points of Graphite's series are rolled up after some hours.
struct AfterHours;

impl RollupSteps for AfterHours {
    fn version(&self) -> u64 {
        7
    }

    fn ages_ns(&self) -> &[i64] {
        &[3 * HOUR_NS]
    }

    fn any_of(&self) -> Vec<Vec<Matcher>> {
        vec![vec![Matcher::new("__g0__", MatchOp::NotEqual, "").unwrap()]]
    }

    fn steps(&self, _: &Labels, age_ns: i64) -> Option<RollupStep> {
        Some(RollupStep { finest: 10, step: if age_ns > 3 * HOUR_NS { 300 } else { 10 } })
    }
}

struct World {
    env: Env,
    engine: Arc<Engine>,
    results: ResultsCache,
    written: u64,
}

fn context(env: &Env) -> QueryContext {
    let budget = MemoryBudget::root("query", 64 * MIB);
    QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(3_600))
}

impl World {
    async fn new(seed: u64) -> Self {
        let env = Env::simulated(seed, START_NS);
        let world = FaultStore::new(env.clone(), seed, FaultPlan::latency_only());
        let client = world.client("node");
        let store = Store::from_object_store(Arc::new(client), env.clone(), StoreOptions::default());
        let mut maintenance = MaintenanceOptions {
            interval: Duration::from_secs(5),
            rollups: Some(Arc::new(|| Some(Arc::new(AfterHours) as Arc<dyn RollupSteps>))),
            ..MaintenanceOptions::default()
        };
        maintenance.compaction.quiet = Duration::from_secs(5);
        maintenance.compaction.hour_blocks_max = 3;
        maintenance.compaction.window_grace = Duration::from_secs(60);
        let deletes = DeleteOptions {
            cancel_period: Duration::from_secs(600),
            compile: Arc::new(|text| Ok(Arc::new(DeleteQuery::new(text)?))),
            ..DeleteOptions::default()
        };
        let write_budget = MemoryBudget::root("write", 64 * MIB);
        let options = EngineOptions { write_budget, maintenance, deletes, ..EngineOptions::default() };
        let engine = Engine::open(store, env.clone(), options).await.unwrap();
        let results = ResultsCache::new(MemoryBudget::root("results", 256 * KIB));
        Self { env, engine, results, written: 0 }
    }

    /// Samples of one series: mostly current, sometimes up to a day old. Points of Graphite's series have few
    /// timestamps, so that many of them correct earlier ones.
    fn batch(&mut self) -> SampleBatch {
        let env = &self.env;
        let now_ms = env.now_ns() / 1_000_000;
        let late_ms = match env.random_below(4) {
            0 => env.random_below(24 * 3_600) as i64 * 1_000,
            _ => env.random_below(120) as i64 * 1_000,
        };
        let number = env.random_below(3);
        let is_path = env.random_below(3) == 0;
        let labels = match is_path {
            true => graphite_path_labels(&format!("a.load.h{number}")).unwrap(),
            false => Labels::from_pairs([
                ("__name__", "m_total".to_owned()),
                ("instance", format!("i{number}")),
                ("job", "sim".to_owned()),
            ]),
        };
        let mut samples = Vec::new();
        for n in 0..1 + env.random_below(12) as i64 {
            self.written += 1;
            let at_ms = now_ms - late_ms + n * 7_000;
            let at_ms = if is_path { at_ms.div_euclid(60_000) * 60_000 + n * 60_000 } else { at_ms };
            samples.push((at_ms, (self.written % 997) as f64 * 0.5));
        }
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        batch.push(Arc::new(labels), samples);
        batch
    }

    async fn change(&mut self) {
        match self.env.random_below(12) {
            0 | 1 => self.engine.flush().await.unwrap(),
            2 => self.env.sleep(Duration::from_secs(self.env.random_below(90))).await,
            3 => self.env.sleep(Duration::from_secs(self.env.random_below(7_200))).await,
            4 => self.create_delete().await,
            5 => self.cancel_delete().await,
            _ => {
                let batch = self.batch();
                self.engine.push(batch.clone()).await.unwrap();
                if self.env.random_below(4) == 0 {
                    self.engine.push(batch).await.unwrap(); // as a client that missed the answer
                }
            }
        }
    }

    async fn create_delete(&self) {
        let env = &self.env;
        let query = ["{instance=\"i1\"}", "{__name__=\"a.load.h1\"}"][env.random_below(2) as usize];
        let end_ms = env.now_ns() / 1_000_000 - env.random_below(7_200_000) as i64;
        let start_ms = end_ms - env.random_below(7_200_000) as i64;
        let dataset = Dataset::metrics(TenantId::default_tenant());
        self.engine.create_delete(&dataset, query, start_ms, end_ms).await.unwrap();
    }

    /// Cancels the oldest delete request; a failure means that it was processed meanwhile.
    async fn cancel_delete(&self) {
        let dataset = Dataset::metrics(TenantId::default_tenant());
        let requests = self.engine.deletes(&dataset).await.unwrap();
        if let Some(open) = requests.iter().find(|request| request.record.is_open()) {
            let _ = self.engine.cancel_delete(&dataset, open.record.request.id, true).await;
        }
    }

    /// A query with the distance between its first and last step.
    fn request(&self) -> (&'static str, Times) {
        let env = &self.env;
        let query = QUERIES[env.random_below(QUERIES.len() as u64) as usize];
        let step = [15, 20, 60, 120][env.random_below(4) as usize] * 1_000;
        let length = [1_800, 3_600, 6 * 3_600, 24 * 3_600][env.random_below(4) as usize] * 1_000;
        let now_ms = env.now_ns() / 1_000_000 - [0, 0, 40_000][env.random_below(3) as usize];
        let end = if env.random_below(4) == 0 { now_ms } else { now_ms / step * step };
        (query, Times { start: end - length.min(step * 1_000), end, step })
    }

    async fn ask(&self, (query, times): (&str, Times), with_results: bool) -> String {
        let source = self.engine.sources().samples;
        let context = match with_results {
            true => context(&self.env).with_results(self.results.clone()),
            false => context(&self.env),
        };
        let expr = promql::parse(query).unwrap();
        let evaluated = Evaluated { source: &*source, context: &context, query, expr: &expr, times };
        let at = |ms: i64| ms * 1_000_000;
        let steps = StepTimes { first_ns: at(times.start), last_ns: at(times.end), step_ns: at(times.step) };
        let answer = over_steps(&*source, &context, steps, 0, &evaluated).await.unwrap();
        assert!(context.warnings().is_empty(), "{:?}", context.warnings());
        let mut text = String::new();
        for series in &answer.series {
            let bits = |sample: &Sample| (sample.timestamp_ms, sample.value.to_bits());
            let samples: Vec<_> = series.samples.iter().map(bits).collect();
            writeln!(text, "{:?} {samples:?}", series.labels).unwrap();
        }
        text
    }

    /// Compares the answer with the cache to new evaluations before and after it: upkeep may change samples
    /// meanwhile.
    async fn check(&self, seed: u64, (query, times): (&str, Times)) {
        let before = self.ask((query, times), false).await;
        let kept = self.ask((query, times), true).await;
        if kept != before {
            let after = self.ask((query, times), false).await;
            assert_eq!(kept, after, "seed {seed}: {query} {times:?}");
        }
    }

    /// Viewers of one panel refresh it while samples arrive and a flush moves them.
    async fn refresh(&mut self, seed: u64, (query, times): (&str, Times)) {
        for _ in 0..3 {
            let batch = self.batch();
            self.engine.push(batch).await.unwrap();
            self.env.sleep(Duration::from_secs(5 + self.env.random_below(20))).await;
            let end = self.env.now_ns() / 1_000_000 / times.step * times.step;
            let times = Times { start: end - (times.end - times.start), end, ..times };
            self.check(seed, (query, times)).await;
            if self.env.random_below(2) == 0 {
                self.engine.flush().await.unwrap();
            }
            self.check(seed, (query, times)).await;
        }
    }

    /// Sends a query while samples arrive. The answer is not determined, but what it leaves in the cache is.
    async fn ask_while_samples_come(&mut self, request: (&str, Times)) {
        let (env, engine) = (self.env.clone(), Arc::clone(&self.engine));
        let batches: Vec<SampleBatch> = (0..3).map(|_| self.batch()).collect();
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

/// The evaluation of a query at some of its steps.
struct Evaluated<'a> {
    source: &'a dyn SampleSource,
    context: &'a QueryContext,
    query: &'a str,
    expr: &'a Expr,
    times: Times,
}

impl StepEvaluator for Evaluated<'_> {
    fn language(&self) -> &'static str {
        "promql"
    }

    fn text(&self) -> String {
        self.query.to_owned()
    }

    fn windows(&self) -> Vec<(i64, i64)> {
        promql::windows(self.expr, &Options::default()).unwrap()
    }

    fn asks_for_time(&self) -> bool {
        false
    }

    fn evaluate(&self, (first_ns, last_ns): (i64, i64)) -> BoxFuture<'_, Result<HeldSeries, Error>> {
        Box::pin(async move {
            let (start, last) = (first_ns / 1_000_000, last_ns / 1_000_000);
            // A single step must stay a range query.
            let times = Times { start, end: last + i64::from(start == last), ..self.times };
            let request =
                promql::Request { query: self.query.to_owned(), times, options: Options::default() };
            let answer = promql::query_parsed(self.source, self.context, &request, self.expr).await?;
            let memory = self.context.budget().reserve(answer.memory.bytes())?;
            let Value::Matrix(all) = answer.value else { panic!("a range query returns a matrix") };
            let series = |one: promql::Series| Series {
                labels: Arc::new(
                    one.labels.iter().map(|(name, value)| (name.into(), value.into())).collect(),
                ),
                samples: one
                    .floats
                    .into_iter()
                    .map(|(timestamp_ms, value)| Sample { timestamp_ms, value })
                    .collect(),
            };
            Ok(HeldSeries { series: all.into_iter().map(series).collect(), memory })
        })
    }
}

async fn play(seed: u64) -> ResultsCache {
    let mut world = World::new(seed).await;
    for _ in 0..STEPS {
        for _ in 0..world.env.random_below(5) {
            world.change().await;
        }
        let request = world.request();
        if world.env.random_below(3) == 0 {
            world.ask_while_samples_come(request).await;
        }
        if world.env.random_below(2) == 0 {
            world.refresh(seed, request).await;
        }
        world.check(seed, request).await;
        world.check(seed, request).await;
    }
    world.engine.shutdown().await.unwrap();
    world.results.clone()
}

/// Returns the hits and the outdated units of several runs.
fn play_all(seeds: std::ops::RangeInclusive<u64>) -> (u64, u64) {
    let (mut hits, mut outdated) = (0, 0);
    for seed in seeds {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let figures = runtime.block_on(play(seed)).figures();
        hits += figures.hits;
        outdated += figures.outdated;
    }
    (hits, outdated)
}

#[test]
fn steps_of_samples_from_the_cache_equal_new_evaluations() {
    let (hits, outdated) = play_all(1..=2);
    assert!(hits > 60 && outdated > 10, "{hits} {outdated}: the runs did enough");
}

#[test]
#[ignore = "takes minutes; `cargo xtask sim` runs it"]
fn steps_of_samples_from_the_cache_never_differ_from_new_ones() {
    let (hits, outdated) = play_all(1..=60);
    assert!(hits > 2_000 && outdated > 400, "{hits} {outdated}: the runs did enough");
}
