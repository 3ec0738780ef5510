//! Measures tails under load: while lines are pushed at a rate, every follower counts the lines that it
//! received and those reported to it as dropped. Both must add up to the lines pushed.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_model::Labels;
use sandur_runtime::Env;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::http::{Connection, escaped};
use crate::live::PUSH_PATH;
use crate::push_body;
use crate::services::{Line, Stream};
use crate::websocket::{Frame, Websocket};

/// Bytes of a line.
const LINE_BYTES: usize = 400;
/// Number of lines of a push: 800 KB.
const PUSH_LINES: usize = 2_000;
/// Number of consecutive pings, one per second, after which no more lines are expected.
const QUIET_PINGS_MAX: u32 = 30;

/// The options of the load.
#[derive(Clone, Debug)]
pub struct TailLoad {
    /// `host:port`.
    pub address: String,
    /// Number of followers that read as fast as they can.
    pub readers: usize,
    /// Number of followers that read nothing until everything was pushed.
    pub sleepers: usize,
    /// Bytes of lines per second; 0: as fast as the server accepts them.
    pub bytes_per_second: u64,
    /// Bytes of lines in total.
    pub bytes: u64,
}

/// The result of one follower.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowerReport {
    /// Whether it slept while lines were pushed.
    pub slept: bool,
    /// Number of lines that arrived.
    pub received: u64,
    /// Number of lines that the server reported as dropped.
    pub dropped: u64,
    /// Why the server closed the connection, if it did.
    pub closed: Option<String>,
}

/// The result of the measurement.
#[derive(Clone, Debug)]
pub struct TailReport {
    /// Number of lines that were pushed and acknowledged.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The duration of the pushes.
    pub took: Duration,
    /// The followers, readers first.
    pub followers: Vec<FollowerReport>,
}

impl TailReport {
    /// Returns the followers that lost lines without a report.
    pub fn silent_losses(&self) -> Vec<&FollowerReport> {
        let silent = |f: &&FollowerReport| f.closed.is_none() && f.received + f.dropped != self.lines;
        self.followers.iter().filter(silent).collect()
    }

    /// Formats the figures as text.
    pub fn text(&self) -> String {
        let seconds = self.took.as_secs_f64();
        let rate = self.bytes as f64 / seconds / 1e6;
        let mut text = format!(
            "{} lines, {:.1} MB in {seconds:.1} s: {rate:.1} MB/s\n",
            self.lines,
            self.bytes as f64 / 1e6
        );
        for (number, follower) in self.followers.iter().enumerate() {
            let FollowerReport { slept, received, dropped, closed } = follower;
            let kind = if *slept { "sleeper" } else { "reader" };
            let end = closed.as_deref().map(|reason| format!(", closed: {reason}")).unwrap_or_default();
            text += &format!("{kind} {number}: {received} received, {dropped} reported as dropped{end}\n");
        }
        text
    }
}

/// The number of pushed lines, once it is known.
#[derive(Default)]
struct Total {
    lines: Mutex<Option<u64>>,
    known: Condvar,
}

impl Total {
    fn get(&self) -> Option<u64> {
        *self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, lines: u64) {
        *self.lines.lock().unwrap_or_else(PoisonError::into_inner) = Some(lines);
        self.known.notify_all();
    }

    fn wait(&self) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.known.wait_while(lines, |lines| lines.is_none()));
    }
}

/// Opens the followers, pushes, and waits until every follower's count is complete.
pub async fn tail(env: &Env, load: &TailLoad) -> Result<TailReport> {
    let app = format!("tail-{}", env.random_below(1 << 40));
    let query = escaped(&format!("{{app=\"{app}\"}}"));
    let path = format!("/loki/api/v1/tail?query={query}&start={}", env.now_ns());
    let total = Arc::new(Total::default());
    let mut tasks = Vec::new();
    for number in 0..load.readers + load.sleepers {
        let slept = number >= load.readers;
        let socket = Websocket::open(&load.address, &path).context("cannot follow")?;
        let (env, total) = (env.clone(), Arc::clone(&total));
        tasks.push(
            env.clone().spawn("follower", async move {
                env.run_blocking(move || follow(socket, slept, &total)).await
            }),
        );
    }
    let started = env.monotonic();
    let pushed = push(env, load, &app).await;
    let took = env.monotonic() - started;
    // The followers must end even if a push failed.
    total.set(*pushed.as_ref().unwrap_or(&0));
    let mut followers = Vec::new();
    for task in tasks {
        followers.push(task.join().await.context("a follower ended early")?);
    }
    let lines = pushed?;
    Ok(TailReport { lines, bytes: lines * LINE_BYTES as u64, took, followers })
}

