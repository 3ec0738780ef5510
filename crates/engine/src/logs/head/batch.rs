//! A batch in a head, together with the reservation of its memory.
//!
//! The reservation is released with the batch. If a reader still uses a batch of a flushed head, its
//! memory stays counted.

use sandur_memory::Reservation;
use sandur_model::LogBatch;

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
