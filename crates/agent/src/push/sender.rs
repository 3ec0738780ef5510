//! Sends batches, retries with growing pauses, and finds out which lines the server refused.
//!
//! Batches are [`Parcel`]s: log lines, or samples as text.
//!
//! Our server names the refused lines on request. Another server (Loki) only reports that some lines were
//! refused: then the batch is halved until refused lines are isolated. Lines that are stored already are
//! sent again meanwhile; the server drops them as duplicates. If that would take more than
//! [`HALVINGS_MAX`] requests, it stops, and lines that are not known to be stored count as refused.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use sandur_cli::client::{Ask, Client, Refusal};
use sandur_runtime::{Backoff, Env};
use serde::Deserialize;

use super::batch::{Batch, PUSH_TYPE};

/// Pauses before retries.
const REPETITIONS: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
/// Maximum number of requests to find the refused lines of a batch.
const HALVINGS_MAX: usize = 1_000;

/// Lines of which any part can be sent.
pub trait Parcel {
    /// Number of lines.
    fn lines(&self) -> usize;
    /// The body of a request with these lines.
    fn body(&self, lines: Range<usize>) -> Bytes;
    /// The endpoint that receives them.
    fn endpoint(&self) -> Endpoint<'_>;
}

/// The endpoint for a kind of body.
#[derive(Clone, Copy)]
pub struct Endpoint<'a> {
    /// The path.
    pub path: &'static str,
    /// Parameters of the query string.
    pub pairs: &'a [(&'a str, String)],
    /// Content type, and the header that requests the refused parts.
    pub headers: [(&'static str, &'static str); 2],
}

/// The endpoint for log lines.
const LOKI_PUSH: Endpoint<'static> = Endpoint {
    path: "/loki/api/v1/push",
    pairs: &[],
    headers: [("content-type", PUSH_TYPE), ("x-sandur-refused", "entries")],
};

impl Parcel for Batch {
    fn lines(&self) -> usize {
        self.lines.len()
    }

    fn body(&self, lines: Range<usize>) -> Bytes {
        Batch::body(self, lines)
    }

    fn endpoint(&self) -> Endpoint<'_> {
        LOKI_PUSH
    }
}

/// The outcome of a request.
pub enum Sent {
    /// Everything was stored.
    Whole,
    /// The server refused some lines and gave a reason; a retry does not help.
    PartlyRefused(PartlyRefused),
}

/// A request of which some lines were refused.
pub struct PartlyRefused {
    /// The text of the server.
    pub text: String,
    /// First entry, count and reason, if the server names them.
    runs: Option<Vec<(usize, usize, String)>>,
}

/// Consecutive lines of a batch that are not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The lines.
    pub lines: Range<usize>,
    /// The reason.
    pub reason: String,
    /// The text of the server.
    pub text: String,
}

/// Sends to one server.
#[derive(Clone)]
pub struct Sender {
    env: Env,
    client: Client,
    /// Number of retries; `None`: unlimited.
    retries: Option<u32>,
    /// Whether it was reported that the server cannot be reached.
    waiting: Arc<AtomicBool>,
}

#[derive(Deserialize)]
struct ByEntry {
    message: String,
    refused: Vec<(usize, usize, String)>,
}

impl Sender {
    /// Sends through `client`, with at most `retries` retries (`None`: unlimited).
    pub fn new(env: Env, client: Client, retries: Option<u32>) -> Self {
        Self { env, client, retries, waiting: Arc::default() }
    }

    /// Clock and randomness.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a batch. Returns the lines that are not stored. After an error it is unknown whether they
    /// are.
    pub async fn settle(&self, batch: &impl Parcel) -> Result<Vec<Left>, Refusal> {
        let whole = 0..batch.lines();
        let mut open = Vec::from_iter([whole]);
        let mut left: Vec<Left> = Vec::new();
        let mut requests = 0;
        while let Some(lines) = open.pop() {
            if lines.is_empty() {
                continue;
            }
            let sent = self.send_to(batch.endpoint(), batch.body(lines.clone())).await?;
            let Sent::PartlyRefused(PartlyRefused { text, runs }) = sent else { continue };
            requests += 1;
            let fits = |(first, count, _): &(usize, usize, String)| {
                first.checked_add(*count).is_some_and(|end| end <= lines.len())
            };
            match runs.filter(|runs| !runs.is_empty() && runs.iter().all(fits)) {
                Some(runs) => left.extend(runs.into_iter().map(|(first, count, reason)| {
                    let first = lines.start + first;
                    Left { lines: first..first + count, reason, text: text.clone() }
                })),
                None if lines.len() == 1 || requests >= HALVINGS_MAX => {
                    left.push(Left { reason: reason_of(&text).to_owned(), lines, text });
                }
                None => {
                    let middle = lines.start + lines.len() / 2;
                    open.extend([middle..lines.end, lines.start..middle]);
                }
            }
        }
        Ok(left)
    }

