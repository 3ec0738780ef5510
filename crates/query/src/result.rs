//! The result of a query, independent of the wire format.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::Labels;

/// One row of the result of a log query. Labels are separated by origin, so that the response can list
/// them separately (`categorize-labels`) or merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// The line after all stages. Usually UTF-8, but clients may push any bytes.
    pub line: Bytes,
    /// Stream labels that remain after all stages.
    pub stream: Arc<Labels>,
    /// Structured metadata that remains after all stages, including `detected_level`.
    pub metadata: Arc<Labels>,
    /// Labels that parsers and formatters added, sorted by name; unlike [`Labels`], they may have empty
    /// values.
    pub parsed: Arc<Vec<(Box<str>, Box<str>)>>,
}

/// One value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// The value.
    pub value: f64,
}

/// Name and value pairs sorted by name; a value may be empty.
pub type SeriesLabels = Arc<Vec<(Box<str>, Box<str>)>>;

/// One series of the result of a metric query.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Labels of the series.
    pub labels: SeriesLabels,
    /// Samples by rising time (unless `label_replace` made two series equal); exactly one for an instant
    /// query.
    pub samples: Vec<Sample>,
}

/// The result of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult {
    /// Rows of a log query in the order of its direction, at most as many as its limit.
    Streams(Vec<LogRow>),
    /// Series with samples at the steps of a range query.
    Matrix(Vec<Series>),
    /// Series of an instant query, with one sample each.
    Vector(Vec<Series>),
    /// A single number.
    Scalar(Sample),
}
