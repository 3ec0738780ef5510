//! Sends the requests of an import, with retries, until the server has stored them.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use sandur_cli::client::{Ask, Client, Refusal};
use sandur_ingest::REMOTE_WRITE_2_TYPE;
use sandur_runtime::{Backoff, Env, Pace};

/// Pauses between attempts.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// The version of remote write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// 1.0, which has histograms in the same form as answers of remote read.
    One,
    /// 2.0, whose labels are numbers.
    Two,
}

/// A request.
pub struct Request {
    /// The body, a snappy block.
    pub body: Vec<u8>,
    /// Number of points.
    pub points: u64,
    /// Its form.
    pub form: Written,
}

/// The outcome of requests.
pub enum Outcome {
    /// All of it is stored.
    Stored,
    /// The server refused some of the points; its text.
    Refused(String),
    /// It is unknown whether it is stored, and retries did not help.
    Failed(Refusal),
}

impl Request {
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        match self.form {
            Written::One => &[
                ("content-type", "application/x-protobuf"),
                ("content-encoding", "snappy"),
                ("x-prometheus-remote-write-version", "0.1.0"),
            ],
            Written::Two => &[("content-type", REMOTE_WRITE_2_TYPE), ("content-encoding", "snappy")],
        }
    }
}

/// What sending a request needs.
#[derive(Clone)]
pub struct Sending {
    /// Clock and randomness.
    pub env: Env,
    /// The server; `None` for a dry run.
    pub client: Option<Client>,
    /// Maximum number of retries of a request.
    pub retries: u32,
    /// The rate limiter.
    pub pace: Pace,
}

/// Waits before the next attempt, at least as long as the server wants.
pub async fn pause(env: &Env, attempt: u32, refusal: &Refusal) {
    let pause = PAUSES.half_jitter(attempt, env);
    env.sleep(pause.max(refusal.retry_after.unwrap_or_default())).await;
}

impl Sending {
    /// Sends requests one after the other. After one that the server refused, the others are sent all the
    /// same: it stores what it does not refuse. Returns how many points were in those that are stored, and
    /// the failure that ended it, or the first refusal.
    pub async fn send_all(&self, requests: Vec<Request>) -> (u64, Outcome) {
        let (mut points, mut outcome) = (0, Outcome::Stored);
        for request in requests {
            let sent = request.points;
            match self.send(request).await {
                Outcome::Stored => points += sent,
                Outcome::Failed(refusal) => return (points, Outcome::Failed(refusal)),
                refused if matches!(outcome, Outcome::Stored) => outcome = refused,
                Outcome::Refused(_) => {}
            }
        }
        (points, outcome)
    }

    /// Sends a request, with retries, until the server has stored it.
    async fn send(&self, request: Request) -> Outcome {
        self.pace.take(request.points).await;
        let Some(client) = &self.client else { return Outcome::Stored };
        let headers = request.headers();
        let body = Bytes::from(request.body);
        let mut attempt = 0;
        loop {
            let ask = Ask {
                method: Method::POST,
                path: "/api/v1/write",
                headers,
                body: body.clone(),
                ..Ask::default()
            };
            let refusal = match client.ask(ask).await {
                Ok(_) => return Outcome::Stored,
                Err(refusal) => refusal,
            };
            if refusal.status.is_some_and(|status| status.as_u16() == 400) {
                return Outcome::Refused(refusal.text.trim_end().to_owned());
            }
            if !refusal.is_retryable() || attempt >= self.retries {
                return Outcome::Failed(refusal);
            }
            pause(&self.env, attempt, &refusal).await;
            attempt += 1;
        }
    }
}
