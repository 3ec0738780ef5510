//! What `--verify` asks the server: the stored samples of a series in a range, with retries.

use std::collections::BTreeMap;

use sandur_cli::client::Client;
use sandur_runtime::Env;
use sandur_terminal::Failed;
use serde::Deserialize;

use super::sending::pause;

/// Number of differences that are printed individually.
pub const DIFFERENCES_SHOWN_MAX: u64 = 100;

/// The server of a comparison.
pub struct Stored {
    /// Clock and randomness.
    pub env: Env,
    /// The server.
    pub client: Client,
    /// Maximum number of retries of a request.
    pub retries: u32,
}

/// A series of an answer.
#[derive(Deserialize)]
pub struct Series {
    /// Its labels.
    pub metric: BTreeMap<String, String>,
    /// Times in seconds, and floats.
    #[serde(default)]
    values: Vec<(f64, String)>,
    /// Times in seconds, and histograms.
    #[serde(default)]
    histograms: Vec<(f64, Histogram)>,
}

/// A histogram of an answer.
#[derive(Deserialize)]
pub struct Histogram {
    /// The number of observations.
    pub count: String,
    /// Their sum.
    pub sum: String,
    /// The rule of the bounds, the bounds, and the number of observations of each bucket.
    #[serde(default)]
    pub buckets: Vec<(u8, String, String, String)>,
}

impl Series {
    /// Its floats, with their times in milliseconds.
    pub fn floats(&self) -> impl Iterator<Item = (i64, &str)> {
        self.values.iter().map(|(time, text)| (milliseconds(*time), text.as_str()))
    }

    /// Its histograms, with their times in milliseconds.
    pub fn histograms(&self) -> impl Iterator<Item = (i64, &Histogram)> {
        self.histograms.iter().map(|(time, histogram)| (milliseconds(*time), histogram))
    }
}

fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1_000.0).round() as i64
}

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

impl Stored {
    /// The series that a range selector matches at a time. The range ends at this time (inclusive) and begins
    /// its length before it (exclusive).
    pub async fn series(&self, query: String, time: String) -> Result<Vec<Series>, Failed> {
        let pairs = [("query", query), ("time", time)];
        let mut attempt = 0;
        let body = loop {
            match self.client.get("/api/v1/query", &pairs).await {
                Ok(body) => break body,
                Err(refusal) if refusal.is_retryable() && attempt < self.retries => {
                    pause(&self.env, attempt, &refusal).await;
                    attempt += 1;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        };
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|error| Failed::new(format!("the server's answer cannot be read: {error}")))?;
        Ok(answer.data.result)
    }
}

/// A selector for the series with these labels; it also matches series with additional labels.
pub fn selector<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let pairs: Vec<String> =
        labels.map(|(name, value)| format!("{}={}", quoted(name), quoted(value))).collect();
    format!("{{{}}}", pairs.join(","))
}
