//! Outcomes of rewriting blocks: for deletes, for retention, as rollups.

use sandur_base::Id;

use crate::policy::expired::ExpiredRows;

/// The outcome of cleaning a block of deleted rows.
pub(crate) enum Cleaned {
    /// It has no rows of the requests that were started by entries up to `through`.
    Untouched {
        /// Number of a catalog entry.
        through: u64,
    },
    /// It was replaced by a block without these rows.
    Rewritten,
    /// Nothing was done; its rows stay hidden.
    Skipped {
        /// The reason.
        why: &'static str,
    },
}

/// The outcome of removing expired series from a block.
pub(crate) enum Expired {
    /// Too few rows are expired to rewrite it.
    Stays,
    /// It is damaged or missing, and is skipped for a while.
    Damaged,
    /// It was replaced by a block without the expired rows.
    Rewritten {
        /// The removed rows.
        rows: ExpiredRows,
        /// The id of the new block.
        into: Id,
    },
    /// All of its rows are expired, so it was removed from the catalog.
    Removed {
        /// The removed rows.
        rows: ExpiredRows,
    },
}

/// The outcome of making rollups of blocks.
pub(crate) enum Rolled {
    /// Too few rows would be saved.
    Stays,
    /// The rows that would be left are too large for one block.
    TooLarge,
    /// One of the blocks is damaged or missing, and is skipped for a while.
    Damaged,
    /// Some blocks had rows of several slots or days and were cut; the parts are rolled later.
    Cut {
        /// The number of blocks that were cut.
        blocks: u64,
    },
    /// One block replaces them.
    Rewritten {
        /// The id of this block.
        into: Id,
        /// The number of rows before.
        rows: u64,
        /// About how many rows were saved.
        less: u64,
    },
}
