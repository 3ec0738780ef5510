//! Measures how long expressions take over series in memory, with one sample each 10 s, in one thread:
//! `cargo run --release -p sandur-promql --example promql_speed [STEPS [WORD]]`. Prints the least CPU time
//! of several runs.
//!
//! The data and the first expressions are those of the benchmark of Prometheus's engine, with `X` for
//! `hundred`. With `WORD`, only expressions that contain it run.

use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::{Labels, TenantId};
use sandur_promql::{Options, Request, Times, query};
use sandur_query::{MemorySeries, QueryContext, SharedTimes};
use sandur_runtime::Env;

const EXPRESSIONS: &[&str] = &[
    "a_X",
    "rate(a_X[1m])",
    "rate(sparse[1m])",
    "double_exponential_smoothing(a_X[1d], 0.3, 0.3)",
    "changes(a_X[1d])",
    "rate(a_X[1d])",
    "absent_over_time(a_X[1d])",
    "-a_X",
    "a_X - b_X",
    "a_X and b_X{l=~'.*[0-4]$'}",
    "a_X or b_X{l=~'.*[0-4]$'}",
    "a_X unless b_X{l=~'.*[0-4]$'}",
    "a_X and b_X{l='notfound'}",
    "a_X or b_X{l='notfound'}",
    "a_X unless b_X{l='notfound'}",
    "abs(a_X)",
    "label_replace(a_X, 'l2', '$1', 'l', '(.*)')",
    "label_join(a_X, 'l2', '-', 'l', 'l')",
    "sum(a_X)",
    "avg(a_X)",
    "sum without (l)(h_X)",
    "sum without (le)(h_X)",
    "sum by (l)(h_X)",
    "sum by (le)(h_X)",
    "count_values('value', h_X)",
    "topk(1, a_X)",
    "topk(5, a_X)",
    "limitk(1, a_X)",
    "limitk(5, a_X)",
    "limit_ratio(0.1, a_X)",
    "limit_ratio(10, a_X)",
    "limit_ratio(-0.1, a_X)",
    "limit_ratio(-10, a_X)",
    "rate(a_X[1m]) + rate(b_X[1m])",
    "sum without (l)(rate(a_X[1m]))",
    "sum without (l)(rate(a_X[1m])) / sum without (l)(rate(b_X[1m]))",
    "histogram_quantile(0.9, rate(h_X[5m]))",
    "a_X + on(l) group_right a_one",
    "count({__name__!=\"\"})",
    "count({__name__!=\"\",l=\"\"})",
    "timestamp(a_X)",
    "timestamp(timestamp(a_X))",
    // Additional expressions, not from Prometheus's benchmark.
    "sum(rate(a_X[1m]))",
    "sum by (l)(rate(a_X[1m]))",
    "irate(a_X[1m])",
    "sum_over_time(a_X[5m])",
    "avg_over_time(a_X[5m])",
    "max_over_time(a_X[5m])",
    "max_over_time(a_X[1d])",
    "stddev_over_time(a_X[5m])",
    "quantile_over_time(0.9, a_X[5m])",
    "deriv(a_X[5m])",
    "min(a_X)",
    "stddev(a_X)",
    "quantile(0.9, a_X)",
    "topk(5, sum by (l) (rate(a_X[1m])))",
    "histogram_quantile(0.99, sum by (le) (rate(h_X[5m])))",
    "max_over_time(rate(a_X[1m])[10m:1m])",
];

const STEP_MS: i64 = 10_000;
/// The number of samples before the first step: a day.
const BEFORE: i64 = 8640;

/// The CPU time of all threads of this process.
fn cpu() -> Duration {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        total += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Duration::from_nanos(total)
}

fn store(steps: i64) -> MemorySeries {
    let mut store = MemorySeries::default();
    let times: SharedTimes = (0..BEFORE + steps).map(|step| step * STEP_MS).collect();
    let mut count = 0.0;
    let mut add = |name: &str, times: &SharedTimes, l: Option<usize>, le: Option<&str>| {
        let l = l.map(|l| l.to_string());
        let pairs = [("__name__", name)].into_iter().chain(l.as_deref().map(|l| ("l", l)));
        count += 1.0;
        store.edit(&Labels::from_pairs(pairs.chain(le.map(|le| ("le", le)))), |samples| {
            samples.times = times.clone();
            samples.values = times.iter().map(|time| (time / STEP_MS) as f64 / count).collect();
        });
    };
    let bounds: Vec<String> = (0..10).map(|le| le.to_string()).chain(["+Inf".to_owned()]).collect();
    for (size, series) in [("one", 1), ("ten", 10), ("X", 100)] {
        for n in 0..series {
            let l = (series > 1).then_some(n);
            add(&format!("a_{size}"), &times, l, None);
            add(&format!("b_{size}"), &times, l, None);
            bounds.iter().for_each(|le| add(&format!("h_{size}"), &times, l, Some(le)));
        }
    }
    // Short series that follow each other in time.
    for (n, part) in times.chunks(times.len() / 50).enumerate() {
        add("sparse", &part.iter().copied().collect(), Some(n), None);
    }
    store
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let steps: i64 = arguments.next().map_or(1000, |steps| steps.parse().expect("a number"));
    let word = arguments.next().unwrap_or_default();
    let env = Env::system(1);
    let store = store(steps.max(1000));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for text in EXPRESSIONS.iter().filter(|text| text.contains(&word)) {
        let start = BEFORE * STEP_MS;
        let times = Times { start, end: start + (steps - 1) * STEP_MS, step: STEP_MS };
        let request = Request { query: (*text).to_owned(), times, options: Options::default() };
        let (mut least, mut spent) = (Duration::MAX, Duration::ZERO);
        while least == Duration::MAX || spent < Duration::from_millis(300) {
            let budget = MemoryBudget::root("query", 8 << 30);
            let context =
                QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(600));
            let begun = cpu();
            runtime.block_on(query(&store, &context, &request)).expect("an answer");
            let took = cpu() - begun;
            (least, spent) = (least.min(took), spent + took);
        }
        println!("{:>10.3} ms  {text}", least.as_secs_f64() * 1e3);
    }
}
