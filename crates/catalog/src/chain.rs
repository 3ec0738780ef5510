//! The chain of entries: each entry holds the checksum of the entry before it.
//!
//! The author of entry `n` has verified entry `n - 1` before it creates `n`, and an entry above the
//! boundary is never rewritten. So if an entry that a verified reader reads does not hold the checksum of
//! the one before it, one of the two was lost, swapped, edited, or restored from another time. That is
//! damage and not a rejection: no later entry can be trusted.
//!
//! A snapshot keeps the checksums of its last entries, so that it can be compared with witnesses
//! (`witness.rs`) and with the footers of blocks: these must have seen the same log, and no more of it
//! than exists.

use std::sync::Arc;

use sandur_format::catalog_entry::{CHAIN_LENGTH_MAX, LogChain, LogPosition};

use crate::snapshot::Snapshot;

/// The end of the chain at a snapshot's number. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain(Arc<LogChain>);

/// The result of comparing a snapshot with a place in the log that a process has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionCheck {
    /// The snapshot contains that place.
    Contained,
    /// The snapshot reaches that place, but no longer has its checksum.
    Unknown,
    /// That place is after the snapshot's end.
    Beyond,
    /// At that place the snapshot's log has another entry: the logs differ.
    Differs,
}

impl Chain {
    pub fn new(chain: LogChain) -> Self {
        Self(Arc::new(chain))
    }

    pub fn get(&self) -> &LogChain {
        &self.0
    }

    /// Returns the checksum of the last entry; 0 when it is not known or there is no entry.
    pub fn last(&self) -> u64 {
        self.0.checksums.back().copied().unwrap_or(0)
    }

    /// Appends the entry with the checksum `checksum`, which holds `before` as the checksum of the entry
    /// before it. Returns false, and changes nothing, if that does not match. `number` is the number of
    /// the entry before.
    pub fn follow(&mut self, number: u64, before: Option<u64>, checksum: u64) -> bool {
        let known = self.last();
        let is_next = match before {
            // Two kinds of authors cannot know the entry before: programs from before the chain, and
            // processes that had loaded only a checkpoint.
            None | Some(0) => !self.0.linked,
            Some(found) => found == known || (known == 0 && number > 0),
        };
        if is_next {
            let chain = Arc::make_mut(&mut self.0);
            chain.linked |= before.is_some();
            if chain.checksums.len() == CHAIN_LENGTH_MAX {
                chain.checksums.pop_front();
            }
            chain.checksums.push_back(checksum);
        }
        is_next
    }
}

impl Snapshot {
    /// Returns the position of the snapshot in the log.
    pub fn position(&self) -> LogPosition {
        LogPosition { number: self.number, checksum: self.chain.last() }
    }

    /// Returns the checksum of an entry, if the snapshot still has it.
    pub(crate) fn checksum_at(&self, number: u64) -> Option<u64> {
        let checksums = &self.chain.get().checksums;
        let back = self.number.checked_sub(number)?;
        let at = (checksums.len() as u64).checked_sub(back + 1)?;
        checksums.get(at as usize).copied()
    }

    /// Compares the snapshot with a place in the log that a process has seen.
    pub fn compare(&self, seen: LogPosition) -> PositionCheck {
        if seen.number > self.number {
            return PositionCheck::Beyond;
        }
        match self.checksum_at(seen.number) {
            Some(checksum) if seen.checksum != 0 && checksum == seen.checksum => PositionCheck::Contained,
            Some(_) if seen.checksum != 0 => PositionCheck::Differs,
            _ => PositionCheck::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_begins_after_old_entries_and_has_no_gap() {
        let mut chain = Chain::default();
        assert!(chain.follow(0, None, 11), "an entry of version 1");
        assert!(chain.follow(1, None, 12));
        assert!(!chain.clone().follow(2, Some(99), 13), "it names another one");
        assert!(chain.clone().follow(2, Some(0), 13), "its author knew only a checkpoint");
        assert!(chain.follow(2, Some(12), 13));
        for (before, what) in [(None, "version 1 again"), (Some(0), "no name"), (Some(11), "a swapped one")] {
            assert!(!chain.clone().follow(3, before, 14), "{what}");
        }
        assert!(chain.follow(3, Some(13), 14));
        // From a checkpoint older than the chain, which does not hold the last checksum.
        assert!(Chain::default().follow(500, Some(77), 78));
        assert!(!Chain::default().follow(0, Some(77), 78), "nothing is before the first entry");
    }

    #[test]
    fn positions_are_compared_with_the_remembered_checksums() {
        let checksums = (100..100 + CHAIN_LENGTH_MAX as u64).collect();
        let chain = Chain::new(LogChain { linked: true, checksums });
        let mut state = Snapshot { number: 10_000, chain, ..Snapshot::default() };
        let last = 99 + CHAIN_LENGTH_MAX as u64;
        let seen = |number, checksum| LogPosition { number, checksum };
        assert_eq!(state.position(), seen(10_000, last));
        for (seen, expected) in [
            (seen(10_000, last), PositionCheck::Contained),
            (seen(9_999, last - 1), PositionCheck::Contained),
            (seen(9_999, last), PositionCheck::Differs),
            (seen(10_000, 0), PositionCheck::Unknown),
            (seen(10_001, last), PositionCheck::Beyond),
            (seen(10_001, 0), PositionCheck::Beyond),
            (seen(10_001 - CHAIN_LENGTH_MAX as u64, 100), PositionCheck::Contained),
            (seen(10_000 - CHAIN_LENGTH_MAX as u64, 99), PositionCheck::Unknown),
            (seen(0, 0), PositionCheck::Unknown),
        ] {
            assert_eq!(state.compare(seen), expected, "{seen:?}");
        }
        assert!(state.chain.follow(10_000, Some(last), 5));
        assert_eq!(state.chain.get().checksums.len(), CHAIN_LENGTH_MAX, "older checksums are dropped");
    }
}
