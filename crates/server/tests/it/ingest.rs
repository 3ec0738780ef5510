//! Goal: `/sandur/ingest` says what a tenant has written and why pushes were refused, and shows other
//! tenants to operators only.
//!
//! Method: pushes and requests to the router; the scopes of the routes are tested in `auth`.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use sandur_query::MemorySource;

use crate::harness::{NOW, Server};

#[tokio::test(start_paused = true)]
async fn accepted_rows_and_refusals_are_counted_by_tenant() {
    let server = Server::over(Arc::new(MemorySource::new(Vec::new())), |s| s.limits.max_line_size = 20);
    let push = async |tenant: &str, lines: &[&str]| {
        let values: Vec<String> =
            lines.iter().map(|line| format!(r#"["{NOW}000000000","{line}"]"#)).collect();
        let body = format!(r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[{}]}}]}}"#, values.join(","));
        let headers = [("content-type", "application/json"), ("x-scope-orgid", tenant)];
        server.post("/loki/api/v1/push", &headers, body).await.status
    };
    assert_eq!(push("a", &["one", "three"]).await, 204);
    assert_eq!(push("a", &["a line that is longer than the limit", "short"]).await, 400);
    assert_eq!(push("b", &["two"]).await, 204);
    let asked = [("x-scope-orgid", "a")];
    let own = server.get_with("/sandur/ingest", &[], &asked).await;
    assert_eq!(own.status, 200, "{}", own.body);
    let answer: serde_json::Value = serde_json::from_str(&own.body).unwrap();
    let tenants = answer["tenants"].as_array().unwrap();
    assert_eq!(tenants.len(), 1, "{}", own.body);
    let a = &tenants[0];
    assert_eq!(
        (a["tenant"].as_str(), a["lines"].as_u64(), a["line_bytes"].as_u64()),
        (Some("a"), Some(3), Some(13))
    );
    assert!(a["accepted_ms"].as_i64().unwrap() >= a["since_ms"].as_i64().unwrap(), "{}", own.body);
    let refused = &a["refused"][0];
    assert_eq!((refused["reason"].as_str(), refused["entries"].as_u64()), (Some("line_too_long"), Some(1)));
    let all = server.get("/sandur/ingest/all", &[]).await;
    let answer: serde_json::Value = serde_json::from_str(&all.body).unwrap();
    let names: Vec<&str> =
        answer["tenants"].as_array().unwrap().iter().map(|one| one["tenant"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
}
