//! `sandur tail`: follows new lines until Ctrl-C.
//!
//! A lost connection is opened again, with growing pauses. A query then reads the lines since a minute
//! before the server was last heard; lines that were shown already are left out. So no line is shown
//! twice, and ranges in which lines may be missing are reported.

mod recent;

use std::io::{StdoutLock, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use futures_util::{SinkExt, StreamExt};
use recent::{Recent, Repeats};
use reqwest::Upgraded;
use sandur_runtime::{Backoff, Env};
use sandur_terminal::Failed;
use serde::Deserialize;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::caret;
use super::client::{self, Client, Refusal};
use super::moment::{self, Window};
use super::outcome::{warn, written};
use super::paging::{Paging, Row, rows};
use super::printer::{Output, Printer, output_argument};
use super::results::{self, Data, Stream};

/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence after which a ping is sent; our server and Loki send one each second.
const PING_AFTER: Duration = Duration::from_secs(15);
/// Silence after which the connection is considered lost.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Pauses between attempts to connect.
const ATTEMPTS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// How far before the last message the query begins: lines have the timestamps of their senders.
const OVERLAP_NS: i64 = 60 * 1_000_000_000;
/// How far into the future the query reaches, for senders whose clock is ahead.
const AHEAD_NS: i64 = sandur_model::HOUR_NS;
/// Lines per page of the query.
const BATCH: u64 = 1_000;
/// How long after connecting the websocket may send lines of the query again.
const REPEATS_FOR: Duration = Duration::from_secs(30);
/// Length from which a reason may be truncated: a close frame has at most 123 bytes of text.
const REASON_BYTES: usize = 120;
/// The close code for a tail that failed.
const INTERNAL_ERROR: u16 = 1011;

/// The command.
pub fn command() -> Command {
    let query = Arg::new("query").value_name("QUERY").required(true);
    let query = query.help("A log query, like '{app=\"api\"} |= \"timeout\"'");
    let since = Arg::new("since").long("since").value_name("TIME").default_value("1m");
    let since = since.help(
        "Begin with the lines of this duration before now, or since this instant; 0 for \
        none",
    );
    let limit = Arg::new("limit").long("limit").value_name("N").default_value("100");
    let limit = limit.value_parser(clap::value_parser!(u32).range(1..)).help(
        "Maximum number of lines from \
        before now",
    );
    let delay = Arg::new("delay-for").long("delay-for").visible_alias("delay").value_name("SECONDS");
    let delay = delay.default_value("0").value_parser(clap::value_parser!(u32).range(..=5));
    let delay = delay.help("Seconds to wait for late lines, at most 5");
    let command = Command::new("tail").about("Follow new lines until Ctrl-C").arg(query);
    let command = command.args([since, limit, delay, output_argument()]);
    client::arguments(moment::zone_argument(command))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let query = matches.get_one::<String>("query").cloned().unwrap_or_default();
    let (zone, now) = (moment::zone(matches), env.now_ns());
    let since = matches.get_one::<String>("since").map_or("1m", String::as_str);
    let start = moment::since(since, (now, now), &zone)?;
    let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or(0);
    let output = Output::from_arguments(matches);
    let printer = Printer::new(std::io::stdout().lock(), output, zone, &query);
    let mut tail = Tail {
        printer,
        start,
        delay: number("delay-for"),
        recent: Recent::default(),
        repeats: Repeats::default(),
        repeats_until: Duration::ZERO,
        heard_ns: now,
        client,
        query,
        env,
    };
    let socket = tail.connect(start, number("limit")).await;
    let mut socket = socket.map_err(|refusal| caret::explain(&tail.query, refusal))?;
    let mut is_first = true;
    loop {
        let reason = match tail.follow(&mut socket, is_first).await {
            Ended::Lost(reason) => reason,
            Ended::Done(outcome) => return outcome,
        };
        is_first = false;
        socket = match tail.rejoin(&reason).await {
            Ok(socket) => socket,
            Err(Ended::Done(outcome)) => return outcome,
            Err(Ended::Lost(reason)) => return Err(Failed::new(reason)),
        };
    }
}

/// A message of the server.
#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default, deserialize_with = "list_or_null")]
    dropped_entries: Vec<Dropped>,
    /// What holds from now on; an empty list ends it.
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

/// A line that the server dropped.
#[derive(Deserialize)]
struct Dropped {
    timestamp: serde_json::Value,
}

/// Loki writes an empty list as null.
fn list_or_null<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Vec<Dropped>, D::Error> {
    Ok(Option::deserialize(reader)?.unwrap_or_default())
}

/// Why following stopped.
enum Ended {
    /// The command ends.
    Done(Result<ExitCode, Failed>),
    /// The connection is lost.
    Lost(String),
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        Self::Done(written(Err(error)))
    }
}

