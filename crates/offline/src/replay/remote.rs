//! The data of a replay: a server, asked over HTTP as by any client.
//!
//! **Invariants.** An answer that may be incomplete is an error. Samples are sent only if the command has
//! `--write`; they are counted by the name of the metric either way. A request that may succeed later is
//! repeated for a while; then the replay ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::BoxFuture;
use sandur_cli::client::{Ask, Client, Method, Refusal};
use sandur_model::{FloatHistogram, Labels, Matcher, SampleBatch};
use sandur_protobuf::prometheus;
use sandur_query::QueryContext;
use sandur_rules::data::{Data, Instant, LastSample, Number, ReadSeries, Vector};
use sandur_rules::memory_data::MemoryData;
use sandur_rules::{EvaluationError, Expression, Language};
use sandur_runtime::{Backoff, Env, Shutdown};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::graphite;

const NAME: &str = "__name__";
/// Pauses before a request is repeated.
const ATTEMPTS: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(10));
/// The headers of remote write 1.0.
const WRITE_HEADERS: [(&str, &str); 3] = [
    ("Content-Type", "application/x-protobuf"),
    ("Content-Encoding", "snappy"),
    ("X-Prometheus-Remote-Write-Version", "0.1.0"),
];

/// A server.
pub struct Remote {
    env: Env,
    client: Client,
    is_writing: bool,
    /// The memory of templates, and batches.
    memory: MemoryData,
    timeout: Duration,
    recorded: Mutex<BTreeMap<String, u64>>,
    given_up: Mutex<Option<String>>,
    /// Ends the replay.
    stop: Shutdown,
}

impl Remote {
    /// Rules that read from a server, and store there what they record if `is_writing`. Requests are repeated
    /// for `timeout`; after it `stop` is triggered.
    pub fn new(env: &Env, client: Client, is_writing: bool, (timeout, stop): (Duration, &Shutdown)) -> Self {
        Self {
            env: env.clone(),
            client,
            is_writing,
            memory: MemoryData::new(env.clone()),
            timeout,
            recorded: Mutex::default(),
            given_up: Mutex::default(),
            stop: stop.clone(),
        }
    }

    /// The number of recorded samples of each metric.
    pub fn recorded(&self) -> BTreeMap<String, u64> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the server was given up, if it was.
    pub fn given_up(&self) -> Option<String> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request until it is answered. After `timeout` of failures the server is given up.
    async fn ask<'a>(&self, ask: impl Fn() -> Ask<'a>) -> Result<(Vec<u8>, Option<String>), Refusal> {
        let (mut pauses, begun) = (ATTEMPTS.pauses(), self.env.monotonic());
        loop {
            match self.client.ask_warned(ask()).await {
                Err(refusal)
                    if refusal.is_retryable()
                        && self.env.monotonic().saturating_sub(begun) >= self.timeout =>
                {
                    self.give_up(&refusal.text);
                    return Err(refusal);
                }
                Err(refusal) if refusal.is_retryable() => {
                    let pause = pauses.after_failure_with_jitter(&self.env);
                    self.env.sleep(refusal.retry_after.unwrap_or(pause)).await;
                }
                outcome => return outcome,
            }
        }
    }

    fn give_up(&self, why: &str) {
        *self.given_up.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
        self.stop.trigger();
    }

    async fn get(&self, path: &'static str, pairs: &[(&str, String)]) -> Result<Vec<u8>, EvaluationError> {
        let answer = self.ask(|| Ask { path, pairs, ..Ask::default() }).await;
        match answer.map_err(|refusal| EvaluationError::Query(refusal.text))? {
            // The body has the warnings, and PromQL's annotations besides.
            (body, _) if path != graphite::PATH => Ok(body),
            (body, None) => Ok(body),
            (_, Some(warning)) => Err(EvaluationError::Incomplete(warning)),
        }
    }

    async fn instant(&self, expression: Expression<'_>, at: Instant) -> Result<Vector, EvaluationError> {
        let (path, time) = match expression.language {
            Language::Promql => ("/api/v1/query", seconds(at)),
            Language::Logql => ("/loki/api/v1/query", at.ns().to_string()),
            Language::Graphite => {
                let body = self.get(graphite::PATH, &graphite::parameters(expression, at)).await?;
                return graphite::vector_of(&body, at);
            }
        };
        let pairs = [("query", expression.text.to_owned()), ("time", time)];
        vector_of(&self.get(path, &pairs).await?)
    }

    async fn send(&self, batch: &SampleBatch) -> Result<(), EvaluationError> {
        if !batch.histograms.is_empty() {
            let what = "the result has native histograms, which a replay cannot store";
            return Err(EvaluationError::Write(what.to_owned()));
        }
        let mut request = Vec::new();
        for series in &batch.series {
            prometheus::series(&mut request, series.labels.iter(), batch.samples_of(series));
        }
        let body = snap::raw::Encoder::new().compress_vec(&request);
        let body = Bytes::from(body.map_err(|error| EvaluationError::Write(error.to_string()))?);
        let ask = || Ask {
            method: Method::POST,
            path: "/api/v1/write",
            headers: &WRITE_HEADERS,
            body: body.clone(),
            ..Ask::default()
        };
        self.ask(ask).await.map(drop).map_err(|refusal| EvaluationError::Write(refusal.text))
    }
}

