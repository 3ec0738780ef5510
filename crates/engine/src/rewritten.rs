//! What became of blocks that were to be rewritten: for deletes, for retention, as rollups.

use sandur_base::Id;

use crate::retention::ExpiredRows;

/// What became of a block that was to be cleaned.
pub(crate) enum Cleaned {
    /// It holds no line of the requests that were started by entries up to `through`.
    Untouched {
        /// Number of an entry.
        through: u64,
    },
    /// It was replaced by one without these lines.
    Rewritten,
    /// Nothing was done: its lines stay hidden.
    LeftAlone {
        /// Why.
        why: &'static str,
    },
}

/// What became of a block that may have series that are kept no longer.
pub(crate) enum Expired {
    /// They are too few.
    Stays,
    /// It is damaged or missing, and left alone for a while.
    Damaged,
    /// It was replaced by one without these rows.
    Rewritten {
        /// The rows.
        rows: ExpiredRows,
        /// The new block.
        into: Id,
    },
    /// It left the catalog with all its rows.
    Removed {
        /// The rows.
        rows: ExpiredRows,
    },
}

/// What became of blocks whose points were to become rollups.
pub(crate) enum Rolled {
    /// It is not worth it.
    Stays,
    /// What would be left is too large for one block.
    TooLarge,
    /// One of them is damaged or missing, and left alone for a while.
    Damaged,
    /// Some of them had rows of several slots, and are one block per slot now: these are rolled next.
    Cut {
        /// How many.
        blocks: u64,
    },
    /// One block stands for them.
    Rewritten {
        /// That block.
        into: Id,
        /// Rows that there were.
        rows: u64,
        /// About how many they became less.
        less: u64,
    },
}
