//! What is flushed, whether the WAL ends with it, and how a flush ended.

use std::sync::Arc;

use sandur_base::Id;

use crate::error::Error;
use crate::head::Head;

/// Whether the WAL of the flushed incarnation ends with the flushed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It continues.
    Open,
    /// It ends before this sequence number: the incarnation is sealed in the same commit.
    Sealed {
        /// The sequence number of the fence.
        fence: u64,
    },
}

/// How a flush ended.
#[derive(Clone, Debug)]
pub(crate) enum Flushed {
    /// All rows of the head are in our blocks.
    Committed,
    /// The rows that could be written are in our blocks. The floor stays, because rows of this head or
    /// of an earlier one are left.
    InPart {
        /// Why rows of this head are left; `None` if only earlier heads have rows left.
        failed: Option<Error>,
    },
    /// Another process moved the floor or sealed the incarnation, so this flush can commit nothing more.
    Overtaken,
}

/// A head that is being flushed.
pub(crate) struct HeadFlush {
    /// The incarnation that commits the blocks.
    pub(crate) author: Id,
    /// The part of the head whose rows are not committed.
    pub(crate) head: Arc<Head>,
    /// The floor of its writer when the flush began.
    pub(crate) floor: u64,
    pub(crate) ending: Ending,
}
