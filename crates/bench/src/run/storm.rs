//! A storm of 503s for a server that gets pushes and queries: do pushes and queries still succeed?

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use sandur_runtime::Env;

use super::alone::queries;
use super::scrape::Scrape;
use super::server::Place;
use crate::distant::ProxyFaults;
use crate::http::Connection;
use crate::live::{Target, stream};
use crate::pack::Manifest;
use crate::services::Services;

/// Classes of requests that a server sends in a storm.
const CLASSES: [&str; 5] = ["wal", "block", "catalog", "gc", "member"];

/// The options of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// The duration.
    pub length: Duration,
    /// Number of requests per second that the bucket answers; it refuses the rest.
    pub requests_per_second: u64,
    /// Number of clients that send queries one after the other.
    pub clients: usize,
}

/// The figures of a storm.
#[derive(Clone, Debug, Default)]
pub struct StormReport {
    /// Number of seconds of logs whose push was acknowledged, and of those whose push failed.
    pub pushes: (u64, u64),
    /// The last failure of a push.
    pub push_failure: Option<String>,
    /// Number of queries that were answered, and of those that failed.
    pub queries: (u64, u64),
    /// The last failure of a query.
    pub query_failure: Option<String>,
    /// Duration of the slowest query, in milliseconds.
    pub slowest_ms: u64,
    /// Number of requests that the server sent to the bucket.
    pub requests: f64,
    /// Number of requests that repeated a failed one.
    pub retries: f64,
    /// By class of requests: the number of requests, and of retries among them.
    pub by_class: Vec<(&'static str, f64, f64)>,
    /// Number of requests that were refused.
    pub refused: u64,
}

/// Starts the server, and pushes and queries during the storm.
pub async fn storm(
    env: &Env,
    place: &Place,
    data: &Path,
    faults: &ProxyFaults,
    storm: Storm,
) -> Result<StormReport> {
    let manifest = Manifest::load(data).context("no data set")?;
    place.up(env).await?;
    let measured = through(env, place, &manifest, faults, storm).await;
    faults.set_requests_per_second(0);
    place.down(env).await?;
    measured
}

async fn through(
    env: &Env,
    place: &Place,
    manifest: &Manifest,
    faults: &ProxyFaults,
    storm: Storm,
) -> Result<StormReport> {
    let mut connection = Connection::new(&place.address);
    let (before, refused) = (Scrape::take(&mut connection)?, faults.counted().refused);
    faults.set_requests_per_second(storm.requests_per_second);
    let until = env.monotonic() + storm.length;
    let tally = Tally::default();
    let questions = queries(manifest);
    let mut report = std::thread::scope(|scope| {
        for client in 0..storm.clients {
            let (tally, questions) = (&tally, &questions);
            scope.spawn(move || ask_until(env, &place.address, questions, client, until, tally));
        }
        let pushing = scope.spawn(move || push_until(env, &place.address, until));
        pushing.join().map_err(|_| anyhow!("the thread that pushes panicked"))?
    })?;
    let after = Scrape::take(&mut connection)?;
    let grown = |name| after.sum(name) - before.sum(name);
    report.requests = grown("sandur_store_requests_total");
    report.retries = grown("sandur_store_retries_total");
    report.by_class = CLASSES
        .map(|class| {
            let label = format!("class=\"{class}\"");
            let grown = |name| after.sum_with(name, &label) - before.sum_with(name, &label);
            (class, grown("sandur_store_requests_total"), grown("sandur_store_retries_total"))
        })
        .into();
    report.refused = faults.counted().refused - refused;
    report.queries = (tally.answered.load(Ordering::Relaxed), tally.failed.load(Ordering::Relaxed));
    report.slowest_ms = tally.slowest_ms.load(Ordering::Relaxed);
    report.query_failure = tally.failure.into_inner().unwrap_or_default();
    Ok(report)
}

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    failed: AtomicU64,
    slowest_ms: AtomicU64,
    failure: Mutex<Option<String>>,
}

fn ask_until(
    env: &Env,
    address: &str,
    questions: &[(&str, String)],
    client: usize,
    until: Duration,
    tally: &Tally,
) {
    let mut connection = Connection::new(address);
    for (_, path) in questions.iter().cycle().skip(client) {
        let asked = env.monotonic();
        if asked >= until {
            return;
        }
        let failure = match connection.get(path) {
            Ok(answer) if answer.status == 200 => None,
            Ok(answer) => Some(format!("{}: {}", answer.status, answer.text())),
            Err(error) => Some(error.to_string()),
        };
        let ms = (env.monotonic() - asked).as_millis() as u64;
        tally.slowest_ms.fetch_max(ms, Ordering::Relaxed);
        let counter = if failure.is_none() { &tally.answered } else { &tally.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        if failure.is_some() {
            *tally.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = failure;
        }
    }
}

/// Pushes each second's lines. Returns how many pushes were acknowledged. Blocks its thread.
fn push_until(env: &Env, address: &str, until: Duration) -> Result<StormReport> {
    let services = Services::new(1, 2);
    let target = Target { address, tenant: None, requests_per_second: 50.0 };
    let mut report = StormReport::default();
    let pushing = stream(env, &services, target, |pushed| {
        match pushed.failure {
            None => report.pushes.0 += 1,
            Some(failure) => {
                report.pushes.1 += 1;
                report.push_failure = Some(failure);
            }
        }
        env.monotonic() < until
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(pushing);
    Ok(report)
}

impl StormReport {
    /// Formats the figures as text.
    pub fn text(&self) -> String {
        let because = |failure: &Option<String>| {
            failure.as_ref().map_or(String::new(), |failure| format!(" (the last one: {failure})"))
        };
        let classes: Vec<String> = self
            .by_class
            .iter()
            .map(|(class, requests, retries)| format!("{class} {requests} ({retries} retries)"))
            .collect();
        format!(
            "pushes: {} acknowledged, {} failed{}\n\
             queries: {} answered, {} failed{}; the slowest took {:.1} s\n\
             requests to the bucket: {}, {} of them refused; {} were retries, {:.1} %\n\
             by class: {}\n",
            self.pushes.0,
            self.pushes.1,
            because(&self.push_failure),
            self.queries.0,
            self.queries.1,
            because(&self.query_failure),
            self.slowest_ms as f64 / 1_000.0,
            self.requests,
            self.refused,
            self.retries,
            100.0 * self.retries / self.requests.max(1.0),
            classes.join(", "),
        )
    }
}
