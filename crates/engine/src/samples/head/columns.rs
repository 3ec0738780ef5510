//! The samples of one series as columns.

use sandur_model::HistogramSample;

/// Samples of one series by ascending time, each time once: floats in columns, and histograms.
#[derive(Clone, Debug, Default)]
pub struct SampleColumns {
    /// Times of floats, in milliseconds since the epoch.
    pub timestamps: Vec<i64>,
    /// Values, one for each time.
    pub values: Vec<f64>,
    /// For each float, when counting began, in milliseconds since the epoch; 0 if unknown. Empty if all
    /// are unknown.
    pub starts: Vec<i64>,
    /// Histograms. Their times differ from those of floats.
    pub histograms: Vec<HistogramSample>,
}

impl SampleColumns {
    /// Number of samples.
    pub fn rows(&self) -> usize {
        self.timestamps.len() + self.histograms.len()
    }
}
