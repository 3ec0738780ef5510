//! Sends bodies and repeats what may succeed later, with growing pauses.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use sandur_base::Env;

use super::request::PUSH_TYPE;
use crate::cli::client::{Ask, Client, Refusal};

/// First pause before a repetition; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How a body ended up.
pub enum Sent {
    /// Everything was stored.
    Whole,
    /// The server left something out and said why; repeating does not help.
    Partly(String),
}

/// Sends to one server.
#[derive(Clone)]
pub struct Sender {
    /// The world.
    pub env: Env,
    /// The server.
    pub client: Client,
    /// Repetitions before giving up.
    pub retries: u32,
}

impl Sender {
    /// Sends one body until the server has taken it, refused it for good, or patience ends.
    pub async fn send(&self, body: Bytes) -> Result<Sent, Refusal> {
        let mut attempt = 0;
        loop {
            let ask = Ask {
                method: Method::POST,
                path: "/loki/api/v1/push",
                headers: &[("content-type", PUSH_TYPE)],
                body: body.clone(),
                ..Ask::default()
            };
            let refusal = match self.client.ask(ask).await {
                Ok(_) => return Ok(Sent::Whole),
                Err(refusal) => refusal,
            };
            // Loki stores the valid part of a push that it answers with 400.
            if refusal.status.is_some_and(|s| s.as_u16() == 400) {
                return Ok(Sent::Partly(refusal.text));
            }
            if !refusal.is_retryable() || attempt >= self.retries {
                return Err(refusal);
            }
            self.env.sleep(self.pause(attempt)).await;
            attempt += 1;
        }
    }

    /// Half of the pause is random, so that many senders do not come back together.
    fn pause(&self, attempt: u32) -> Duration {
        let full = PAUSE_MIN.saturating_mul(1 << attempt.min(10)).min(PAUSE_MAX);
        let half = full.as_millis() as u64 / 2;
        Duration::from_millis(half + self.env.random_below(half.max(1)))
    }
}
