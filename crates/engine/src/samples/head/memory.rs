//! The memory that samples take until they are in a head.

use sandur_model::{LabelText, Labels, SampleBatch, SeriesSamples};

use super::annotations::{exemplar_bytes, metadata_bytes};
use super::paths::{END_BYTES, NODE_BYTES};
use super::postings::{ENTRY_BYTES, NAME_BYTES};
use super::stamps::STAMP_BYTES;
use super::symbols::SYMBOL_BYTES;
use super::table::{LABEL_BYTES, SERIES_BYTES};

/// The most bytes that a float sample takes in its series, including spare capacity.
pub(super) const FLOAT_BYTES: u64 = 64;
/// Bytes of a histogram in its series, in addition to its parts, including spare capacity.
pub(super) const HISTOGRAM_BYTES: u64 = 128;
/// The most bytes of a label with a new name and value: two strings, a name and a value of the index, a
/// node of a path, and its entries in the series and in a list of names.
pub(super) const NEW_LABEL_BYTES: u64 =
    3 * LABEL_BYTES + 2 * SYMBOL_BYTES + ENTRY_BYTES + NAME_BYTES + NODE_BYTES;
/// Bytes of labels per byte of a path: each node has a label of its level, and the path is a
/// label as well.
pub(super) const NAME_GROWTH: u64 = 6;
/// Bytes of a series' list of names, if it is new, and of the end of its path.
pub(super) const SHAPE_BYTES: u64 = 112 + END_BYTES;

/// An upper bound of the memory in bytes that a batch takes until it is in a head, as if all of its
/// series and strings were new: the batch, its encoded form for the WAL, and what the head keeps of it.
/// Reads no texts, since most series are known.
pub fn push_bytes(batch: &SampleBatch) -> u64 {
    let sent = batch.memory_bytes() + batch.rows() as u64 * 8;
    let labels: u64 = batch.series.iter().map(|series| series.labels.count() as u64).sum();
    let series = batch.series.len() as u64 * (SERIES_BYTES + SHAPE_BYTES) + labels * NEW_LABEL_BYTES;
    let histograms: u64 = batch.histograms.iter().map(|sample| 2 * sample.histogram.memory_bytes()).sum();
    let floats = batch.timestamps.len() as u64 * FLOAT_BYTES;
    let rows = floats + batch.histograms.len() as u64 * HISTOGRAM_BYTES + histograms;
    let exemplars = batch.exemplars.iter().map(|of| exemplar_bytes(&of.exemplar));
    let annotations: u64 = exemplars.chain(batch.metadata.iter().map(metadata_bytes)).sum();
    sent + series + label_texts(batch) + rows + 2 * annotations + 2 * STAMP_BYTES
}

/// An upper bound of the bytes of all label texts. Texts that are parts of a body are counted by the
/// body's length.
fn label_texts(batch: &SampleBatch) -> u64 {
    match batch.label_text {
        LabelText::None => {
            let text = |series: &SeriesSamples| Labels::text_bytes(&series.labels) as u64;
            batch.series.iter().map(text).sum()
        }
        LabelText::Messages | LabelText::References { .. } => batch.arena.bytes.len() as u64,
        LabelText::Names => batch.arena.bytes.len() as u64 * NAME_GROWTH,
    }
}
