//! What a flush asks of a signal: a block of a head's rows, computed in steps.
//!
//! A step runs on the CPU pool for some tens of milliseconds, so that queries get their turn; its output
//! goes to the store before the next one begins. No step waits for anything.

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_model::TimeRange;

/// Raw bytes of a step.
pub(crate) const STEP_BYTES: u64 = 4 << 20;

/// One block to be written.
pub(crate) trait Plan: Send {
    /// The window that it belongs to.
    fn window(&self) -> TimeRange;

    /// Bytes of its rows before they are encoded, duplicates included.
    fn raw_bytes(&self) -> u64;

    /// Begins the block.
    fn begin(self: Box<Self>, origin: BlockOrigin) -> Result<Box<dyn Assembly>, FormatError>;
}

/// A block that is being written.
pub(crate) trait Assembly: Send {
    /// Writes some rows; `out` receives bytes for the store. `None` while there is more to do.
    fn step(&mut self, out: &mut Vec<Bytes>) -> Result<Option<Assembled>, FormatError>;
}

/// A complete block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assembled {
    /// What it holds.
    pub(crate) summary: BlockSummary,
    /// Rows left out because they were there already.
    pub(crate) duplicates: u64,
}

/// What fails when a block is asked for more rows after its end.
pub(crate) const ENDED: FormatError = FormatError::Misuse("a block that is complete was continued");
