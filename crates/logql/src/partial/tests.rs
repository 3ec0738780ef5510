//! Goal: the answer of several processes, each of which reads a part of the streams, is that of one process
//! to the last bit. No bytes cause a panic or take more memory than the query has.
//!
//! Method: queries of each kind over generated rows, divided into 1 to 5 parts; all messages travel as bytes.

use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, TenantId};
use sandur_query::{Direction, MemoryRow, MemorySource, Part};
use sandur_runtime::Env;

use super::wire::SUB_QUERY_BYTES_MAX;
use super::*;
use crate::request::Kind;

const S: i64 = 1_000_000_000;

fn limits() -> Limits {
    Limits { max_query_series: 5_000, ..Limits::default() }
}

fn source() -> MemorySource {
    let mut rows = Vec::new();
    for n in 0..600i64 {
        let app = format!("app{}", n * 7 % 13);
        let zone = format!("z{}", n % 3);
        let value = match n % 11 {
            0 => "1e300".to_owned(),
            1 => "-1e300".to_owned(),
            2 => "oops".to_owned(),
            n => format!("{}", n as f64 / 7.0),
        };
        rows.push(MemoryRow {
            labels: Arc::new(Labels::from_pairs([("app", app.as_str()), ("zone", zone.as_str())])),
            // Several rows share an instant.
            timestamp: (n / 2) * S,
            line: format!("took={value} status={} n={n}", 200 + n % 5).into(),
            metadata: vec![("trace".into(), format!("t{}", n % 17).into())],
            level: if n % 4 == 0 { Level::Error } else { Level::Info },
        });
    }
    MemorySource::new(rows).page_rows(37).shuffled(5).duplicated(4)
}

fn context(bytes: u64) -> QueryContext {
    let budget = MemoryBudget::root("query", bytes);
    QueryContext::new(Env::simulated(1, 0), TenantId::default_tenant(), budget, Duration::from_secs(60))
}

fn request(query: &str, kind: Kind, direction: Direction, interval_ns: i64) -> Request {
    Request { query: query.to_owned(), kind, limit: 40, direction, interval_ns }
}

const LOGS: [&str; 4] = [
    r#"{app=~".+"}"#,
    r#"{app=~"app.*"} |= "status=20" | logfmt | took > 0.2 | drop app"#,
    r#"{zone="z1"} | logfmt | line_format "{{.n}} {{.took}}""#,
    r#"{app="missing"}"#,
];

const METRICS: [&str; 17] = [
    r#"count_over_time({app=~".+"}[1m])"#,
    r#"sum by (zone) (rate({app=~".+"} |= "20" [90s]))"#,
    r#"sum(bytes_rate({app=~".+"}[1m]))"#,
    r#"sum by (zone) (sum_over_time({app=~".+"} | logfmt | took != "oops" | unwrap took [2m]))"#,
    r#"avg_over_time({app=~".+"} | logfmt | took != "oops" | unwrap took [2m]) by (zone)"#,
    r#"stddev_over_time({app=~".+"} | logfmt | unwrap status [2m]) by (zone)"#,
    r#"quantile_over_time(0.7, {app=~".+"} | logfmt | unwrap status [2m]) by (zone)"#,
    r#"max_over_time({app=~".+"} | logfmt | unwrap status [2m]) by (zone)"#,
    r#"first_over_time({app=~".+"} | logfmt | unwrap n [2m]) by (zone)"#,
    r#"last_over_time({app=~".+"} | logfmt | unwrap n [2m]) by (zone)"#,
    r#"rate_counter({app=~".+"} | logfmt | unwrap n [2m])"#,
    r#"absent_over_time({app="missing"}[1m])"#,
    r#"topk(3, sum by (app) (count_over_time({app=~".+"}[1m])))"#,
    r#"avg by (zone) (rate({app=~".+"}[1m])) / on () group_left () sum(rate({zone="z1"}[1m]))"#,
    r#"label_replace(rate({zone="z2"}[1m]), "a", "$1", "app", "app(.*)") > 0"#,
    r#"stddev(count_over_time({app=~".+"}[1m])) or vector(1)"#,
    "vector(3) + 1",
];

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn answers(source: &MemorySource, request: &Request, expr: &Expr, count: u16) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for asked in sub_queries(&context(1 << 20), request, expr) {
        let asked = SubQuery::from_bytes(&asked.to_bytes()).unwrap();
        for index in 0..count {
            let context = context(64 << 20).with_part(Part::of(index, count).unwrap());
            all.push(answer_part(source, &context, &limits(), &asked).await.unwrap().to_bytes());
        }
    }
    all
}