type Socket = WebSocketStream<Upgraded>;

struct Tail {
    env: Env,
    client: Client,
    query: String,
    start: i64,
    delay: u32,
    printer: Printer<StdoutLock<'static>>,
    recent: Recent,
    /// Rows that a query returned and that the websocket may send again.
    repeats: Repeats,
    repeats_until: Duration,
    /// Time of the last message, nanoseconds since the epoch.
    heard_ns: i64,
}

impl Tail {
    async fn connect(&self, start: i64, limit: u32) -> Result<Socket, Refusal> {
        let pairs = [
            ("query", self.query.clone()),
            ("start", start.to_string()),
            ("limit", limit.to_string()),
            ("delay_for", self.delay.to_string()),
        ];
        let connecting = self.client.websocket("/loki/api/v1/tail", &pairs);
        match self.env.timeout(CONNECT_TIMEOUT, connecting).await {
            Some(outcome) => outcome,
            None => Err(Refusal::silent(format!("the server at {} did not answer", self.client.base()))),
        }
    }

    /// Prints new lines until the connection ends.
    async fn follow(&mut self, socket: &mut Socket, is_first: bool) -> Ended {
        let mut heard = None;
        let mut heard_at = self.env.monotonic();
        loop {
            let silent = self.env.monotonic().saturating_sub(heard_at);
            if silent >= SILENCE_MAX {
                return Ended::Lost(format!("the server sent nothing for {SILENCE_MAX:?}"));
            }
            let message = tokio::select! {
                message = socket.next() => message,
                () = self.env.sleep(PING_AFTER) => {
                    // The answer to the ping shows whether it arrived.
                    let ping = Message::Ping(bytes::Bytes::new());
                    let _ = self.env.timeout(PING_AFTER, socket.send(ping)).await;
                    continue;
                }
                _ = tokio::signal::ctrl_c() => {
                    let _ = self.env.timeout(CONNECT_TIMEOUT, socket.send(Message::Close(None))).await;
                    return Ended::Done(Ok(ExitCode::SUCCESS));
                }
            };
            let message = match message {
                None => return Ended::Lost("the server closed the connection".to_owned()),
                Some(Err(error)) => return Ended::Lost(format!("the connection was interrupted: {error}")),
                Some(Ok(message)) => message,
            };
            heard_at = self.env.monotonic();
            self.heard_ns = self.env.now_ns();
            match message {
                Message::Close(frame) => {
                    let (code, reason) = frame.map_or((0, String::new()), |f| {
                        (u16::from(f.code), super::escape::escaped(&f.reason).into_owned())
                    });
                    // A close frame truncates a long reason.
                    let cut = if reason.len() >= REASON_BYTES { "…" } else { "" };
                    if is_first && heard.is_none() && code == INTERNAL_ERROR {
                        let refused = Failed::new(format!("the server refused: {reason}{cut}"));
                        return Ended::Done(Err(caret::with_mark(Some(&self.query), &refused)));
                    }
                    return Ended::Lost(format!("the server ended the tail: {reason}"));
                }
                Message::Text(text) => {
                    heard = Some(());
                    if let Err(ended) = self.frame(text.as_bytes()) {
                        return ended;
                    }
                }
                _ => {}
            }
        }
    }

    fn frame(&mut self, text: &[u8]) -> Result<(), Ended> {
        let frame: Frame = serde_json::from_slice(text).map_err(|e| {
            Ended::Done(Err(Failed::new(format!("the server's message cannot be read: {e}"))))
        })?;
        self.say_dropped(&frame.dropped_entries);
        match frame.warnings.as_deref() {
            None => {}
            Some([]) => eprintln!("the warnings of the server no longer hold"),
            Some(warnings) => warn(warnings),
        }
        let mut found = rows(frame.streams);
        found.sort_by_key(|row| row.timestamp);
        if self.env.monotonic() < self.repeats_until {
            found.retain(|row| !self.repeats.take(row));
        }
        self.show(&found)
    }

    fn show(&mut self, rows: &[Row]) -> Result<(), Ended> {
        for row in rows {
            self.printer.row(row)?;
            self.recent.add(row);
        }
        Ok(self.printer.out.flush()?)
    }

    fn say_dropped(&self, dropped: &[Dropped]) {
        let instant = |entry: &Dropped| match &entry.timestamp {
            serde_json::Value::String(text) => text.parse::<i64>().ok(),
            other => other.as_i64(),
        };
        let count = dropped.len();
        let Some(last) = dropped.iter().filter_map(instant).max() else {
            if count > 0 {
                eprintln!("warning: the server dropped {count} lines: they arrive faster than they are read");
            }
            return;
        };
        let last = self.printer.zone.show(last);
        eprintln!(
            "warning: the server dropped {count} lines, up to {last}: they arrive faster than they are read \
             here; `sandur query` shows them"
        );
    }

