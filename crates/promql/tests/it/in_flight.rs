//! Goal: the number of concurrent jobs does not change a bit of the answer. With too little memory, a query
//! runs slower, or fails with an error that names the budget, and releases its memory. A query whose future
//! is dropped ends.
//!
//! Method: random series; the same queries with one, two and eight jobs in flight; budgets from too small
//! to ample; futures that are dropped after some polls.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use sandur_base::ErrorKind;
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, STALE_BITS, TenantId};
use sandur_promql::{Answer, Options, Point, Request, Times, Value, query};
use sandur_query::{Error, MemorySeries, QueryContext};
use sandur_runtime::{Env, Lane};

use crate::engine::{MINUTE, range};

const QUERIES: &[&str] = &[
    "sum(rate(requests_total[5m]))",
    "sum by (job) (rate(requests_total[5m] offset 1m))",
    "avg without (instance) (requests_total * 3 - 1)",
    "stddev by (job) (abs(requests_total))",
    "topk(3, max_over_time(requests_total[2m]))",
    "quantile by (job) (0.3, -requests_total)",
    "sum by (job) (increase(requests_total[3m])) / sum by (job) (count_over_time(requests_total[3m]))",
    "max_over_time(sum(irate(requests_total[2m]))[10m:1m])",
    "count by (job) (requests_total > 50)",
    "requests_total % 7 unless requests_total < 20",
    "sum(clamp_min(requests_total @ end(), 10)) + scalar(sum(timestamp(requests_total)))",
];

/// Series of three jobs with small and large values, gaps and stale markers.
fn store(series: usize, seed: u64) -> MemorySeries {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut store = MemorySeries::default();
    for n in 0..series {
        let (job, instance) = (format!("job{}", n % 3), format!("instance{n}"));
        let labels =
            Labels::from_pairs([("__name__", "requests_total"), ("job", &job), ("instance", &instance)]);
        store.edit(&labels, |samples| {
            let mut total = 0.0;
            for step in 0..120 {
                let dice = random();
                if dice.is_multiple_of(11) {
                    continue;
                }
                total = if dice.is_multiple_of(37) { 0.0 } else { total + (dice >> 20) as f64 / 3e11 };
                samples.times.push(step * 15_000 + (dice % 5) as i64);
                samples.values.push(if dice.is_multiple_of(53) { f64::from_bits(STALE_BITS) } else { total });
            }
        });
    }
    store
}

fn context(env: &Env, bytes: u64, in_flight: usize) -> QueryContext {
    let (tenant, budget) = (TenantId::default_tenant(), MemoryBudget::root("query", bytes));
    QueryContext::new(env.clone(), tenant, budget, Duration::from_secs(600)).with_parallelism(in_flight)
}

fn instant() -> Times {
    Times { start: 20 * MINUTE, end: 20 * MINUTE, step: 0 }
}

async fn ask(
    store: &MemorySeries,
    context: &QueryContext,
    text: &str,
    times: Times,
) -> Result<Answer, Error> {
    let request = Request { query: text.to_owned(), times, options: Options::default() };
    query(store, context, &request).await
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// An answer as text, with the bits of its numbers.
fn bits(answer: &Answer) -> String {
    let series = match &answer.value {
        Value::Matrix(all) => all
            .iter()
            .map(|one| (one.labels.clone(), one.floats.iter().map(|(t, v)| (*t, v.to_bits())).collect()))
            .collect(),
        Value::Vector(all) => all
            .iter()
            .map(|(labels, point)| match point {
                Point::Float(value) => (labels.clone(), vec![(0, value.to_bits())]),
                Point::Histogram(_) => panic!("there are no histograms"),
            })
            .collect(),
        other => panic!("{other:?}"),
    };
    let series: Vec<(Labels, Vec<(i64, u64)>)> = series;
    format!("{series:?} {:?} {:?} {}", answer.warnings, answer.infos, answer.samples)
}

/// Cases of a property whose every case takes as long as many of others: a part of `PROPTEST_CASES`, which
/// replaces the number that a `proptest!` sets.
fn few_cases() -> ProptestConfig {
    let cases = ProptestConfig::default().cases.div_ceil(16);
    ProptestConfig { cases, source_file: Some(file!()), ..ProptestConfig::default() }
}

#[test]
fn the_number_of_jobs_in_flight_does_not_change_answers() {
    let mut runner = TestRunner::new(few_cases());
    let envs = [(Env::system(1), 1), (Env::system(4), 8)];
    let tested = runner.run(&(any::<u64>(), 1usize..400), |(seed, series)| {
        let store = store(series, seed);
        for (text, times) in QUERIES.iter().flat_map(|text| [(text, range()), (text, instant())]) {
            let answers = envs.each_ref().map(|(env, in_flight)| {
                let context = context(env, 256 << 20, *in_flight);
                let answer = bits(&block_on(ask(&store, &context, text, times)).unwrap());
                assert_eq!(context.budget().used(), 0, "{text}");
                answer
            });
            prop_assert_eq!(&answers[0], &answers[1], "{}", text);
        }
        Ok(())
    });
    tested.unwrap_or_else(|error| panic!("{error}\n{runner}"));
}

#[test]
fn with_little_memory_a_query_is_slower_or_names_the_budget() {
    let (store, env) = (store(400, 7), Env::system(4));
    for text in QUERIES {
        let ample = bits(&block_on(ask(&store, &context(&env, 256 << 20, 0), text, range())).unwrap());
        let (mut bytes, mut answered) = (4u64 << 10, 0);
        while bytes < 64 << 20 {
            let context = context(&env, bytes, 0);
            match block_on(ask(&store, &context, text, range())) {
                Ok(answer) => {
                    assert_eq!(bits(&answer), ample, "{text} with {bytes} bytes");
                    answered += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Limit, "{text} with {bytes} bytes: {error}");
                    assert!(error.to_string().contains("'query'"), "{error}");
                    assert_eq!(answered, 0, "{text} fails with {bytes} bytes but not with fewer");
                }
            }
            assert_eq!(context.budget().used(), 0, "{text} with {bytes} bytes");
            bytes += bytes / 2;
        }
        assert!(answered > 0, "{text}");
    }
}

#[test]
fn a_dropped_query_releases_all_memory() {
    let (store, env) = (Arc::new(store(1_000, 3)), Env::system(2));
    block_on(async {
        for polls in 1..20 {
            let context = context(&env, 256 << 20, 0);
            let asked = store.clone();
            {
                let mut asking = std::pin::pin!(ask(&asked, &context, QUERIES[0], range()));
                for _ in 0..polls {
                    if futures_util::poll!(asking.as_mut()).is_ready() {
                        break;
                    }
                    env.run_cpu(Lane::Query, || ()).await;
                }
            }
            while context.budget().used() > 0 {
                env.run_cpu(Lane::Query, || ()).await;
            }
        }
    });
}

#[test]
fn concurrent_queries_of_several_tenants_get_their_answers() {
    let (store, env) = (store(800, 5), Env::system(2));
    block_on(async {
        let expected = bits(&ask(&store, &context(&env, 256 << 20, 1), QUERIES[1], range()).await.unwrap());
        let contexts: Vec<QueryContext> = (0..16)
            .map(|n| context(&env, 64 << 20, 0).of_tenant(TenantId::new(&format!("t{}", n % 2)).unwrap()))
            .collect();
        let asked = contexts.iter().map(|context| ask(&store, context, QUERIES[1], range()));
        for answer in futures_util::future::join_all(asked).await {
            assert_eq!(bits(&answer.unwrap()), expected);
        }
    });
}
