//! Senders of log lines, samples and Graphite points, which run until they are stopped.
//!
//! Each second of the demo has a fixed number of rows of each signal, and each row has the number of its
//! second as its value. Therefore the number of rows and the sum of their values are known for every
//! range of seconds. A push that fails is sent again, unchanged, until it is acknowledged: the server
//! stores its rows once.
//!
//! Invariant: the seconds before [`Sender::acknowledged`] are acknowledged completely.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::http;

/// Longer than a server takes to refuse a push that it cannot store.
const PUSH_TIMEOUT: Duration = Duration::from_secs(15);
/// The pause before a push is sent again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
const SERVICES: [&str; 4] = ["cart", "checkout", "search", "users"];
/// Lines of a service in a second.
const LINES: u64 = 25;
/// Instances of a service. Each has a series and a path.
const INSTANCES: u64 = 10;
const JSON: &str = "application/json";
const TEXT: &str = "text/plain";

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    LogLines,
    Samples,
    GraphitePoints,
}

pub const SIGNALS: [Signal; 3] = [Signal::LogLines, Signal::Samples, Signal::GraphitePoints];

impl Signal {
    pub fn name(self) -> &'static str {
        match self {
            Self::LogLines => "log lines",
            Self::Samples => "samples",
            Self::GraphitePoints => "Graphite points",
        }
    }

    /// Rows of each second.
    pub fn rows_per_second(self) -> u64 {
        let services = SERVICES.len() as u64;
        services * if self == Self::LogLines { LINES } else { INSTANCES }
    }

    /// The path and content type of a push, and the body with the rows of a service and a second.
    fn push(self, service: &str, start: u64, second: u64) -> (&'static str, &'static str, String) {
        let (at, value) = (start + second, second);
        match self {
            Self::LogLines => {
                let body = json!({"streams": [stream(service, at, value)]});
                ("/loki/api/v1/push", JSON, body.to_string())
            }
            Self::Samples => {
                let text = of_instances(|text, instance| {
                    let labels = format!("job=\"cluster-demo\",app=\"{service}\",instance=\"{instance}\"");
                    writeln!(text, "demo_second{{{labels}}} {value} {at}000")
                });
                ("/api/v1/import/prometheus", TEXT, text)
            }
            Self::GraphitePoints => {
                let text = of_instances(|text, instance| {
                    writeln!(text, "demo.{service}.{instance}.second {value} {at}")
                });
                ("/graphite/carbon", TEXT, text)
            }
        }
    }
}

/// The lines of a service in a second, one each ten milliseconds.
fn stream(service: &str, at: u64, value: u64) -> serde_json::Value {
    let line = |n: u64| {
        let level = if n.is_multiple_of(10) { "error" } else { "info" };
        let text = format!("level={level} msg=\"request {n} of {service}\" second={value} took={n}ms");
        json!([format!("{at}{:03}000000", 10 * (n + 1)), text])
    };
    let values: Vec<serde_json::Value> = (0..LINES).map(line).collect();
    json!({"stream": {"job": "cluster-demo", "app": service}, "values": values})
}

fn of_instances(write: impl Fn(&mut String, u64) -> std::fmt::Result) -> String {
    let mut text = String::new();
    for instance in 0..INSTANCES {
        // Writing to a String cannot fail.
        let _ = write(&mut text, instance);
    }
    text
}

/// A thread that sends one signal.
pub struct Sender {
    pub signal: Signal,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    /// Number of seconds that are acknowledged.
    acknowledged: AtomicU64,
    repeats: AtomicU64,
    /// The longest time from the first attempt to the acknowledgement, in milliseconds.
    longest_ms: AtomicU64,
    is_stopped: AtomicBool,
}

impl Sender {
    /// Starts to send the seconds from `start` to `to`, each when it is over.
    pub fn start(signal: Signal, to: SocketAddr, start: u64) -> Self {
        let state = Arc::new(State::default());
        let sending = Arc::clone(&state);
        let thread = thread::spawn(move || sending.run(signal, to, start));
        Self { signal, state, thread: Some(thread) }
    }

    /// The number of acknowledged seconds.
    pub fn acknowledged(&self) -> u64 {
        self.state.acknowledged.load(Ordering::Acquire)
    }

    /// How many pushes were sent again, and how long the longest acknowledgement took.
    pub fn repeats(&self) -> (u64, Duration) {
        let longest = self.state.longest_ms.load(Ordering::Relaxed);
        (self.state.repeats.load(Ordering::Relaxed), Duration::from_millis(longest))
    }

    /// Stops after the push that is being sent is acknowledged.
    pub fn stop(&mut self) {
        self.state.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // `run` does not panic.
            let _ = thread.join();
        }
    }
}

impl State {
    fn run(&self, signal: Signal, to: SocketAddr, start: u64) {
        for second in 0.. {
            while now_s() <= start + second {
                if self.is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                sleep(AGAIN_AFTER);
            }
            // A push for each service, so that a node that is killed has some of them under way.
            let mut pushes = SERVICES.iter().map(|service| signal.push(service, start, second));
            if !pushes.all(|push| self.send(to, push)) {
                return;
            }
            self.acknowledged.store(second + 1, Ordering::Release);
        }
    }

    /// Sends a push until it is acknowledged. Returns whether it was before the end.
    fn send(&self, to: SocketAddr, (path, kind, body): (&str, &str, String)) -> bool {
        let began = Instant::now();
        loop {
            let answer = http::post(to, path, (kind, body.as_bytes()), PUSH_TIMEOUT);
            if answer.is_ok_and(|answer| (200..300).contains(&answer.status)) {
                let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                self.longest_ms.fetch_max(took, Ordering::Relaxed);
                return true;
            }
            if self.is_stopped.load(Ordering::Relaxed) {
                return false;
            }
            self.repeats.fetch_add(1, Ordering::Relaxed);
            sleep(AGAIN_AFTER);
        }
    }
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_as_many_rows_as_it_says() {
        for signal in SIGNALS {
            let bodies = SERVICES.map(|service| signal.push(service, 1_700_000_000, 7).2).join("");
            let rows = match signal {
                Signal::LogLines => bodies.matches("second=7 ").count(),
                _ => bodies.lines().filter(|line| line.contains(" 7 1700000007")).count(),
            };
            assert_eq!(rows as u64, signal.rows_per_second(), "{signal:?}: {bodies}");
        }
    }
}
