//! Lanes: groups of requests that share slots, a window, a pace and a retry budget.
//!
//! The class and the operation of a request determine its lane. Reads and writes of blocks have separate
//! lanes, so that many queries delay neither the WAL nor flushes.

use crate::intent::Class;
use crate::operation::Operation;

/// A group of requests that share slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Writes of the WAL: clients wait for the acknowledgement.
    Wal,
    /// Reads of the WAL: following other writers, and adopting dead ones.
    Follow,
    /// The catalog, without which nothing becomes visible.
    Catalog,
    /// Reads of blocks: queries and compaction.
    Read,
    /// Writes of blocks: flushes and compaction.
    Write,
    /// Garbage collection.
    Gc,
    /// Membership and the start-up probe.
    Other,
}

impl Lane {
    /// All lanes, in the order of their numbers.
    pub const ALL: [Lane; 7] =
        [Lane::Wal, Lane::Follow, Lane::Catalog, Lane::Read, Lane::Write, Lane::Gc, Lane::Other];

    pub(crate) fn of(class: Class, operation: Operation) -> Self {
        let reads = matches!(operation, Operation::Get | Operation::Head | Operation::List);
        match (class, reads) {
            (Class::Wal, true) => Self::Follow,
            (Class::Wal, false) => Self::Wal,
            (Class::Catalog, _) => Self::Catalog,
            (Class::Block, true) => Self::Read,
            (Class::Block, false) => Self::Write,
            (Class::Gc, _) => Self::Gc,
            (Class::Member | Class::Probe, _) => Self::Other,
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wal => "wal",
            Self::Follow => "follow",
            Self::Catalog => "catalog",
            Self::Read => "read",
            Self::Write => "write",
            Self::Gc => "gc",
            Self::Other => "other",
        }
    }

    /// Whether acknowledgements depend on it. Such a lane keeps its reserved slots while the store
    /// throttles, and only the common pace of small lanes delays it.
    pub fn is_urgent(self) -> bool {
        matches!(self, Self::Wal | Self::Catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_numbered_in_order_and_ingest_does_not_share_lanes_with_queries() {
        for (index, lane) in Lane::ALL.into_iter().enumerate() {
            assert_eq!(lane.index(), index);
        }
        assert_eq!(Lane::of(Class::Block, Operation::Get), Lane::Read);
        assert_eq!(Lane::of(Class::Block, Operation::Upload), Lane::Write);
        assert_eq!(Lane::of(Class::Wal, Operation::Create), Lane::Wal);
        assert_eq!(Lane::of(Class::Wal, Operation::Append), Lane::Wal);
        assert!(!Lane::of(Class::Wal, Operation::Get).is_urgent());
    }
}
