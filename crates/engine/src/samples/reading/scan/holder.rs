//! Where a scan finds series: a block or a head, with the series that match.

use std::sync::Arc;

use crate::samples::OpenSamples;
use crate::samples::head::SelectedSeries;
use crate::samples::hidden::HiddenSamples;
use crate::samples::index::IndexReader;

/// Bytes of a series of a batch in addition to its samples and labels.
pub(super) const SERIES_BYTES: u64 = 200;

/// A block or a head, with its matching series.
pub(super) enum Holder {
    Block { block: Arc<OpenSamples>, hidden: HiddenSamples },
    Head { series: Arc<SelectedSeries> },
}

impl Holder {
    /// A block of which only labels are read.
    pub(super) fn of_labels(index: &IndexReader) -> Self {
        Self::Block { block: Arc::clone(index.block()), hidden: HiddenSamples::default() }
    }
}
