//! Memory of a head: what a batch costs, and the batch together with the reservation that pays for it.
//!
//! The reservation goes with the batch: a reader of a batch of a flushed head keeps it
//! counted.

use sandur_base::Reservation;
use sandur_model::{LogBatch, StreamEntries};

use super::stream::StreamRows;

/// Bytes that a row may cost beside its batch: its place in the sorted order of its stream.
pub(super) const ROW_BYTES: u64 = 16;
/// Bytes that a row takes in a WAL frame beside its text.
pub(super) const WAL_ROW_BYTES: u64 = 16;
/// Bytes that a stream of a batch costs beside its entries: its piece and the shared batch.
pub(super) const PIECE_BYTES: u64 = 64;
/// Bytes that a stream costs that the head has not seen yet, beside its labels: in the head, and in the
/// plan of the flush that makes blocks of it, where it has a place in each block that is being written.
const STREAM_BYTES: u64 = 384 + size_of::<StreamRows>() as u64 + 16;
/// Bytes that one label costs beside its text: two boxed strings.
const LABEL_BYTES: u64 = 64;

/// A batch in a head.
pub struct HeadBatch {
    batch: LogBatch,
    memory: Reservation,
}

impl HeadBatch {
    pub(super) fn new(batch: LogBatch, memory: Reservation) -> Self {
        Self { batch, memory }
    }

    /// The batch.
    pub fn batch(&self) -> &LogBatch {
        &self.batch
    }

    /// Bytes that are reserved for it.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.bytes()
    }
}

/// Bytes that a batch takes on its way into a head, were all of its streams new: the batch, and its form
/// in the WAL.
pub fn push_bytes(batch: &LogBatch) -> u64 {
    let streams: u64 = batch.streams.iter().map(stream_bytes).sum();
    let text = batch.arena.compressed.as_ref().map_or(batch.arena.bytes.len(), |(_, bytes)| bytes.len());
    kept_bytes(batch) + streams + text as u64 + batch.rows() as u64 * WAL_ROW_BYTES
}

/// Bytes that a batch takes in a head, without the streams that are new with it.
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
