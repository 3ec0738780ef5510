//! Samples of one series as columns.

use sandur_model::HistogramSample;

/// Samples of one series by rising time, each time once: floats in columns, and histograms.
#[derive(Clone, Debug, Default)]
pub struct SampleColumns {
    /// Times of floats, in milliseconds since the epoch.
    pub timestamps: Vec<i64>,
    /// Values, one for each.
    pub values: Vec<f64>,
    /// When counting began, for each float, 0 where it is not known; empty when it is never known.
    pub starts: Vec<i64>,
    /// Histograms, whose times are no times of floats.
    pub histograms: Vec<HistogramSample>,
}

impl SampleColumns {
    /// Number of samples.
    pub fn rows(&self) -> usize {
        self.timestamps.len() + self.histograms.len()
    }
}
