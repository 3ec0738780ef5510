//! Memory of a head: the cost of a batch.

use sandur_model::{LogBatch, StreamEntries};

use super::stream::StreamRows;

/// Bytes that a row may cost in addition to its batch: its position in the sorted order of its stream.
pub(super) const ROW_BYTES: u64 = 16;
/// Bytes that a row takes in a WAL frame in addition to its text.
pub(super) const WAL_ROW_BYTES: u64 = 16;
/// Bytes that a stream of a batch costs in addition to its entries: its piece and the shared batch.
pub(super) const PIECE_BYTES: u64 = 64;
/// Bytes that a new stream costs in addition to its labels: in the head, and in the plan of its flush,
/// where it has an entry in each block that is being written.
const STREAM_BYTES: u64 = 384 + size_of::<StreamRows>() as u64 + 16;
/// Bytes that one label costs in addition to its text: two boxed strings.
const LABEL_BYTES: u64 = 64;

/// An upper bound of the memory in bytes that a batch takes until it is in a head, as if all of its
/// streams were new: the batch, and its encoded form for the WAL.
pub fn push_bytes(batch: &LogBatch) -> u64 {
    let streams: u64 = batch.streams.iter().map(stream_bytes).sum();
    let text = batch.arena.compressed.as_ref().map_or(batch.arena.bytes.len(), |(_, bytes)| bytes.len());
    kept_bytes(batch) + streams + text as u64 + batch.rows() as u64 * WAL_ROW_BYTES
}

/// Bytes that a batch takes in a head, without those of new streams.
pub(super) fn kept_bytes(batch: &LogBatch) -> u64 {
    let compressed = batch.arena.compressed.as_ref().map_or(0, |(_, bytes)| bytes.len() as u64);
    let pieces = batch.streams.len() as u64 * PIECE_BYTES;
    batch.memory_bytes() - compressed + batch.rows() as u64 * ROW_BYTES + pieces
}

/// Bytes that a stream takes in a head.
pub(super) fn stream_bytes(stream: &StreamEntries) -> u64 {
    let labels = &stream.labels;
    STREAM_BYTES + labels.len() as u64 * LABEL_BYTES + labels.text_bytes() as u64
}
