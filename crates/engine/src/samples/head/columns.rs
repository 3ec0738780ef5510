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

    /// Keeps the samples of these times.
    pub(crate) fn retain(&mut self, keep: impl Fn(i64) -> bool) {
        let mut kept = 0;
        for row in 0..self.timestamps.len() {
            if keep(self.timestamps[row]) {
                (self.timestamps[kept], self.values[kept]) = (self.timestamps[row], self.values[row]);
                if !self.starts.is_empty() {
                    self.starts[kept] = self.starts[row];
                }
                kept += 1;
            }
        }
        self.timestamps.truncate(kept);
        self.values.truncate(kept);
        self.starts.truncate(kept);
        self.histograms.retain(|sample| keep(sample.timestamp));
    }
}
