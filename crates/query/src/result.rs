//! What a query answers, before any wire format.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::Labels;

/// One row of a log query's answer. Labels are kept by origin, so that a client can have them apart
/// (`categorize-labels`) or merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// The line after all stages. Usually UTF-8, but clients may have pushed any bytes.
    pub line: Bytes,
    /// Labels of the stream that are left after all stages.
    pub stream: Arc<Labels>,
    /// Structured metadata that is left after all stages, `detected_level` included.
    pub metadata: Arc<Labels>,
    /// Labels made by parsers and formatters; an empty value is possible here, so these are plain pairs
    /// sorted by name.
    pub parsed: Arc<Vec<(Box<str>, Box<str>)>>,
}

/// One value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// The value.
    pub value: f64,
}

/// Name and value pairs sorted by name; a value may be empty.
pub type SeriesLabels = Arc<Vec<(Box<str>, Box<str>)>>;

/// One series of a metric answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels.
    pub labels: SeriesLabels,
    /// By time, which rises unless `label_replace` made series equal; exactly one for an instant query.
    pub samples: Vec<Sample>,
}

/// The answer of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult {
    /// Rows of a log query in the order of its direction, at most its limit.
    Streams(Vec<LogRow>),
    /// Series over the steps of a range query.
    Matrix(Vec<Series>),
    /// Series with one sample each, of an instant query.
    Vector(Vec<Series>),
    /// A number.
    Scalar(Sample),
}
