//! Our implementation of LogQL in this process, over the rows of a corpus in memory.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use sandur_bench::http::Answer;
use sandur_ingest::{PushHeaders, loki_push};
use sandur_logql::Request;
use sandur_model::go_text::labels_text;
use sandur_model::{Limits, TenantId};
use sandur_query::{LogRow, MemoryRow, MemorySource, QueryResult, Sample, Series};
use serde_json::{Map, Value, json};

use crate::corpus::{HALF_NS, MIDDLE_NS};
use crate::in_process::InProcess;

/// The language over rows in memory.
pub struct InMemory {
    process: InProcess,
    source: MemorySource,
}

impl InMemory {
    /// Over the rows of these pushes, which are decoded as a server decodes them.
    pub fn over(pushes: &[String]) -> Result<Self> {
        let mut rows = Vec::new();
        for push in pushes {
            rows.extend(decoded(push)?);
        }
        // A server stores exact repetitions once.
        let mut seen = HashSet::new();
        rows.retain(|row| {
            seen.insert((row.labels.clone(), row.timestamp, row.line.clone(), row.metadata.clone()))
        });
        Ok(Self { process: InProcess::new()?, source: MemorySource::new(rows) })
    }

    /// Evaluates a query. The answer has the form of the HTTP API, without statistics.
    pub fn ask(&self, request: &Request) -> Answer {
        let (context, limits) = (self.process.context(), Limits::default());
        let answer = sandur_logql::query(&self.source, &context, &limits, request.clone());
        match self.process.run(answer) {
            Ok(result) => Answer::new(200, body(&result).to_string()),
            Err(error) => Answer::new(400, error.to_string()),
        }
    }
}

fn decoded(push: &str) -> Result<Vec<MemoryRow>> {
    let (tenant, limits) = (TenantId::default_tenant(), Limits::default());
    let headers = PushHeaders { content_type: Some("application/json"), content_encoding: None };
    let decoded = loki_push(&tenant, &limits, MIDDLE_NS + HALF_NS, headers, push.to_owned().into());
    let batch = decoded.context("a push of the corpus is refused")?.batch;
    let text = |bytes: &[u8]| -> Arc<str> { String::from_utf8_lossy(bytes).into() };
    let mut rows = Vec::new();
    for stream in &batch.streams {
        for entry in &stream.entries {
            let pairs = batch.metadata_of(entry).map(|(name, value)| (text(name), text(value)));
            let mut metadata: Vec<(Arc<str>, Arc<str>)> = pairs.collect();
            metadata.sort();
            let line = batch.arena.bytes.slice_ref(entry.line.of(&batch.arena.bytes));
            let (labels, timestamp) = (Arc::clone(&stream.labels), entry.timestamp);
            rows.push(MemoryRow { labels, timestamp, line, metadata, level: entry.level });
        }
    }
    Ok(rows)
}

fn body(result: &QueryResult) -> Value {
    let (kind, result) = match result {
        QueryResult::Streams(rows) => ("streams", streams(rows)),
        QueryResult::Matrix(all) => ("matrix", all.iter().map(|one| series(one, "values")).collect()),
        QueryResult::Vector(all) => ("vector", all.iter().map(|one| series(one, "value")).collect()),
        QueryResult::Scalar(one) => ("scalar", sample(one)),
    };
    json!({"status": "success", "data": {"resultType": kind, "result": result}})
}

/// Groups rows by all of their labels, in the order of the text of these.
fn streams(rows: &[LogRow]) -> Value {
    let mut groups: Vec<(String, Value, Vec<Value>)> = Vec::new();
    for row in rows {
        let labels = merged(row);
        let text = labels_text(labels.iter().map(|(name, value)| (*name, *value)));
        let entry = json!([row.timestamp.to_string(), String::from_utf8_lossy(&row.line)]);
        match groups.iter_mut().find(|(own, ..)| *own == text) {
            Some((.., entries)) => entries.push(entry),
            None => groups.push((text, object(labels.into_iter()), vec![entry])),
        }
    }
    groups.sort_by(|a, b| a.0.cmp(&b.0));
    groups.into_iter().map(|(_, labels, entries)| json!({"stream": labels, "values": entries})).collect()
}

/// All labels of a row. Of equal names, parsed labels override metadata, and metadata the stream's
/// labels.
fn merged(row: &LogRow) -> Vec<(&str, &str)> {
    let parsed = row.parsed.iter().map(|(name, value)| (&**name, &**value));
    let mut all: Vec<(&str, &str)> = parsed.chain(row.metadata.iter()).chain(row.stream.iter()).collect();
    all.sort_by_key(|pair| pair.0); // stable: the first of equal names is kept
    all.dedup_by_key(|pair| pair.0);
    all
}

fn object<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    Value::Object(labels.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>())
}

fn series(series: &Series, key: &str) -> Value {
    let labels = object(series.labels.iter().map(|(name, value)| (&**name, &**value)));
    let samples: Vec<Value> = series.samples.iter().map(sample).collect();
    let values = if key == "value" { samples.first().cloned().unwrap_or_default() } else { samples.into() };
    json!({"metric": labels, key: values})
}

fn sample(sample: &Sample) -> Value {
    let value = match sample.value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    };
    let ms = sample.timestamp_ms;
    match ms % 1000 {
        0 => json!([ms / 1000, value]),
        _ => json!([ms as f64 / 1000.0, value]),
    }
}
