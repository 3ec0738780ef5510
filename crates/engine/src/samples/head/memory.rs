//! What samples cost in memory on their way into a head and in it.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use sandur_model::{Labels, SampleBatch};

use super::beside::{exemplar_bytes, metadata_bytes};
use super::symbols::{PAIR_BYTES, SYMBOL_BYTES};
use crate::samples::SAMPLE_BYTES;

/// Bytes that a series takes beside its labels and its samples: itself, its place in the list and the map.
pub(super) const SERIES_BYTES: u64 = 192;
/// The most that the column of a series takes beyond its samples: room to grow, and rows of unusual times.
const COLUMN_BYTES: u64 = 8 * SAMPLE_BYTES + 64;

/// Bytes that a batch takes on its way into a head, were all of its series new: the batch, its form in the
/// WAL, and what the head keeps of it.
pub fn push_bytes(batch: &SampleBatch) -> u64 {
    let rows = batch.rows() as u64;
    let sent = batch.memory_bytes() + rows * SAMPLE_BYTES;
    // A sample of an unusual time takes 24 bytes, and a column that doubles twice that.
    let kept = rows * SAMPLE_BYTES * 3;
    let exemplars = batch.exemplars.iter().map(|of| exemplar_bytes(&of.exemplar));
    let beside: u64 = exemplars.chain(batch.metadata.iter().map(metadata_bytes)).sum();
    sent + kept + series_bytes(batch) + 2 * beside
}

/// The most that the series of a batch take. A string that stands at the same place in the series before
/// is counted there: senders mostly sort.
fn series_bytes(batch: &SampleBatch) -> u64 {
    let mut names: HashSet<&str, RandomState> = HashSet::default();
    let mut before: Option<&Labels> = None;
    let mut bytes = 0;
    for series in &batch.series {
        let labels: &Labels = &series.labels;
        bytes += SERIES_BYTES + COLUMN_BYTES + labels.len() as u64 * PAIR_BYTES;
        let mut known = before.into_iter().flat_map(Labels::iter);
        for (name, value) in labels.iter() {
            let same_place = known.next();
            if same_place.is_none_or(|(known, _)| known != name) && names.insert(name) {
                bytes += SYMBOL_BYTES + name.len() as u64;
            }
            if same_place.is_none_or(|(_, known)| known != value) {
                bytes += SYMBOL_BYTES + value.len() as u64;
            }
        }
        before = Some(labels);
    }
    bytes
}
