//! Goal: pushes, queries, `/ready`, the shipped alerts and the log report a store that is unreachable,
//! and the documentation agrees with it.
//!
//! Method: a server without a network on the fault-injecting store, in paused time; its `/metrics` are
//! scraped, and the rules of `packaging/alerts.yml` evaluated, with our own PromQL.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

mod alerts;
mod course;
mod log;
mod node;
mod states;

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Version};
use course::{Outage, SEED, course, works};
use node::Node;
use sandur_base::units::MIB;
use sandur_config::Settings;
use sandur_listeners::{Connections, carbon};
use sandur_runtime::Env;
use sandur_server::memory::Shares;
use sandur_store::fault::{FaultPlan, FaultStore};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{Answer, NOW};

fn outages() -> Vec<Outage> {
    let away = FaultPlan { refused: 1.0, ..works() };
    let of = |what, seconds, plan: &FaultPlan| Outage { what, seconds, plan: plan.clone() };
    vec![
        of("The store is unreachable", 5, &away),
        of("The store is unreachable", 60, &away),
        of("The store is unreachable", 600, &away),
        of("The store does not answer", 60, &FaultPlan { hang: 1.0, ..works() }),
        of("Each request takes 10 s", 60, &FaultPlan { extra: Duration::from_secs(10), ..works() }),
        of("The store refuses writes", 300, &FaultPlan { denies_writes: true, ..works() }),
        of("The store refuses reads", 300, &FaultPlan { denies_reads: true, ..works() }),
    ]
}

/// The lines around the tables in the documentation.
const BEGIN: &str =
    "<!-- tables of outages: what the test `the_tables_of_outages_are_what_happens` prints -->\n\n";
const END: &str = "<!-- end of the tables of outages -->";

/// Runs a future in a separate runtime, in paused time. Its tasks end with the runtime.
fn alone<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

#[test]
fn the_tables_of_outages_are_what_happens() {
    let tables = outages().into_iter().map(|outage| alone(course(outage)).table());
    let tables = tables.collect::<Vec<_>>().join("\n");
    let page = include_str!("../../../../../docs/operations.md");
    let (_, rest) = page.split_once(BEGIN).expect("docs/operations.md has a place for the tables");
    let (written, _) = rest.split_once(END).expect("the tables have an end");
    let place = concat!(env!("CARGO_TARGET_TMPDIR"), "/outages.md");
    if written.trim_end() != tables.trim_end() {
        std::fs::write(place, &tables).unwrap();
        panic!("seed {SEED}: docs/operations.md is out of date; the tables are in {place}:\n\n{tables}");
    }
}

