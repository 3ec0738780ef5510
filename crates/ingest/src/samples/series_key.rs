//! The key of a series: a hash of the bytes that name it.
//!
//! **Invariant.** A table keeps only a part of a key, and the part determines the hash that the table
//! uses. So a table can grow without reading its entries.

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// A 128-bit hash with a secret seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey(u128);

/// The form of the bytes; part of the hash, because the same bytes may mean different labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum SeriesNaming {
    /// `Label` messages of remote write 1.
    LabelMessages = 1,
    /// Names and values, each followed by a byte 0xFF.
    Pairs = 2,
    /// Hashes of the symbols that the labels of remote write 2 refer to.
    Symbols = 3,
    /// The text of a series in an exposition, and the labels that the request adds.
    Exposition = 4,
    /// The name of a series as Graphite's senders write it.
    Graphite = 5,
}

impl SeriesKey {
    /// Returns the key of a series that these bytes name.
    #[inline]
    pub(super) fn of(seed: u64, naming: SeriesNaming, name: &[u8]) -> Self {
        Self(xxh3_128_with_seed(name, seed ^ naming as u64))
    }

    /// Returns the part of the key that a table keeps.
    #[inline]
    pub(super) fn part(self) -> u32 {
        self.0 as u32
    }

    /// Returns the hash that a table uses.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        hash_of_part(self.part())
    }
}

/// Returns the hash that a table uses, from the part of the key that it keeps.
#[inline]
pub(super) fn hash_of_part(part: u32) -> u64 {
    // The table selects a bucket by the lowest bits, and compares the highest seven bits within it.
    u64::from(part) | u64::from(part) << 32
}
