//! The samples of one series as columns.

use sandur_format::stamp::Stamp;
use sandur_model::HistogramSample;

/// Whether a reader of samples needs their stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It does.
    Yes,
    /// It does not.
    No,
}

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
    /// Stamps of floats; empty if they are not requested or no sample of the head has one.
    pub stamps: Vec<Stamp>,
    /// Stamps of histograms, likewise.
    pub histogram_stamps: Vec<Stamp>,
    /// The frames of floats, until their stamps are known.
    pub(super) frames: Vec<u32>,
    /// The frames of histograms, likewise.
    pub(super) histogram_frames: Vec<u32>,
}

impl SampleColumns {
    /// Number of samples.
    pub fn rows(&self) -> usize {
        self.timestamps.len() + self.histograms.len()
    }
}