async fn push(env: &Env, load: &TailLoad, app: &str) -> Result<u64> {
    let mut connection = Connection::new(&load.address);
    let labels = Arc::new(Labels::from_pairs([("app", app)]));
    let filler = filler(env);
    let wanted = load.bytes.div_ceil((PUSH_LINES * LINE_BYTES) as u64).max(1) * PUSH_LINES as u64;
    let started = env.monotonic();
    let mut pushed = 0;
    while pushed < wanted {
        if load.bytes_per_second > 0 {
            let due =
                Duration::from_secs_f64((pushed * LINE_BYTES as u64) as f64 / load.bytes_per_second as f64);
            env.sleep(due.saturating_sub(env.monotonic() - started)).await;
        }
        let now = env.now_ns();
        let line = |n: u64| Line {
            timestamp: now + n as i64,
            text: line(pushed + n, &filler),
            metadata: Vec::new(),
        };
        let lines = (0..PUSH_LINES as u64).map(line).collect();
        let body = push_body::snappy(&[Stream { labels: Arc::clone(&labels), lines }]);
        let answer = connection.post(PUSH_PATH, &["Content-Type: application/x-protobuf"], &body)?;
        if answer.status / 100 != 2 {
            bail!("a push was answered {}: {}", answer.status, answer.text());
        }
        pushed += PUSH_LINES as u64;
    }
    Ok(pushed)
}

/// Returns a text of which every line shows another part.
fn filler(env: &Env) -> String {
    (0..4096).map(|_| (b'a' + env.random_below(26) as u8) as char).collect()
}

fn line(number: u64, filler: &str) -> String {
    let head = format!("level=info seq={number} text=");
    let from = (number as usize * 7) % (filler.len() - LINE_BYTES);
    let rest = LINE_BYTES - head.len();
    head + &filler[from..from + rest]
}

/// A message of `tail`, of which only the counts are decoded.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    streams: Vec<Entries>,
    #[serde(default)]
    dropped_entries: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
struct Entries {
    values: Vec<IgnoredAny>,
}

fn follow(mut socket: Websocket, slept: bool, total: &Total) -> FollowerReport {
    let mut report = FollowerReport { slept, ..FollowerReport::default() };
    let mut quiet_pings = 0;
    if slept {
        total.wait();
    }
    loop {
        if total.get().is_some_and(|total| report.received + report.dropped >= total) {
            return report;
        }
        match socket.receive() {
            Ok(Frame::Text(text)) => match serde_json::from_slice::<Message>(&text) {
                Ok(message) => {
                    quiet_pings = 0;
                    report.received += message.streams.iter().map(|s| s.values.len() as u64).sum::<u64>();
                    report.dropped += message.dropped_entries.len() as u64;
                }
                Err(error) => {
                    report.closed = Some(format!("an unreadable message: {error}"));
                    return report;
                }
            },
            // No more lines arrive: those that are missing were lost without a report.
            Ok(Frame::Ping) if total.get().is_some() && quiet_pings >= QUIET_PINGS_MAX => return report,
            Ok(Frame::Ping) => quiet_pings += u32::from(total.get().is_some()),
            Ok(Frame::Close(code, reason)) => {
                report.closed = Some(format!("{code} {reason}"));
                return report;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return report,
            Err(error) => {
                report.closed = Some(error.to_string());
                return report;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_without_a_report_is_detected() {
        let follower = |received, dropped, closed: Option<&str>| FollowerReport {
            received,
            dropped,
            closed: closed.map(str::to_owned),
            slept: false,
        };
        let followers = vec![
            follower(10, 0, None),
            follower(4, 6, None),
            follower(4, 5, None),
            follower(1, 0, Some("slow")),
        ];
        let report = TailReport { lines: 10, bytes: 4000, took: Duration::from_secs(1), followers };
        assert_eq!(report.silent_losses(), [&follower(4, 5, None)]);
        assert!(report.text().contains("closed: slow"));
    }

    #[test]
    fn lines_have_their_length_and_differ() {
        let filler = filler(&Env::simulated(1, 0));
        assert!((0..5000).all(|n| line(n, &filler).len() == LINE_BYTES));
        assert_ne!(line(1, &filler), line(2, &filler));
    }
}
