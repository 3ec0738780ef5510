//! Sub-queries and partial answers as another process sends them.
//!
//! The first byte of the input chooses the query that the rest belongs to: a sub-query or an answer, of
//! PromQL or LogQL. What can be decoded is answered or joined; both may fail. Afterwards no memory is held.

use std::sync::Arc;
use std::time::Duration;

use sandur_logql::partial as of_logs;
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, Limits, TenantId};
use sandur_promql::partial as of_metrics;
use sandur_query::{Direction, MemoryRow, MemorySeries, MemorySource, PartRequest, QueryContext};
use sandur_runtime::Env;

const S: i64 = 1_000_000_000;
/// The memory of a query.
const BUDGET: u64 = 4 << 20;

/// PromQL queries whose answers have groups of each kind, series, and stored samples.
const PROMQL: [&str; 5] = [
    "sum by (a) (rate(m[5m]))",
    "stddev(m) + count(m)",
    "avg(h)",
    "rate(m[1m]) > 0",
    "absent_over_time(m[5m])",
];
/// LogQL queries whose answers have rows, and slots of each kind.
const LOGQL: [&str; 5] = [
    r#"{a=~".+"} | logfmt"#,
    r#"sum by (a) (count_over_time({a=~".+"}[1m]))"#,
    r#"sum_over_time({a=~".+"} | logfmt | unwrap n [1m]) / 2"#,
    r#"stddev_over_time({a=~".+"} | logfmt | unwrap n [1m]) by (a)"#,
    r#"quantile_over_time(0.5, {a=~".+"} | logfmt | unwrap n [1m]) by (a)"#,
];

/// Runs the messages of the input.
pub fn run(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let (is_answer, is_logs) = (choice & 1 == 1, choice & 2 == 2);
    let number = usize::from(choice >> 2) % PROMQL.len();
    let context = context();
    if let Ok(asked) = PartRequest::from_bytes(bytes) {
        assert_eq!(PartRequest::from_bytes(&asked.to_bytes()).ok(), Some(asked), "read back unchanged");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        match (is_logs, is_answer) {
            (false, false) => promql_asked(&context, bytes).await,
            (false, true) => promql_answered(&context, bytes, PROMQL[number]).await,
            (true, false) => logql_asked(&context, bytes).await,
            (true, true) => logql_answered(&context, bytes, LOGQL[number]).await,
        };
    });
    assert_eq!(context.budget().used(), 0, "memory is released");
}

fn context() -> QueryContext {
    let budget = MemoryBudget::root("query", BUDGET);
    QueryContext::new(Env::simulated(1, 0), TenantId::default_tenant(), budget, Duration::from_secs(5))
}

fn labels(n: i64) -> Labels {
    Labels::from_pairs([("__name__", "m"), ("a", if n % 2 == 0 { "x" } else { "y" })])
}

fn series() -> MemorySeries {
    let mut series = MemorySeries::default();
    for n in 0..4 {
        let labels = Labels::from_pairs(labels(n).iter().chain([("b", if n < 2 { "1" } else { "2" })]));
        series.edit(&labels, |samples| {
            samples.times = (0..10).map(|minute| minute * 60_000).collect::<Vec<_>>().into();
            samples.values = (0..10).map(|minute| (minute * n) as f64).collect();
        });
    }
    series
}

fn rows() -> MemorySource {
    let row = |n: i64| MemoryRow {
        labels: Arc::new(labels(n)),
        timestamp: n * S,
        line: format!("n={n}").into(),
        metadata: Vec::new(),
        level: Level::Info,
    };
    MemorySource::new((0..40).map(row).collect())
}

fn promql_request(query: &str) -> sandur_promql::Request {
    let times = sandur_promql::Times { start: 300_000, end: 540_000, step: 60_000 };
    sandur_promql::Request { query: query.to_owned(), times, options: sandur_promql::Options::default() }
}

fn logql_request(query: &str) -> sandur_logql::Request {
    let kind = sandur_logql::Kind::Range { start_ns: 0, end_ns: 40 * S, step_ns: 10 * S };
    let (query, direction) = (query.to_owned(), Direction::Backward);
    sandur_logql::Request { query, kind, limit: 20, direction, interval_ns: 0 }
}

