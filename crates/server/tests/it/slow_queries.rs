//! Goal: `/sandur/slow_queries` shows the last slow queries of a tenant and of no other, in bounded memory,
//! also when another tenant floods the list with long queries.
//!
//! Method: requests go directly to the router. Time is simulated and the threshold is zero, so that every
//! query is slow.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;
use std::time::Duration;

use sandur_query::MemorySource;
use serde_json::Value;

use crate::harness::Server;
use crate::process::encode;

fn server(threshold: Duration) -> Server {
    Server::over(Arc::new(MemorySource::new(Vec::new())), |settings| {
        settings.query.slow_threshold = threshold;
        settings.query.multi_tenant = true;
    })
}

async fn query(server: &Server, tenant: &str, text: &str) -> u16 {
    let form = ("content-type", "application/x-www-form-urlencoded");
    let headers = [("x-scope-orgid", tenant), ("user-agent", "probe/1"), form];
    server.post("/api/v1/query", &headers, format!("time=10&query={}", encode(text))).await.status
}

/// The listed queries, newest first.
async fn listed(server: &Server, path: &str, tenant: &str, limit: &str) -> Vec<Value> {
    let answer = server.get_with(path, &[("limit", limit)], &[("x-scope-orgid", tenant)]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let page: Value = serde_json::from_str(&answer.body).unwrap();
    page["slow_queries"].as_array().unwrap().clone()
}

fn texts(queries: &[Value]) -> Vec<&str> {
    queries.iter().map(|query| query["query"].as_str().unwrap()).collect()
}

const OWN: &str = "/sandur/slow_queries";
const ALL: &str = "/sandur/slow_queries/all";

#[tokio::test(start_paused = true)]
async fn a_tenant_sees_its_own_slow_queries_and_operators_all() {
    let server = server(Duration::ZERO);
    for (tenant, text, status) in
        [("a", "up", 200), ("b", "down", 200), ("a", "up(", 400), ("a|b", "sum(up)", 200)]
    {
        assert_eq!(query(&server, tenant, text).await, status, "{text}");
    }
    let own = listed(&server, OWN, "a", "10").await;
    assert_eq!(texts(&own), ["up(", "up"]);
    assert_eq!(texts(&listed(&server, OWN, "b", "10").await), ["down"]);
    assert!(listed(&server, OWN, "c", "10").await.is_empty());
    assert_eq!(texts(&listed(&server, OWN, "b|a", "10").await), ["sum(up)", "up(", "down", "up"]);
    assert_eq!(texts(&listed(&server, ALL, "c", "2").await), ["sum(up)", "up("]);
    let refused = &own[0];
    assert_eq!((&refused["tenant"], &refused["status"]), (&"a".into(), &400.into()));
    assert!(refused["error"].as_str().unwrap().contains("parse error"), "{refused}");
    let answered = &own[1];
    for (key, expected) in [
        ("signal", Value::from("metrics")),
        ("query_type", "metric".into()),
        ("start_ms", 10_000.into()),
        ("end_ms", 10_000.into()),
        ("status", 200.into()),
        ("user_agent", "probe/1".into()),
        ("duration_ms", 0.0.into()),
    ] {
        assert_eq!(answered[key], expected, "{key} of {answered}");
    }
    let refused = server.get(OWN, &[("limit", "0")]).await;
    assert_eq!((refused.status, refused.body.as_str()), (400, "limit must be a positive value"));
}

#[tokio::test(start_paused = true)]
async fn queries_below_the_threshold_are_not_listed() {
    let server = server(Duration::from_nanos(1));
    assert_eq!(query(&server, "a", "up").await, 200);
    assert!(listed(&server, ALL, "a", "10").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn long_queries_of_one_tenant_do_not_remove_those_of_another() {
    let server = server(Duration::ZERO);
    for n in 0..100 {
        query(&server, "quiet", &format!("up + {n}")).await;
    }
    for n in 0..600 {
        // Control characters become the longest text in JSON.
        assert_eq!(query(&server, "loud", &format!("{n} {}", "\u{1}".repeat(6 << 10))).await, 400);
    }
    assert_eq!(listed(&server, OWN, "quiet", "5000").await.len(), 100);
    let loud = listed(&server, OWN, "loud", "5000").await;
    // The harness has 1 MiB for the list.
    assert!((200..500).contains(&loud.len()), "{}", loud.len());
    assert!(texts(&loud).iter().all(|text| text.len() == 2_048) && texts(&loud)[0].starts_with("599 "));
    assert_eq!(server.app.queries.memory().used(), 0, "the answers are sent");
}
