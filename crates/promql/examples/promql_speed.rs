//! `cargo run --release -p sandur-promql --example promql_speed [SERIES [STEPS]]`: how long expressions take
//! over series in memory, one sample each 10 s: the least of several runs, in one thread.

use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_model::{Labels, TenantId};
use sandur_promql::{Options, Request, Times, query};
use sandur_query::{MemorySeries, QueryContext};

const EXPRESSIONS: &[&str] = &[
    "a_X",
    "rate(a_X[1m])",
    "rate(a_X[1d])",
    "irate(a_X[1m])",
    "absent_over_time(a_X[1d])",
    "sum_over_time(a_X[5m])",
    "avg_over_time(a_X[5m])",
    "max_over_time(a_X[5m])",
    "quantile_over_time(0.9, a_X[5m])",
    "stddev_over_time(a_X[5m])",
    "changes(a_X[1d])",
    "-a_X",
    "a_X - b_X",
    "a_X and b_X{l=~'.*[0-4]$'}",
    "a_X or b_X{l=~'.*[0-4]$'}",
    "a_X unless b_X{l=~'.*[0-4]$'}",
    "abs(a_X)",
    "label_replace(a_X, 'l2', '$1', 'l', '(.*)')",
    "label_join(a_X, 'l2', '-', 'l', 'l')",
    "sum(a_X)",
    "avg(a_X)",
    "sum without (l) (h_X)",
    "sum by (le) (h_X)",
    "sum by (l) (rate(a_X[1m]))",
    "count_values('value', h_X)",
    "topk(1, a_X)",
    "topk(5, sum by (l) (rate(a_X[1m])))",
    "rate(a_X[1m]) + rate(b_X[1m])",
    "sum(rate(a_X[1m])) / sum(rate(b_X[1m]))",
    "histogram_quantile(0.9, rate(h_X[5m]))",
    "histogram_quantile(0.9, sum by (le) (rate(h_X[5m])))",
    "a_X + on(l) group_right a_X",
    "timestamp(a_X)",
];

const STEP_MS: i64 = 10_000;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let series = arguments.next().unwrap_or(100);
    let steps: i64 = arguments.next().map_or(1000, |steps| steps as i64);
    let env = Env::system(1);
    let mut store = MemorySeries::default();
    let mut add = |name: &str, n: usize, le: Option<&str>| {
        let l = n.to_string();
        let pairs = [("__name__", name), ("l", &l)].into_iter().chain(le.map(|le| ("le", le)));
        store.edit(&Labels::from_pairs(pairs), |samples| {
            for step in 0..8640 + steps {
                samples.times.push(step * STEP_MS);
                samples.values.push((step as usize * (n + 1)) as f64);
            }
        });
    };
    for n in 0..series {
        add("a_X", n, None);
        add("b_X", n, None);
    }
    for n in 0..series / 10 {
        ["0.1", "0.5", "1", "2", "5", "10", "+Inf"].iter().for_each(|le| add("h_X", n, Some(le)));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let start = 8640 * STEP_MS;
    let times = Times { start, end: start + (steps - 1) * STEP_MS, step: STEP_MS };
    for text in EXPRESSIONS {
        let request = Request { query: (*text).to_owned(), times, options: Options::default() };
        let mut least = Duration::MAX;
        for _ in 0..5 {
            let budget = MemoryBudget::root("query", 8 << 30);
            let context =
                QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(600));
            let begun = env.monotonic();
            runtime.block_on(query(&store, &context, &request)).expect("an answer");
            least = least.min(env.monotonic() - begun);
        }
        println!("{:>10.3} ms  {text}", least.as_secs_f64() * 1e3);
    }
}