/// In responses of Graphite, federation and remote read a warning is only in a header, and an answer from
/// the step cache reads no rows.
#[tokio::test(start_paused = true)]
async fn answers_of_every_api_warn_that_rows_may_be_missing() {
    let env = Env::simulated(SEED, NOW * 1_000_000_000);
    let bucket = FaultStore::new(env.clone(), SEED, works());
    let node = Node::open(&env, &bucket, |_| {}).await;
    for number in 0..120 {
        assert_eq!(node.push(&format!("line {number}"), 0).await.status, 204);
        let text = format!("requests_total {number}\n");
        assert_eq!(node.server.post("/api/v1/import/prometheus", &[], text).await.status, 204);
        let point = format!("web.hits {number} {}\n", env.now_ns() / 1_000_000_000);
        assert_eq!(node.server.post("/graphite/carbon", &[], point).await.status, 204);
        env.sleep(Duration::from_secs(1)).await;
    }
    let now = (env.now_ns() / 1_000_000_000).to_string();
    let start = (env.now_ns() / 1_000_000_000 - 100).to_string();
    let range = [("start", start.as_str()), ("end", now.as_str()), ("step", "10")];
    let with = |query: &'static str| [&[("query", query)][..], &range].concat();
    let asked: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("/loki/api/v1/query_range", with(r#"{app="a"}"#)),
        ("/loki/api/v1/query_range", with(r#"count_over_time({app="a"}[10s])"#)),
        ("/loki/api/v1/query", vec![("query", r#"count_over_time({app="a"}[1m])"#)]),
        ("/loki/api/v1/labels", vec![]),
        ("/loki/api/v1/series", vec![("match[]", r#"{app="a"}"#)]),
        ("/loki/api/v1/index/stats", vec![("query", r#"{app="a"}"#)]),
        ("/loki/api/v1/patterns", vec![("query", r#"{app="a"}"#)]),
        ("/loki/api/v1/detected_fields", vec![("query", r#"{app="a"}"#)]),
        ("/loki/api/v1/detected_labels", vec![]),
        ("/api/v1/query_range", with("rate(requests_total[30s])")),
        ("/api/v1/query", vec![("query", "requests_total")]),
        ("/api/v1/labels", vec![]),
        ("/api/v1/series", vec![("match[]", "requests_total")]),
        ("/federate", vec![("match[]", "requests_total")]),
        ("/render", vec![("target", "web.hits"), ("format", "json")]),
        ("/metrics/find", vec![("query", "web.*")]),
        ("/metrics/index.json", vec![]),
    ];
    let shown = async |path: &str, pairs: &[(&str, &str)]| {
        let answer = node.server.get(path, pairs).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let header = answer.headers.get("x-sandur-warning").map(|value| value.to_str().unwrap().to_owned());
        let in_body = answer.body.contains("query.max_view_age");
        (header, in_body)
    };
    // Twice: the second answer of a range comes from the step cache.
    for _ in 0..2 {
        for (path, pairs) in &asked {
            assert_eq!(shown(path, pairs).await, (None, false), "{path}");
        }
    }
    bucket.set_plan(FaultPlan { denies_reads: true, ..works() });
    env.sleep(Duration::from_secs(20)).await;
    for (path, pairs) in &asked {
        let (header, in_body) = shown(path, pairs).await;
        let header = header.unwrap_or_else(|| panic!("{path} {pairs:?}: no warning"));
        // The first query has waited for half a second.
        let ages =
            ["20s", "21s"].map(|age| format!("rows that other processes stored in the last {age} may"));
        assert!(ages.iter().any(|age| header.contains(age)), "{header}");
        let has_place = ["/query", "/query_range", "/labels", "/series", "/stats"];
        assert!(in_body || !has_place.iter().any(|end| path.ends_with(end)), "{path}");
    }
    bucket.set_plan(works());
    env.sleep(Duration::from_secs(20)).await;
    for (path, pairs) in &asked {
        assert_eq!(shown(path, pairs).await, (None, false), "{path}: after recovery");
    }
}

/// The trial found 774 renders that looked whole and were not: Graphite's formats have no place for warnings.
/// Rows of another process that do not fit into memory are said to be missing in every answer, also in gRPC.
/// A client that requires them gets 503.
#[tokio::test(start_paused = true)]
async fn answers_of_every_api_warn_that_rows_of_another_process_do_not_fit() {
    let env = Env::simulated(SEED, NOW * 1_000_000_000);
    let bucket = FaultStore::new(env.clone(), SEED, works());
    // It flushes later than its follower needs.
    let large = |settings: &mut Settings| settings.memory_limit = 4 << 30;
    let writer = Node::open(&env, &bucket.client("writer"), large).await;
    let small = |settings: &mut Settings| settings.memory_limit = 128 * MIB;
    let reader = Node::open(&env, &bucket.client("reader"), small).await;
    env.sleep(Duration::from_secs(20)).await;
    let point = format!("web.hits 1 {}\n", env.now_ns() / 1_000_000_000);
    assert_eq!(reader.server.post("/graphite/carbon", &[], point).await.status, 204);
    for number in 0..200 {
        let line = format!("{number} {}", "x".repeat(100_000));
        assert_eq!(writer.push(&line, 0).await.status, 204);
    }
    env.sleep(Duration::from_secs(2)).await;
    let now = (env.now_ns() / 1_000_000_000).to_string();
    let range = [("start", now.as_str()), ("end", now.as_str()), ("step", "60")];
    let asked: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("/loki/api/v1/query_range", vec![("query", r#"{app="a"}"#)]),
        ("/loki/api/v1/query", vec![("query", r#"count_over_time({app="a"}[1m])"#)]),
        ("/loki/api/v1/labels", vec![]),
        ("/loki/api/v1/series", vec![("match[]", r#"{app="a"}"#)]),
        ("/api/v1/query_range", [&[("query", "up")][..], &range].concat()),
        ("/api/v1/series", vec![("match[]", "up")]),
        ("/render", vec![("target", "web.hits"), ("format", "json")]),
        ("/render", vec![("target", "web.hits"), ("format", "csv")]),
        ("/render", vec![("target", "sumSeries(web.*)"), ("format", "pickle")]),
        ("/metrics/find", vec![("query", "web.*")]),
        ("/metrics/expand", vec![("query", "web.*")]),
        ("/metrics/index.json", vec![]),
        ("/tags", vec![]),
    ];
    let said = |answer: &Answer| {
        answer.headers.get("x-sandur-warning").map(|text| text.to_str().unwrap().to_owned())
    };
    for (path, pairs) in &asked {
        let answer = reader.server.get(path, pairs).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let text = said(&answer).unwrap_or_else(|| panic!("{path} {pairs:?}: no warning"));
        let parts = [&writer.engine.incarnation().to_string(), "may be missing", "'followed writers'"];
        assert!(parts.iter().all(|part| text.contains(part)), "{path}: {text}");
        let required = reader.server.get_with(path, pairs, &[("x-sandur-min-freshness", "1s")]).await;
        let after = required.headers.get("retry-after").map(|text| text.to_str().unwrap().to_owned());
        assert_eq!((required.status, after.as_deref()), (503, Some("5")), "{path}: {}", required.body);
        assert!(required.body.contains(parts[0]), "{path}: {}", required.body);
        let complete = writer.server.get_with(path, pairs, &[("x-sandur-min-freshness", "0s")]).await;
        assert_eq!((complete.status, said(&complete)), (200, None), "{path}: {}", complete.body);
    }
    let message = b"\0\0\0\0\x07\x0a\x05web.*".to_vec();
    let call = Request::post("/carbonapi_v2_grpc.CarbonV2/Find").version(Version::HTTP_2);
    let call = call.header("content-type", "application/grpc").body(Body::from(message)).unwrap();
    let found = reader.server.send(call).await;
    assert!(said(&found).is_some_and(|text| text.contains("may be missing")), "{:?}", found.headers);
    let wrong = reader
        .server
        .get_with("/metrics/find", &[("query", "a")], &[("x-sandur-min-freshness", "soon")])
        .await;
    assert!(wrong.status == 400 && wrong.body.contains("X-Sandur-Min-Freshness"), "{}", wrong.body);
    // When the rows are in blocks, nothing is missing.
    writer.engine.flush().await.unwrap();
    for (path, pairs) in &asked {
        let answer = reader.server.get_with(path, pairs, &[("x-sandur-min-freshness", "0s")]).await;
        assert_eq!((answer.status, said(&answer)), (200, None), "{path}: {}", answer.body);
    }
}

/// A start does not wait for an unreachable bucket: a wrong address would never be noticed.
#[tokio::test(start_paused = true)]
async fn a_start_with_an_unreachable_bucket_fails_with_a_remedy() {
    let env = Env::simulated(SEED, NOW * 1_000_000_000);
    let bucket = FaultStore::new(env.clone(), SEED, FaultPlan { refused: 1.0, ..works() });
    let store = sandur_store::Store::from_fault_store(bucket, env.clone(), Default::default());
    let began = env.monotonic();
    let opened = sandur_engine::Engine::open(store, env.clone(), Default::default()).await;
    let Err(error) = opened else { panic!("there is no bucket") };
    assert!(env.monotonic() - began <= Duration::from_secs(60));
    assert!(error.to_string().contains("check that the store is up and reachable"), "{error}");
}

/// Carbon's senders get no response: their points wait, and attempts to store them use no rate, since
/// points beyond a rate would be rejected.
#[tokio::test(start_paused = true)]
async fn points_of_carbon_wait_for_an_unreachable_store() {
    const POINTS: u64 = 40;
    let env = Env::simulated(SEED, NOW * 1_000_000_000);
    let bucket = FaultStore::new(env.clone(), SEED, works());
    let node = Node::open(&env, &bucket, |settings| {
        settings.carbon.listen = "127.0.0.1:0".to_owned();
        settings.limits.metrics.ingestion_rate = POINTS / 8;
        settings.limits.metrics.ingestion_burst_size = 2 * POINTS;
    })
    .await;
    let app = &node.server.app;
    let bound = carbon::bind(&app.settings).await.unwrap_or_else(|failed| panic!("{}", failed.message()));
    let address = bound[0].address;
    let heads = Shares::of(app.settings.memory_limit).unwrap().heads_budget();
    let connections = Connections::new(app.env.clone(), (100, 100), heads, app.metrics.admission.clone());
    let _listening = carbon::start(&app.carbon, &connections, bound);
    bucket.set_plan(FaultPlan { refused: 1.0, ..works() });
    let mut senders = Vec::new();
    for sender in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let seconds = env.now_ns() / 1_000_000_000;
        let lines: String = (0..POINTS).map(|n| format!("web{sender}.point{n} 1 {seconds}\n")).collect();
        stream.write_all(lines.as_bytes()).await.unwrap();
        senders.push(stream);
    }
    let durable = async || {
        let page = node.server.get("/metrics", &[]).await.body;
        let mut rejected =
            page.lines().filter(|line| line.starts_with("sandur_carbon_rejected_points_total{"));
        assert!(rejected.all(|line| line.ends_with(" 0")), "seed {SEED}: points are rejected");
        page.contains(&format!("sandur_carbon_durable_points_total{{protocol=\"plaintext\"}} {}", 2 * POINTS))
    };
    for _ in 0..180 {
        env.sleep(Duration::from_secs(1)).await;
        assert!(!durable().await, "nothing is stored");
    }
    bucket.set_plan(works());
    for _ in 0..60 {
        env.sleep(Duration::from_secs(1)).await;
        if durable().await {
            return;
        }
    }
    panic!("seed {SEED}: the points are not stored");
}
