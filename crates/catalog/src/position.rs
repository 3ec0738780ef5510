//! Compares a snapshot with places in the log that a process has seen.

use sandur_format::catalog_entry::LogPosition;

use crate::snapshot::Snapshot;

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
    use sandur_format::catalog_entry::{CHAIN_LENGTH_MAX, LogChain};

    use super::*;
    use crate::chain::Chain;

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
