//! Questions: how many rows a node finds, and whether queries are answered all the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::senders::{Signal, now_s};
use crate::http::{self, encode};

const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the watcher asks, and how long it waits before it repeats a query that failed.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Rows and the sum of their values. Both are known, so a missing row and a doubled one cannot cancel
/// each other out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    pub count: u64,
    pub sum: u64,
}

impl Rows {
    /// What the first `seconds` seconds of a signal have.
    pub fn of(signal: Signal, seconds: u64) -> Self {
        let rows = signal.rows_per_second();
        Self { count: rows * seconds, sum: rows * seconds * seconds.saturating_sub(1) / 2 }
    }
}

/// Asks a node for the rows of the first `seconds` seconds.
pub fn ask(node: SocketAddr, signal: Signal, start: u64, seconds: u64) -> Result<Rows> {
    if seconds == 0 {
        return Ok(Rows { count: 0, sum: 0 });
    }
    let end = start + seconds;
    match signal {
        Signal::LogLines => {
            let instant = |function: &str, stages: &str| {
                let query = format!("sum({function}({{job=\"cluster-demo\"}}{stages}[{seconds}s]))");
                number(node, &format!("/loki/api/v1/query?time={end}&query={}", encode(&query)))
            };
            let sum = instant("sum_over_time", " | logfmt second | unwrap second ")?;
            Ok(Rows { count: instant("count_over_time", " ")?, sum })
        }
        Signal::Samples => {
            let instant = |function: &str| {
                let query = format!("sum({function}(demo_second[{seconds}s]))");
                number(node, &format!("/api/v1/query?time={}&query={}", end - 1, encode(&query)))
            };
            Ok(Rows { count: instant("count_over_time")?, sum: instant("sum_over_time")? })
        }
        Signal::GraphitePoints => {
            let range = format!("from={}&until={}", start - 1, end - 1);
            let path = format!("/render?format=json&target=demo.*.*.second&{range}");
            Ok(points(&http::get(node, &path, QUERY_TIMEOUT)?.json()?))
        }
    }
}

/// The number of an instant query with one result; 0 without a result.
fn number(node: SocketAddr, path: &str) -> Result<u64> {
    let answer = http::get(node, path, QUERY_TIMEOUT)?.json()?;
    let results = answer["data"]["result"].as_array().context("no result")?;
    let Some(result) = results.first() else { return Ok(0) };
    let value: f64 = result["value"][1].as_str().context("no value")?.parse()?;
    Ok(value as u64)
}

fn points(answer: &Value) -> Rows {
    let series = answer.as_array().into_iter().flatten();
    let points = series.flat_map(|series| series["datapoints"].as_array().into_iter().flatten());
    let values = points.filter_map(|point| point[0].as_f64());
    values.fold(Rows { count: 0, sum: 0 }, |rows, value| Rows {
        count: rows.count + 1,
        sum: rows.sum + value as u64,
    })
}

/// A thread that asks through the load balancer all the time.
pub struct Watcher {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    asked: AtomicU64,
    failed: AtomicU64,
    /// The longest time until a query was answered, repetitions included, in milliseconds.
    longest_ms: AtomicU64,
    is_stopped: AtomicBool,
}

/// What the watcher found.
pub struct Watched {
    pub asked: u64,
    pub failed: u64,
    pub longest: Duration,
}

impl Watcher {
    pub fn start(balancer: SocketAddr) -> Self {
        let state = Arc::new(State::default());
        let asking = Arc::clone(&state);
        let thread = thread::spawn(move || asking.run(balancer));
        Self { state, thread: Some(thread) }
    }

    pub fn stop(&mut self) -> Watched {
        self.state.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // `run` does not panic.
            let _ = thread.join();
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let longest = Duration::from_millis(count(&self.state.longest_ms));
        Watched { asked: count(&self.state.asked), failed: count(&self.state.failed), longest }
    }
}

impl State {
    fn run(&self, balancer: SocketAddr) {
        let query = encode("sum by (app) (count_over_time({job=\"cluster-demo\"} |= \"error\" [1m]))");
        while !self.is_stopped.load(Ordering::Relaxed) {
            let began = Instant::now();
            let path = format!("/loki/api/v1/query?time={}&query={query}", now_s());
            self.asked.fetch_add(1, Ordering::Relaxed);
            while !http::get(balancer, &path, QUERY_TIMEOUT).is_ok_and(|answer| answer.status == 200) {
                self.failed.fetch_add(1, Ordering::Relaxed);
                if self.is_stopped.load(Ordering::Relaxed) {
                    break;
                }
                sleep(ASK_EVERY);
            }
            let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.longest_ms.fetch_max(took, Ordering::Relaxed);
            sleep(ASK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_of_seconds_are_counted_and_summed() {
        assert_eq!(Rows::of(Signal::LogLines, 3), Rows { count: 300, sum: 100 * (1 + 2) });
        assert_eq!(Rows::of(Signal::Samples, 0), Rows { count: 0, sum: 0 });
        let answer = json!([{"datapoints": [[1.0, 10], [null, 11]]}, {"datapoints": [[2.0, 10]]}]);
        assert_eq!(points(&answer), Rows { count: 2, sum: 3 });
    }
}
