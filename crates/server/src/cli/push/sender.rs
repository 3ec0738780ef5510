//! Sends batches, repeats what may succeed later with growing pauses, and finds out line by line what the
//! server refused.
//!
//! What is sent is a [`Parcel`]: lines of a log, or samples as text.
//!
//! A server of ours names the refused lines when it is asked to. Any other (Loki) says only that it left
//! something out: the batch is then halved until the refused lines stand alone. Lines that it has stored
//! already are sent again on the way, which it drops as duplicates. A batch for which that would take more
//! than [`HALVINGS_MAX`] requests is not halved to the end: what is not known to be stored counts as refused.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use sandur_base::{Backoff, Env};
use serde::Deserialize;

use super::batch::{Batch, PUSH_TYPE};
use crate::cli::client::{Ask, Client, Refusal};

/// Pauses before a repetition.
const REPETITIONS: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
/// Requests that one batch may take while refused lines are looked for.
const HALVINGS_MAX: usize = 1_000;

/// Lines that can be sent in any part.
pub trait Parcel {
    /// How many there are.
    fn lines(&self) -> usize;
    /// The body with some of them.
    fn body(&self, lines: Range<usize>) -> Bytes;
    /// Where it goes.
    fn endpoint(&self) -> Endpoint<'_>;
}

/// Where bodies of a kind go.
#[derive(Clone, Copy)]
pub struct Endpoint<'a> {
    /// The path.
    pub path: &'static str,
    /// The query.
    pub pairs: &'a [(&'a str, String)],
    /// Content type, and the question which parts were refused.
    pub headers: [(&'static str, &'static str); 2],
}

/// The endpoint of lines of a log.
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

/// How a body ended up.
pub enum Sent {
    /// Everything was stored.
    Whole,
    /// The server left something out and said why; repeating does not help.
    Partly(Partly),
}

/// What was left out of a body.
pub struct Partly {
    /// What the server says.
    pub text: String,
    /// First entry, count and reason, if the server tells.
    runs: Option<Vec<(usize, usize, String)>>,
}

/// Neighbouring lines of a batch that are not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The lines.
    pub lines: Range<usize>,
    /// A word for the reason.
    pub reason: String,
    /// What the server said.
    pub text: String,
}

/// Sends to one server.
#[derive(Clone)]
pub struct Sender {
    env: Env,
    client: Client,
    /// Repetitions before giving up; `None` for never.
    retries: Option<u32>,
    /// Whether it was said that the server cannot be reached.
    waiting: Arc<AtomicBool>,
}

#[derive(Deserialize)]
struct ByEntry {
    message: String,
    refused: Vec<(usize, usize, String)>,
}

impl Sender {
    /// Sends by `client` and gives a body up after so many repetitions.
    pub fn new(env: Env, client: Client, retries: Option<u32>) -> Self {
        Self { env, client, retries, waiting: Arc::default() }
    }

    /// The world.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a batch; what is not stored of it. An error: whether it is stored is not known.
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
            let Sent::Partly(Partly { text, runs }) = sent else { continue };
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

    /// Sends one body of log lines until the server has taken it, refused it for good, or patience ends.
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
            // Loki stores the valid part of a push that it answers with 400; 413 is for the size alone.
            if refusal.status.is_some_and(|s| matches!(s.as_u16(), 400 | 413)) {
                self.say_reached();
                return Ok(Sent::Partly(partly(refusal)));
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
            eprintln!("the server at {} takes lines again", self.client.base());
        }
    }
}

fn partly(refusal: Refusal) -> Partly {
    let (kind, body) = refusal.body;
    let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
    let by_entry: Option<ByEntry> = is_json.then(|| serde_json::from_slice(&body).ok()).flatten();
    match by_entry {
        Some(ByEntry { message, refused }) => Partly { text: message, runs: Some(refused) },
        None => Partly { text: refusal.text, runs: None },
    }
}

/// A word for what a server says that gives no word: Loki's texts.
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

    /// A server that refuses at once while its store is away would be asked four times a second.
    #[tokio::test]
    async fn a_503_is_not_repeated_before_the_server_wants_it() {
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
        // Without it the first pause is 250 ms at most.
        assert!(waited >= Duration::from_millis(1_900), "{waited:?}");
    }
}
