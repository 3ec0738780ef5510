//! The rows of each signal and protocol: what is sent, and how.

use std::time::{SystemTime, UNIX_EPOCH};

use sandur_protobuf::prometheus;
use serde_json::{Value, json};

use crate::client::Request;
use crate::ledger::{Row, SECOND_NS};

/// What a writer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Lines by Loki's push API.
    Lines,
    /// The same, but of some hours ago.
    LateLines,
    /// Lines by OpenTelemetry.
    OtlpLines,
    /// Samples by remote write.
    Samples,
    /// Samples by OpenTelemetry.
    OtlpSamples,
    /// Carbon's points, over HTTP, which acknowledges them.
    Points,
}

pub const SIGNALS: [Signal; 6] = [
    Signal::Lines,
    Signal::LateLines,
    Signal::OtlpLines,
    Signal::Samples,
    Signal::OtlpSamples,
    Signal::Points,
];

/// Rows of a push.
const ROWS: u64 = 4;
const LATE_NS: i64 = 3 * 3_600 * SECOND_NS;
const MS_NS: i64 = 1_000_000;
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];
/// A series of each signal of samples. Those of points are `chaos.point.N`.
pub const SAMPLES: &str = "chaos_sample";
pub const OTLP_SAMPLES: &str = "chaos_otlp_sample";
pub const POINTS: &str = "chaos.point.";

impl Signal {
    /// The name in messages and in the label `stream`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::LateLines => "late-lines",
            Self::OtlpLines => "otlp-lines",
            Self::Samples => "samples",
            Self::OtlpSamples => "otlp-samples",
            Self::Points => "points",
        }
    }

    /// By how much rows are older than their push.
    pub fn late_ns(self) -> i64 {
        if self == Self::LateLines { LATE_NS } else { 0 }
    }

    /// The unit of times.
    fn tick_ns(self) -> i64 {
        match self {
            Self::Lines | Self::LateLines | Self::OtlpLines => 1,
            Self::Samples | Self::OtlpSamples => MS_NS,
            Self::Points => SECOND_NS,
        }
    }

    /// The rows of a push. All have other times or series than those of every other push whose `now_ns` is
    /// at least a second apart.
    pub fn rows(self, first_id: u64, now_ns: i64) -> Vec<Row> {
        let tick = self.tick_ns();
        let now = (now_ns - self.late_ns()) / tick * tick;
        let row = |n: u64| {
            let (at_ns, series) = match self {
                // One for each path.
                Self::Points => (now, n as u32),
                _ => (now + n as i64 * tick, 0),
            };
            Row { at_ns, series, id: first_id + n }
        };
        (0..ROWS).map(row).collect()
    }

    /// The push of rows.
    pub fn push(self, rows: &[Row]) -> Request {
        match self {
            Self::Lines | Self::LateLines => {
                let values: Vec<Value> =
                    rows.iter().map(|row| json!([row.at_ns.to_string(), line(row)])).collect();
                let stream = json!({"job": "chaos", "stream": self.name()});
                let body = json!({"streams": [{"stream": stream, "values": values}]});
                Request::post("/loki/api/v1/push", &JSON, body.to_string().into())
            }
            Self::OtlpLines => {
                let record = |row: &Row| {
                    let body = json!({"stringValue": line(row)});
                    json!({"timeUnixNano": row.at_ns.to_string(), "body": body})
                };
                let records: Vec<Value> = rows.iter().map(record).collect();
                let scopes = json!([{"scope": {}, "logRecords": records}]);
                let body = json!({"resourceLogs": [{"resource": resource(self), "scopeLogs": scopes}]});
                Request::post("/otlp/v1/logs", &JSON, body.to_string().into())
            }
            Self::OtlpSamples => {
                let point =
                    |row: &Row| json!({"timeUnixNano": row.at_ns.to_string(), "asDouble": row.id as f64});
                let points: Vec<Value> = rows.iter().map(point).collect();
                let metric = json!({"name": OTLP_SAMPLES, "gauge": {"dataPoints": points}});
                let scopes = json!([{"scope": {}, "metrics": [metric]}]);
                let body = json!({"resourceMetrics": [{"resource": resource(self), "scopeMetrics": scopes}]});
                Request::post("/otlp/v1/metrics", &JSON, body.to_string().into())
            }
            Self::Samples => remote_write(rows),
            Self::Points => {
                let point =
                    |row: &Row| format!("{POINTS}{} {} {}\n", row.series, row.id, row.at_ns / SECOND_NS);
                let text: String = rows.iter().map(point).collect();
                Request::post("/graphite/carbon", &[("Content-Type", "text/plain")], text.into())
            }
        }
    }
}

fn line(row: &Row) -> String {
    format!("row={} of a run under faults", row.id)
}

/// The id in a line.
pub fn id_of(line: &str) -> Option<u64> {
    line.strip_prefix("row=")?.split(' ').next()?.parse().ok()
}

fn resource(signal: Signal) -> Value {
    json!({"attributes": [{"key": "service.name", "value": {"stringValue": signal.name()}}]})
}

fn remote_write(rows: &[Row]) -> Request {
    let mut message = Vec::new();
    let samples = rows.iter().map(|row| (row.at_ns / MS_NS, row.id as f64));
    prometheus::series(&mut message, [("__name__", SAMPLES), ("job", "chaos")], samples);
    // Compressing in memory fails only for more than 4 GiB.
    let body = snap::raw::Encoder::new().compress_vec(&message).unwrap_or_default();
    let headers = [
        ("Content-Type", "application/x-protobuf"),
        ("Content-Encoding", "snappy"),
        ("X-Prometheus-Remote-Write-Version", "0.1.0"),
    ];
    Request::post("/api/v1/write", &headers, body)
}

/// The wall clock in nanoseconds since the epoch.
#[allow(clippy::disallowed_methods)] // real time, outside of the product
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
