//! The series of one block that a request for labels selected.

use roaring::RoaringBitmap;
use sandur_memory::Reservation;

use crate::samples::index::IndexReader;

/// Series of one block.
pub(super) struct InBlock {
    pub(super) index: IndexReader,
    pub(super) series: RoaringBitmap,
    /// The memory of `series`.
    pub(super) _memory: Reservation,
}