/// Seconds with milliseconds, as in parameters of Prometheus's API.
fn seconds(at: Instant) -> String {
    (at.ms() as f64 / 1_000.0).to_string()
}

#[derive(Deserialize)]
struct Answer {
    data: Outcome,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Outcome {
    Vector(Vec<Series>),
    Scalar((f64, String)),
    Matrix(IgnoredAny),
    String(IgnoredAny),
    Streams(IgnoredAny),
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    value: Option<(f64, String)>,
    histogram: Option<IgnoredAny>,
}

fn number(text: &str) -> Result<f64, EvaluationError> {
    text.parse().map_err(|_| EvaluationError::Query(format!("the answer has the value '{text}'")))
}

/// The vector of an answer of Prometheus's or of Loki's API.
fn vector_of(body: &[u8]) -> Result<Vector, EvaluationError> {
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| EvaluationError::Query(format!("the server's answer cannot be read: {error}")))?;
    // Annotations are about the expression, not about missing data.
    let incomplete: Vec<String> =
        answer.warnings.into_iter().filter(|warning| !warning.starts_with("PromQL ")).collect();
    if !incomplete.is_empty() {
        return Err(EvaluationError::Incomplete(incomplete.join("; ")));
    }
    let samples = match answer.data {
        Outcome::Vector(all) => all.into_iter().map(sample_of).collect::<Result<_, _>>()?,
        Outcome::Scalar((_, value)) => vec![(Labels::default(), Number::Float(number(&value)?))],
        Outcome::Matrix(_) | Outcome::String(_) | Outcome::Streams(_) => {
            return Err(EvaluationError::NotVector);
        }
    };
    Ok(Vector { samples, held: None })
}

fn sample_of(series: Series) -> Result<(Labels, Number), EvaluationError> {
    let labels = Labels::from_pairs(series.metric.iter().map(|(name, value)| (&**name, &**value)));
    match (series.value, series.histogram) {
        (Some((_, value)), _) => Ok((labels, Number::Float(number(&value)?))),
        // The answer has its buckets, but not their layout. Alerts only need to know that it is there.
        (None, Some(_)) => Ok((labels, Number::Histogram(Arc::new(FloatHistogram::default())))),
        (None, None) => Err(EvaluationError::Query("the answer has a series without a value".to_owned())),
    }
}

impl Data for Remote {
    fn context(&self, timeout: Duration) -> QueryContext {
        self.memory.context(timeout)
    }

    fn query<'a>(
        &'a self,
        expression: Expression<'a>,
        at: Instant,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vector, EvaluationError>> {
        Box::pin(self.instant(expression, at))
    }

    fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), EvaluationError>> {
        Box::pin(async move {
            if self.is_writing {
                self.send(&batch).await?;
            }
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            for series in &batch.series {
                let samples = series.samples.len() + series.histograms.len();
                let name = series.labels.get(NAME).unwrap_or_default();
                *recorded.entry(name.to_owned()).or_default() += samples as u64;
            }
            Ok(())
        })
    }

    /// A replay continues nothing.
    fn last_samples<'a>(
        &'a self,
        _: Vec<Matcher>,
        _: Instant,
        _: Instant,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<LastSample>, EvaluationError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// A replay continues nothing.
    fn read<'a>(
        &'a self,
        _: Vec<Matcher>,
        _: (Instant, Instant),
        _: Duration,
        _: ReadSeries<'a>,
    ) -> BoxFuture<'a, Result<(), EvaluationError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn batch(&self) -> SampleBatch {
        self.memory.batch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &str, rest: &str) -> Result<Vec<(String, Number)>, String> {
        let body = format!(r#"{{"status":"success","data":{{{data},"stats":{{}}}}{rest}}}"#);
        let vector = vector_of(body.as_bytes()).map_err(|error| error.to_string())?;
        Ok(vector.samples.into_iter().map(|(labels, number)| (labels.to_string(), number)).collect())
    }

    #[test]
    fn answers_of_both_apis_are_read() {
        let one = r#""resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"+Inf"]}]"#;
        let expected = vec![(r#"{a="b"}"#.to_owned(), Number::Float(f64::INFINITY))];
        assert_eq!(read(one, r#","warnings":["PromQL warning: a bucket is missing"]"#).unwrap(), expected);
        let scalar = r#""resultType":"scalar","result":[1.5,"2"]"#;
        assert_eq!(read(scalar, "").unwrap(), [("{}".to_owned(), Number::Float(2.0))]);
    }

    #[test]
    fn incomplete_and_unsuitable_answers_are_errors() {
        let none = r#""resultType":"vector","result":[]"#;
        assert_eq!(read(none, "").unwrap(), []);
        assert!(read(none, r#","warnings":["rows of node-2 are missing"]"#).unwrap_err().contains("node-2"));
        let matrix = r#""resultType":"matrix","result":[{"metric":{},"values":[[1,"2"]]}]"#;
        assert!(read(matrix, "").unwrap_err().contains("not a vector"));
        assert!(read(r#""resultType":"vector","result":[{"metric":{}}]"#, "").is_err());
        assert!(read(r#""resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]"#, "").is_err());
        assert!(vector_of(b"<html>").is_err());
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(seconds(Instant::of_ns(1_795_176_000_123_456_789)), "1795176000.123");
        assert_eq!(seconds(Instant::of_seconds(-1)), "-1");
    }
}
