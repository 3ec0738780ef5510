//! Detects duplicates among suspect rows: a set of 128-bit row hashes in reserved memory.
//!
//! The identity of a row is its stream, timestamp, line and structured metadata. The set contains only
//! rows that a run marks as suspect, so it is small compared to the data.

use std::collections::HashSet;

use foldhash::fast::FixedState;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::StreamId;
use xxhash_rust::xxh3::Xxh3;

use crate::error::Error;

/// Bytes of an entry of the set: a hash of 16 bytes and the unused part of the table.
const ENTRY_BYTES: u64 = 40;
/// Entries for which memory is reserved at once.
const STEP: u64 = 4096;

/// The rows that were seen so far.
pub struct SeenRows {
    hashes: HashSet<u128, FixedState>,
    reservation: Reservation,
}

impl SeenRows {
    /// An empty set that reserves its memory in `budget`.
    pub fn new(budget: &MemoryBudget) -> Result<Self, Error> {
        Ok(Self { hashes: HashSet::default(), reservation: budget.reserve(0)? })
    }

    /// The hash of a row. Metadata must be sorted by name.
    pub fn hash<'a>(
        stream: StreamId,
        timestamp: i64,
        line: &[u8],
        metadata: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> u128 {
        let mut hasher = Xxh3::new();
        hasher.update(&stream.0.to_le_bytes());
        hasher.update(&timestamp.to_le_bytes());
        hasher.update(&(line.len() as u64).to_le_bytes());
        hasher.update(line);
        for (name, value) in metadata {
            hasher.update(name.as_bytes());
            hasher.update(&[0xFF]); // never a byte of UTF-8 text
            hasher.update(value.as_bytes());
            hasher.update(&[0xFF]);
        }
        hasher.digest128()
    }

    /// Adds a row; returns whether it was not seen before.
    pub fn insert(&mut self, hash: u128) -> Result<bool, Error> {
        if (self.hashes.len() as u64 + 1) * ENTRY_BYTES > self.reservation.bytes() {
            self.reservation.grow(STEP * ENTRY_BYTES)?;
        }
        Ok(self.hashes.insert(hash))
    }

    /// The number of rows in the set.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(stream: u128, timestamp: i64, line: &str, metadata: &[(&'static str, &'static str)]) -> u128 {
        SeenRows::hash(StreamId(stream), timestamp, line.as_bytes(), metadata.iter().copied())
    }

    #[test]
    fn the_hash_depends_on_every_part_of_a_row() {
        let base = hash(1, 2, "a", &[("k", "v")]);
        assert_eq!(base, hash(1, 2, "a", &[("k", "v")]));
        for other in [
            hash(2, 2, "a", &[("k", "v")]),
            hash(1, 3, "a", &[("k", "v")]),
            hash(1, 2, "b", &[("k", "v")]),
            hash(1, 2, "a", &[("k", "w")]),
            hash(1, 2, "a", &[]),
            hash(1, 2, "ak", &[("", "v")]),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_row_is_new_once_and_memory_is_reserved() {
        let budget = MemoryBudget::root("query", 300 * 1024);
        let mut seen = SeenRows::new(&budget).unwrap();
        assert!(seen.insert(7).unwrap());
        assert!(!seen.insert(7).unwrap());
        assert!(budget.used() > 0);
        let refused = (0..20_000u128).find_map(|n| seen.insert(n << 64).err());
        assert!(matches!(refused, Some(Error::OverBudget(_))));
        drop(seen);
        assert_eq!(budget.used(), 0);
    }
}
