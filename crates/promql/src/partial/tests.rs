//! Goal: what travels between processes is read back unchanged, and no bytes cause a panic or take more
//! memory than the query has. That answers of parts are those of one process is tested over recorded
//! queries in the crate `differential`.

use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::histogram::Buckets;
use sandur_model::{FloatHistogram, TenantId};
use sandur_query::{MemorySeries, Part};
use sandur_runtime::Env;

use super::wire::SUB_QUERY_BYTES_MAX;
use super::*;
use crate::run::Options;
use crate::timing::Times;

fn source() -> MemorySeries {
    let mut source = MemorySeries::default();
    for n in 0..12i64 {
        let labels =
            [("__name__", "m".to_owned()), ("pod", format!("p{n}")), ("zone", format!("z{}", n % 3))];
        source.edit(&Labels::from_pairs(labels), |samples| {
            for minute in 0..20 {
                samples.times.push(minute * 60_000);
                samples.values.push(if n == 5 { 1e300 } else { (n * minute) as f64 / 7.0 });
            }
        });
        let labels = [("__name__", "h".to_owned()), ("pod", format!("p{n}"))];
        source.edit(&Labels::from_pairs(labels), |samples| {
            for minute in 0..20 {
                let counts = vec![minute as f64 / 3.0, n as f64];
                let positive = Buckets { indices: vec![-1, 2 + n as i32 % 4], counts };
                let of = FloatHistogram { schema: n as i32 % 2, count: 2.0, positive, ..Default::default() };
                samples.histogram_times.push(minute * 60_000);
                samples.histograms.push(Arc::new(of));
            }
        });
    }
    source
}

fn context(bytes: u64) -> QueryContext {
    let budget = MemoryBudget::root("query", bytes);
    QueryContext::new(Env::simulated(1, 0), TenantId::default_tenant(), budget, Duration::from_secs(60))
}

fn request(query: &str) -> (Request, Expr) {
    let times = Times { start: 600_000, end: 900_000, step: 60_000 };
    let request = Request { query: query.to_owned(), times, options: Options::default() };
    (request, crate::parse(query).unwrap())
}

/// Queries whose answers have groups of each kind, series, histograms, stored samples, and notes.
const QUERIES: [&str; 7] = [
    "sum by (zone) (rate(m[5m]))",
    "avg(h)",
    "stddev by (zone) (m)",
    "max(m) + count(m)",
    "rate(m[5m]) > 0.1",
    "sum(h) or h",
    "label_replace(m, 'a', '$1', 'pod', '(.*)') + on () group_left () absent_over_time(missing[5m])",
];

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn answers(source: &MemorySeries, request: &Request, expr: &Expr) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for asked in sub_queries(request, expr).unwrap() {
        for index in 0..3 {
            let context = context(64 << 20).with_part(Part::of(index, 3).unwrap());
            all.push(answer_part(source, &context, &asked).await.unwrap().to_bytes());
        }
    }
    all
}

#[test]
fn partial_answers_are_read_back_and_joined() {
    run(async {
        let source = source();
        for query in QUERIES {
            let (request, expr) = request(query);
            let (whole, joining) = (context(64 << 20), context(64 << 20));
            let mut parts = Vec::new();
            for bytes in answers(&source, &request, &expr).await {
                let part = Partial::from_bytes(&bytes, &joining, &request, &expr).unwrap();
                assert_eq!(part.to_bytes(), bytes, "{query}");
                parts.push(part);
            }
            let joined = join(&source, &joining, &request, &expr, parts).await.unwrap();
            let expected = crate::query_parsed(&source, &whole, &request, &expr).await.unwrap();
            assert_eq!(joined.value, expected.value, "{query}");
            assert_eq!((joined.warnings, joined.infos), (expected.warnings, expected.infos), "{query}");
            assert_eq!(joined.samples, expected.samples, "{query}");
        }
    });
}

#[test]
fn damaged_bytes_are_refused_or_answered_without_a_panic() {
    run(async {
        let source = source();
        for query in QUERIES {
            let (request, expr) = request(query);
            for bytes in answers(&source, &request, &expr).await.into_iter().step_by(2) {
                for at in 0..bytes.len() {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << (at % 8);
                    if at % 7 == 0 {
                        damaged.truncate(at);
                    }
                    let context = context(64 << 20);
                    let Ok(part) = Partial::from_bytes(&damaged, &context, &request, &expr) else { continue };
                    if at % 16 == 0 {
                        let _ = join(&source, &context, &request, &expr, vec![part]).await;
                    }
                }
            }
        }
        let (request, expr) = request("sum(rate(m[5m]))");
        let asked = sub_queries(&request, &expr).unwrap().remove(0).to_bytes();
        for at in 0..asked.len() {
            let mut damaged = asked.clone();
            damaged[at] ^= 1 << (at % 8);
            let Ok(damaged) = SubQuery::from_bytes(&damaged) else { continue };
            let _ = answer_part(&source, &context(64 << 20), &damaged).await;
        }
    });
}

#[test]
fn other_versions_other_plans_and_answers_without_memory_are_refused() {
    run(async {
        let source = source();
        let (request, expr) = request("sum by (zone) (rate(m[5m]))");
        let asked = sub_queries(&request, &expr).unwrap().remove(0);
        let mut later = asked.to_bytes();
        later[1] = 9;
        let refused = SubQuery::from_bytes(&later).unwrap_err().to_string();
        assert!(refused.contains("version 9, and this process reads version 1"), "{refused}");
        let other = SubQuery { expr: "m".to_owned(), ..asked.clone() };
        let refused = answer_part(&source, &context(1 << 20), &other).await.err().unwrap().to_string();
        assert!(refused.contains("'rate(m[5m])' here and 'm' in the process that asks"), "{refused}");
        let bytes = answers(&source, &request, &expr).await.remove(0);
        let refused = Partial::from_bytes(&bytes, &context(100), &request, &expr).err().unwrap();
        assert!(matches!(refused, Error::OverBudget(_)), "{refused}");
        let foreign = Partial::from_bytes(&bytes, &context(1 << 20), &request, &crate::parse("m").unwrap());
        assert!(foreign.is_err(), "groups are no answer to a selector");
        assert!(SubQuery::from_bytes(&vec![0; SUB_QUERY_BYTES_MAX + 1]).is_err());
    });
}
