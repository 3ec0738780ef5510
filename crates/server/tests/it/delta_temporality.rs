//! Goal: a point of delta temporality is in the total exactly if it was acknowledged.
//!
//! Method: requests go directly to the router; the pushes that they cause wait, fail, or end with an
//! unknown result.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use sandur_base::ErrorKind;
use sandur_query::MemorySource;
use sandur_service::Failure;

use crate::harness::{NOW, Server};

fn server() -> Server {
    Server::over(Arc::new(MemorySource::new(Vec::new())), |settings| {
        settings.limits.metrics.otlp_delta_to_cumulative = true;
    })
}

/// Pushes a point; returns the status.
async fn push(server: &Server, second: i64, value: i64) -> u16 {
    let point = format!(r#"{{"timeUnixNano":"{}000000000","asInt":"{value}"}}"#, NOW + second);
    let metric = format!(
        r#"{{"name":"io","sum":{{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[{point}]}}}}"#
    );
    let body = format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#);
    server.post("/otlp/v1/metrics", &[("content-type", "application/json")], body).await.status
}

/// Values in the order in which they were stored.
fn stored(server: &Server) -> Vec<f64> {
    let batches = server.intake.samples.lock().unwrap();
    batches.iter().flat_map(|batch| batch.values.clone()).collect()
}

fn fail(server: &Server, failure: Option<Failure>) {
    *server.intake.failure.lock().unwrap() = failure;
}

#[tokio::test(start_paused = true)]
async fn totals_are_those_of_acknowledged_points() {
    let server = server();
    assert_eq!(push(&server, 0, 3).await, 200);
    fail(&server, Some(Failure::new(ErrorKind::Busy, "full")));
    assert_eq!(push(&server, 10, 4).await, 503);
    fail(&server, None);
    assert_eq!(push(&server, 10, 4).await, 200);
    fail(&server, Some(Failure::new(ErrorKind::Timeout, "slow").with_outcome(true)));
    assert_eq!(push(&server, 20, 5).await, 504);
    fail(&server, None);
    assert_eq!(push(&server, 20, 5).await, 200);
    assert_eq!(push(&server, 20, 5).await, 400, "it was counted");
    assert_eq!(stored(&server)[..3], [3.0, 7.0, 12.0]);
    let page = server.get("/metrics", &[]).await.body;
    assert!(page.contains("sandur_push_delta_series 1"), "{page}");
    assert!(page.contains(r#"sandur_push_refused_samples_total{reason="delta_out_of_order"} 1"#), "{page}");
}

#[tokio::test(start_paused = true)]
async fn concurrent_pushes_of_a_series_are_stored_one_after_the_other() {
    let server = server();
    server.intake.slow_pushes.store(true, Ordering::SeqCst);
    let mut first = Box::pin(push(&server, 0, 1));
    let mut second = Box::pin(push(&server, 10, 2));
    let mut third = Box::pin(push(&server, 20, 4));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    server.intake.go_on.notify_one();
    assert_eq!(first.await, 200);
    assert_eq!(stored(&server), [1.0]);
    // The client disconnects while its push is being stored: it may be stored, and the total never falls.
    assert!((&mut second).now_or_never().is_none());
    drop(second);
    server.intake.go_on.notify_one();
    assert_eq!(third.await, 200);
    assert_eq!(stored(&server), [1.0, 7.0]);
}