/// Each function returns what was done, and `None` if it failed, which is a valid outcome.
async fn promql_asked(context: &QueryContext, bytes: &[u8]) -> Option<()> {
    let asked = of_metrics::SubQuery::from_bytes(bytes).ok()?;
    let again = of_metrics::SubQuery::from_bytes(&asked.to_bytes()).ok();
    assert_eq!(again.map(|again| again.to_bytes()), Some(asked.to_bytes()));
    of_metrics::answer_part(&series(), context, &asked).await.ok().map(|answer| drop(answer.to_bytes()))
}

async fn promql_answered(context: &QueryContext, bytes: &[u8], query: &str) -> Option<()> {
    let (request, expr) = (promql_request(query), sandur_promql::parse(query).ok()?);
    let part = of_metrics::Partial::from_bytes(bytes, context, &request, &expr).ok()?;
    let again = of_metrics::Partial::from_bytes(&part.to_bytes(), context, &request, &expr).ok();
    assert!(again.is_none_or(|again| again.to_bytes() == part.to_bytes()), "an answer changes on its way");
    of_metrics::join(&series(), context, &request, &expr, vec![part]).await.ok().map(drop)
}

async fn logql_asked(context: &QueryContext, bytes: &[u8]) -> Option<()> {
    let asked = of_logs::SubQuery::from_bytes(bytes).ok()?;
    let again = of_logs::SubQuery::from_bytes(&asked.to_bytes()).ok();
    assert_eq!(again.map(|again| again.to_bytes()), Some(asked.to_bytes()));
    let limits = Limits::default();
    of_logs::answer_part(&rows(), context, &limits, &asked).await.ok().map(|answer| drop(answer.to_bytes()))
}

async fn logql_answered(context: &QueryContext, bytes: &[u8], query: &str) -> Option<()> {
    let (request, expr) = (logql_request(query), sandur_logql::parse(query).ok()?);
    let part = of_logs::Partial::from_bytes(bytes, context, &request, &expr).ok()?;
    let again = of_logs::Partial::from_bytes(&part.to_bytes(), context, &request, &expr).ok();
    assert!(again.is_none_or(|again| again.to_bytes() == part.to_bytes()), "an answer changes on its way");
    let limits = Limits::default();
    of_logs::join(&rows(), context, &limits, (&request, &expr), vec![part]).await.ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::seeds;
    use super::*;

    /// A sub-query and its answer for each query, with their first bytes.
    fn inputs() -> Vec<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut inputs = Vec::new();
        let mut add = |number: usize, kind: u8, bytes: Vec<u8>| {
            inputs.push([vec![(number as u8) << 2 | kind], bytes].concat());
        };
        runtime.block_on(async {
            for (number, query) in PROMQL.iter().enumerate() {
                let (request, expr) = (promql_request(query), sandur_promql::parse(query).unwrap());
                let asked = of_metrics::sub_queries(&request, &expr).unwrap().remove(0);
                add(number, 0, asked.to_bytes());
                let answer = of_metrics::answer_part(&series(), &context(), &asked).await.unwrap();
                add(number, 1, answer.to_bytes());
            }
            for (number, query) in LOGQL.iter().enumerate() {
                let (request, expr) = (logql_request(query), sandur_logql::parse(query).unwrap());
                let asked = of_logs::sub_queries(&context(), &request, &expr).remove(0);
                add(number, 2, asked.to_bytes());
                let limits = Limits::default();
                let answer = of_logs::answer_part(&rows(), &context(), &limits, &asked).await.unwrap();
                add(number, 3, answer.to_bytes());
            }
        });
        inputs
    }

    #[test]
    fn changed_messages_are_refused_or_answered() {
        seeds::run_changed(run, inputs(), 1, |length| 1 + length / 40);
    }

    #[test]
    #[ignore = "writes the seed inputs of the fuzzer"]
    fn write_seeds() {
        seeds::write("partials", "message", inputs());
    }
}