    /// Sends one body of log lines, until the server stores or refuses it, or the retries are used up.
    pub async fn send(&self, body: Bytes) -> Result<Sent, Refusal> {
        self.send_to(LOKI_PUSH, body).await
    }

    async fn send_to(&self, endpoint: Endpoint<'_>, body: Bytes) -> Result<Sent, Refusal> {
        let mut attempt = 0;
        loop {
            let ask = Ask {
                method: Method::POST,
                path: endpoint.path,
                pairs: endpoint.pairs,
                headers: &endpoint.headers,
                body: body.clone(),
            };
            let refusal = match self.client.ask(ask).await {
                Ok(_) => {
                    self.say_reached();
                    return Ok(Sent::Whole);
                }
                Err(refusal) => refusal,
            };
            // Loki stores the valid part of a push that it answers with 400; 413 is only about the size.
            if refusal.status.is_some_and(|s| matches!(s.as_u16(), 400 | 413)) {
                self.say_reached();
                return Ok(Sent::PartlyRefused(partly(refusal)));
            }
            if !refusal.is_retryable() || self.retries.is_some_and(|most| attempt >= most) {
                return Err(refusal);
            }
            self.say_waiting(&refusal);
            let pause = REPETITIONS.half_jitter(attempt, &self.env);
            let pause = pause.max(refusal.retry_after.unwrap_or_default());
            self.env.sleep(pause).await;
            attempt = attempt.saturating_add(1);
        }
    }

    fn say_waiting(&self, refusal: &Refusal) {
        if !self.waiting.swap(true, Ordering::Relaxed) {
            let status = refusal.status.map(|s| format!(" ({})", s.as_u16())).unwrap_or_default();
            eprintln!("not stored yet{status}: {}; trying again", refusal.text);
        }
    }

    fn say_reached(&self) {
        if self.waiting.swap(false, Ordering::Relaxed) {
            eprintln!("the server at {} accepts lines again", self.client.base());
        }
    }
}

fn partly(refusal: Refusal) -> PartlyRefused {
    let (kind, body) = refusal.body;
    let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
    let by_entry: Option<ByEntry> = is_json.then(|| serde_json::from_slice(&body).ok()).flatten();
    match by_entry {
        Some(ByEntry { message, refused }) => PartlyRefused { text: message, runs: Some(refused) },
        None => PartlyRefused { text: refusal.text, runs: None },
    }
}

/// A reason for the text of a server that gives none, by Loki's texts.
fn reason_of(text: &str) -> &'static str {
    let known = [
        ("too old", "greater_than_max_sample_age"),
        ("too far behind", "greater_than_max_sample_age"),
        ("too new", "too_far_in_future"),
        ("max entry size", "line_too_long"),
        ("body too large", "line_too_long"),
    ];
    let found = known.iter().find(|(part, _)| text.contains(part));
    found.map_or("refused", |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers one request.
    async fn answer(listener: &TcpListener, answer: &str) {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 1_024]);
        while !request.ends_with(b"the body") {
            let read = stream.read(&mut piece).await.unwrap();
            assert!(read > 0, "the request is cut off");
            request.extend_from_slice(&piece[..read]);
        }
        let answer = format!("HTTP/1.1 {answer}content-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }

    /// A server that answers 503 immediately while its store is unreachable must not get four requests per
    /// second.
    #[tokio::test]
    async fn a_503_is_not_retried_before_retry_after() {
        let env = Env::system(1);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let sender = Sender::new(env.clone(), Client::new(&address, None).unwrap(), Some(1));
        let server = async {
            answer(&listener, "503 Service Unavailable\r\nretry-after: 2\r\n").await;
            let refused_at = env.monotonic();
            answer(&listener, "204 No Content\r\n").await;
            env.monotonic() - refused_at
        };
        let (sent, waited) = tokio::join!(sender.send(Bytes::from_static(b"the body")), server);
        assert!(matches!(sent, Ok(Sent::Whole)));
        // Without `Retry-After`, the first pause is at most 250 ms.
        assert!(waited >= Duration::from_millis(1_900), "{waited:?}");
    }
}
