//! A batch of samples: those of one request of one tenant, on their way to the WAL and the head.
//!
//! Samples of all series lie in two columns. Values are compared and kept by their bits: a stale marker is a
//! NaN that differs from other NaNs in its bits alone.

use std::ops::Range;
use std::sync::Arc;

use crate::labels::{Labels, StreamId};
use crate::tenant::TenantId;

/// The bits of the value that marks the end of a series.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Whether a value marks the end of a series. Looked at by bits: arithmetic would change them.
#[inline]
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_BITS
}

/// The samples of one series of a batch, in the order they were sent.
#[derive(Clone, Debug)]
pub struct SeriesSamples {
    /// The series' identity: `labels.stream_id()`.
    pub id: StreamId,
    /// The series' labels, the metric's name as `__name__`.
    pub labels: Arc<Labels>,
    /// Where its samples are in the columns of the batch.
    pub samples: Range<u32>,
}

/// The accepted samples of one request. A series may appear more than once.
#[derive(Clone, Debug)]
pub struct SampleBatch {
    /// Whose data it is.
    pub tenant: TenantId,
    /// Milliseconds since the epoch.
    pub timestamps: Vec<i64>,
    /// Values, one for each timestamp.
    pub values: Vec<f64>,
    /// The series; together they name every sample once, in order.
    pub series: Vec<SeriesSamples>,
}

impl SampleBatch {
    /// An empty batch.
    pub fn new(tenant: TenantId) -> Self {
        Self { tenant, timestamps: Vec::new(), values: Vec::new(), series: Vec::new() }
    }

    /// Adds samples (milliseconds since the epoch, value) of a series.
    pub fn push(&mut self, labels: Arc<Labels>, samples: impl IntoIterator<Item = (i64, f64)>) {
        let start = self.timestamps.len() as u32;
        for (timestamp, value) in samples {
            self.timestamps.push(timestamp);
            self.values.push(value);
        }
        let samples = start..self.timestamps.len() as u32;
        self.series.push(SeriesSamples { id: labels.stream_id(), labels, samples });
    }

    /// The samples of a series of the batch.
    pub fn samples_of(
        &self,
        series: &SeriesSamples,
    ) -> impl ExactSizeIterator<Item = (i64, f64)> + Clone + '_ {
        let rows = series.samples.start as usize..series.samples.end as usize;
        self.timestamps[rows.clone()].iter().copied().zip(self.values[rows].iter().copied())
    }

    /// Number of samples.
    pub fn rows(&self) -> usize {
        self.timestamps.len()
    }

    /// First and last timestamp in nanoseconds since the epoch; `None` when there is no sample.
    pub fn time_bounds(&self) -> Option<(i64, i64)> {
        let (first, last) = (self.timestamps.iter().min()?, self.timestamps.iter().max()?);
        Some((first.saturating_mul(crate::MILLISECOND_NS), last.saturating_mul(crate::MILLISECOND_NS)))
    }

    /// Bytes that the batch holds in memory, for budgets.
    pub fn memory_bytes(&self) -> u64 {
        let series = self.series.len() * size_of::<SeriesSamples>();
        (series + self.rows() * (size_of::<i64>() + size_of::<f64>())) as u64
    }
}
