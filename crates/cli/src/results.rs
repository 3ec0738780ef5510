//! Parses answers of Loki's API.

use std::collections::BTreeMap;

use sandur_terminal::{Failed, counted};
use serde::Deserialize;

/// A label set.
pub type LabelMap = BTreeMap<String, String>;

/// The body of an answer to a query.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// The result.
    pub data: Data,
    /// Warnings, for example that data is missing.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The result by its type.
#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
pub enum Data {
    /// Rows of a log query.
    Streams(Vec<Stream>),
    /// Series over time.
    Matrix(Vec<MatrixSeries>),
    /// Series at one instant.
    Vector(Vec<VectorSeries>),
    /// A number.
    Scalar((f64, String)),
}

impl Data {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Streams(streams) => streams.iter().all(|s| s.values.is_empty()),
            Self::Matrix(series) => series.is_empty(),
            Self::Vector(series) => series.is_empty(),
            Self::Scalar(_) => false,
        }
    }

    /// The size of the result: `12 lines`, `3 series`.
    pub fn size_in_words(&self) -> String {
        match self {
            Self::Streams(streams) => {
                let lines = streams.iter().map(|s| s.values.len() as u64).sum::<u64>();
                counted(lines, "line", "lines")
            }
            Self::Matrix(series) => format!("{} series", series.len()),
            Self::Vector(series) => format!("{} series", series.len()),
            Self::Scalar(_) => "a number".to_owned(),
        }
    }
}

/// Entries with the same labels.
#[derive(Debug, Deserialize)]
pub struct Stream {
    /// All labels.
    pub stream: LabelMap,
    /// Timestamp in nanoseconds and line.
    pub values: Vec<(String, String)>,
}

/// One series of a matrix.
#[derive(Debug, Deserialize)]
pub struct MatrixSeries {
    /// Labels.
    pub metric: LabelMap,
    /// Timestamps in seconds, and values.
    pub values: Vec<(f64, String)>,
}

/// One series of a vector.
#[derive(Debug, Deserialize)]
pub struct VectorSeries {
    /// Labels.
    pub metric: LabelMap,
    /// Timestamp in seconds, and value.
    pub value: (f64, String),
}

/// Parses the body of an answer.
pub fn read(body: &[u8]) -> Result<Answer, Failed> {
    serde_json::from_slice(body).map_err(|e| Failed::new(format!("the server's answer cannot be read: {e}")))
}