fn requests() -> Vec<Request> {
    let range = Kind::Range { start_ns: 20 * S, end_ns: 290 * S, step_ns: 30 * S };
    let instant = Kind::Instant { time_ns: 200 * S };
    let logs = LOGS.iter().flat_map(|query| {
        let both = [Direction::Backward, Direction::Forward];
        both.into_iter().flat_map(|direction| [0, 3 * S].map(|apart| request(query, range, direction, apart)))
    });
    let metrics = METRICS
        .iter()
        .flat_map(|query| [range, instant].map(|kind| request(query, kind, Direction::Backward, 0)));
    logs.chain(metrics).collect()
}

#[test]
fn answers_of_parts_are_those_of_one_process() {
    run(async {
        let (source, limits) = (source(), limits());
        for (n, request) in requests().into_iter().enumerate() {
            let expr = crate::parse(&request.query).unwrap();
            let whole = crate::query_parsed(&source, &context(64 << 20), &limits, &expr, &request).await;
            let (whole, joining) = (whole.unwrap(), context(64 << 20));
            let mut parts = Vec::new();
            for bytes in answers(&source, &request, &expr, 1 + n as u16 % 5).await {
                let part = Partial::from_bytes(&bytes, &joining, &request, &expr).unwrap();
                assert_eq!(part.to_bytes(), bytes, "{}", request.query);
                parts.push(part);
            }
            let joined = join(&source, &joining, &limits, (&request, &expr), parts).await.unwrap();
            assert_eq!(format!("{joined:?}"), format!("{whole:?}"), "{request:?}");
            assert_eq!(joining.budget().used(), 0, "{}", request.query);
        }
    });
}

#[test]
fn damaged_bytes_are_refused_or_answered_without_a_panic() {
    run(async {
        let (source, limits) = (source(), limits());
        for request in requests().into_iter().step_by(3) {
            let expr = crate::parse(&request.query).unwrap();
            for bytes in answers(&source, &request, &expr, 6).await.into_iter().take(2) {
                for at in (0..bytes.len()).step_by(1 + bytes.len() / 600) {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << (at % 8);
                    if at % 7 == 0 {
                        damaged.truncate(at);
                    }
                    let context = context(64 << 20);
                    let Ok(part) = Partial::from_bytes(&damaged, &context, &request, &expr) else { continue };
                    if at % 4 == 0 {
                        let _ = join(&source, &context, &limits, (&request, &expr), vec![part]).await;
                    }
                }
            }
        }
        let request = &requests()[20];
        let expr = crate::parse(&request.query).unwrap();
        let asked = sub_queries(&context(1 << 20), request, &expr).remove(0).to_bytes();
        for at in 0..asked.len() {
            let mut damaged = asked.clone();
            damaged[at] ^= 1 << (at % 8);
            let Ok(damaged) = SubQuery::from_bytes(&damaged) else { continue };
            let _ = answer_part(&source, &context(64 << 20), &limits, &damaged).await;
        }
    });
}

#[test]
fn other_versions_other_readings_and_answers_without_memory_are_refused() {
    run(async {
        let (source, limits) = (source(), limits());
        let kind = Kind::Instant { time_ns: 200 * S };
        let request = request(METRICS[0], kind, Direction::Backward, 0);
        let expr = crate::parse(&request.query).unwrap();
        let asked = sub_queries(&context(1 << 20), &request, &expr).remove(0);
        let mut later = asked.to_bytes();
        later[1] = 9;
        let refused = SubQuery::from_bytes(&later).unwrap_err().to_string();
        assert!(refused.contains("version 9, and this process reads version 1"), "{refused}");
        let other = SubQuery { expr: "rate".to_owned(), ..asked.clone() };
        let refused = answer_part(&source, &context(1 << 20), &limits, &other).await.err().unwrap();
        assert!(refused.to_string().contains("the processes read queries differently"), "{refused}");
        let bytes = answers(&source, &request, &expr, 1).await.remove(0);
        let refused = Partial::from_bytes(&bytes, &context(100), &request, &expr).err().unwrap();
        assert!(matches!(refused, Error::OverBudget(_)), "{refused}");
        let logs = crate::parse(LOGS[0]).unwrap();
        assert!(Partial::from_bytes(&bytes, &context(1 << 20), &request, &logs).is_err());
        assert!(SubQuery::from_bytes(&vec![0; SUB_QUERY_BYTES_MAX + 1]).is_err());
    });
}
