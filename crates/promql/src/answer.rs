//! Answers of queries: values with warnings and statistics.

use std::sync::Arc;

use sandur_memory::job::JobMemory;
use sandur_model::{FloatHistogram, Labels};

/// A sample of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// A number.
    Float(f64),
    /// A histogram.
    Histogram(Arc<FloatHistogram>),
}

/// A series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The labels.
    pub labels: Labels,
    /// Timestamps in milliseconds, with floats.
    pub floats: Vec<(i64, f64)>,
    /// Timestamps in milliseconds, with histograms.
    pub histograms: Vec<(i64, Arc<FloatHistogram>)>,
}

/// The value of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Scalar(f64),
    /// A string.
    String(String),
    /// Series at an instant.
    Vector(Vec<(Labels, Point)>),
    /// Series over time, sorted by labels.
    Matrix(Vec<Series>),
}

/// An answer with its warnings and statistics.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The value.
    pub value: Value,
    /// Warnings, with their places in the query.
    pub warnings: Vec<String>,
    /// Infos, with their places in the query.
    pub infos: Vec<String>,
    /// The number of samples that were read.
    pub samples: u64,
    /// The reservation for the answer in the query's budget, held until the last copy is dropped.
    pub memory: Arc<JobMemory>,
}