    /// Connects again and prints the lines in between.
    async fn rejoin(&mut self, reason: &str) -> Result<Socket, Ended> {
        let zone = self.printer.zone.clone();
        let lost_ns = self.heard_ns;
        eprintln!("{reason}; lines after {} may be missing until it is back", zone.show(lost_ns));
        let mut pauses = ATTEMPTS.pauses();
        let mut pause = pauses.after_failure_with_jitter(&self.env);
        let mut from = self.recent.known_from(lost_ns.saturating_sub(OVERLAP_NS).max(self.start));
        let mut caught_up = 0;
        loop {
            self.wait(pause).await?;
            pause = pauses.after_failure_with_jitter(&self.env);
            let attempt = async {
                // First reads all lines so far, then connects, then reads what arrived meanwhile.
                let begun = self.env.now_ns();
                caught_up += self.catch_up(from).await?;
                from = self.recent.known_from(begun.saturating_sub(OVERLAP_NS).max(from));
                let socket = self.connect(from, 1).await.map_err(ReconnectFailure::Refused)?;
                caught_up += self.catch_up(from).await?;
                Ok(socket)
            };
            match attempt.await {
                Ok(socket) => {
                    self.repeats = self.recent.since(from);
                    self.repeats_until = self.env.monotonic() + REPEATS_FOR;
                    let (from, to) = (zone.show(lost_ns), zone.show(self.env.now_ns()));
                    eprintln!("connected again: a query returned {caught_up} lines from {from} to {to}");
                    return Ok(socket);
                }
                Err(ReconnectFailure::Ended(ended)) => return Err(ended),
                Err(ReconnectFailure::Refused(refusal)) if refusal.is_retryable() => {
                    eprintln!("{}; trying again in {pause:.1?}", Failed::from(refusal).message());
                }
                Err(ReconnectFailure::Refused(refusal)) => {
                    let (from, text) = (zone.show(lost_ns), Failed::from(refusal));
                    let text = format!("{}; lines after {from} are missing", text.message());
                    return Err(Ended::Done(Err(Failed::new(text))));
                }
            }
        }
    }

    async fn wait(&self, pause: Duration) -> Result<(), Ended> {
        tokio::select! {
            () = self.env.sleep(pause) => Ok(()),
            _ = tokio::signal::ctrl_c() => Err(Ended::Done(Ok(ExitCode::SUCCESS))),
        }
    }

    /// Prints the lines since an instant that were not shown yet. Returns their number.
    async fn catch_up(&mut self, from: i64) -> Result<usize, ReconnectFailure> {
        let end = self.env.now_ns().saturating_add(AHEAD_NS);
        let window = Window { start: from, end, zone: self.printer.zone.clone() };
        let mut paging = Paging::new(window, true, 0, BATCH);
        let mut repeats = self.recent.since(from);
        let mut shown = 0;
        while !paging.is_done() {
            let ask = paging.ask().map_err(|failed| ReconnectFailure::Ended(Ended::Done(Err(failed))))?;
            let pairs = [
                ("query", self.query.clone()),
                ("limit", ask.limit.to_string()),
                ("start", ask.start.to_string()),
                ("end", ask.end.to_string()),
                ("direction", "forward".to_owned()),
            ];
            let asking = self.client.get("/loki/api/v1/query_range", &pairs);
            let asked = tokio::select! {
                asked = asking => asked,
                _ = tokio::signal::ctrl_c() => {
                    return Err(ReconnectFailure::Ended(Ended::Done(Ok(ExitCode::SUCCESS))));
                }
            };
            let body = match asked {
                Ok(body) => body,
                Err(refusal) if paging.learn_limit(ask, &refusal.text) => continue,
                Err(refusal) => return Err(ReconnectFailure::Refused(refusal)),
            };
            let answer =
                results::read(&body).map_err(|failed| ReconnectFailure::Ended(Ended::Done(Err(failed))))?;
            let Data::Streams(streams) = answer.data else { return Ok(shown) };
            let mut found = paging.take(ask, streams);
            found.retain(|row| !repeats.take(row));
            shown += found.len();
            self.show(&found).map_err(ReconnectFailure::Ended)?;
        }
        Ok(shown)
    }
}

/// Why an attempt to connect again stopped.
enum ReconnectFailure {
    Refused(Refusal),
    Ended(Ended),
}
