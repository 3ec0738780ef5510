//! The traits that a signal implements for a flush: a block of a head's rows, computed in steps.
//!
//! A step runs on the CPU pool for some milliseconds, so that queries run in between. Its output
//! is written to the store before the next step begins. A step never blocks.

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_format::catalog_entry::BlockForms;
use sandur_model::TimeRange;

/// Raw bytes that one step encodes.
pub(crate) const STEP_BYTES: u64 = 2 << 20;

/// A block to be written.
pub(crate) trait Plan: Send {
    /// The window of the block.
    fn window(&self) -> TimeRange;

    /// Raw bytes of its rows before encoding, duplicates included.
    fn raw_bytes(&self) -> u64;

    /// Begins to write the block, in a version that all processes read.
    fn begin(
        self: Box<Self>,
        origin: BlockOrigin,
        forms: BlockForms,
    ) -> Result<Box<dyn Assembly>, FormatError>;
}

/// A block that is being written.
pub(crate) trait Assembly: Send {
    /// Encodes some rows and appends bytes for the store to `out`. Returns `None` while more rows are left.
    fn step(&mut self, out: &mut Vec<Bytes>) -> Result<Option<Assembled>, FormatError>;

    /// Raw bytes of the rows that were encoded, of [`Plan::raw_bytes`].
    fn encoded_bytes(&self) -> u64;
}

/// A complete block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assembled {
    /// The summary of the block's content.
    pub(crate) summary: BlockSummary,
    /// Number of rows left out as duplicates.
    pub(crate) duplicates: u64,
}

/// The error of asking a complete block for more rows.
pub(crate) const ENDED: FormatError = FormatError::Misuse("a block that is complete was continued");
