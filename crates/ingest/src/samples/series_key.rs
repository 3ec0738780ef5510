//! What the bytes that name a series are hashed to.
//!
//! **Invariant.** What a table keeps of a key, its part, tells the hash by which the table finds it: a table
//! that grows need not look at its entries.

use xxhash_rust::xxh3::xxh3_128_with_seed;

/// 128 bits of a hash with a secret seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey(u128);

/// What the bytes are; part of the hash, because the same bytes may mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum SeriesNaming {
    /// `Label` messages of remote write 1.
    LabelMessages = 1,
    /// Names and values, each with a byte 0xFF behind.
    Pairs = 2,
    /// Hashes of the symbols that remote write 2 refers to.
    Symbols = 3,
    /// The text of a series in an exposition, and the labels that the request adds.
    Exposition = 4,
    /// The name of a series as Graphite's senders write it.
    Graphite = 5,
}

impl SeriesKey {
    /// The key of a series that these bytes name.
    #[inline]
    pub(super) fn of(seed: u64, naming: SeriesNaming, name: &[u8]) -> Self {
        Self(xxh3_128_with_seed(name, seed ^ naming as u64))
    }

    /// What a table keeps of it.
    #[inline]
    pub(super) fn part(self) -> u32 {
        self.0 as u32
    }

    /// The hash by which a table finds its place.
    #[inline]
    pub(super) fn hash(self) -> u64 {
        hash_of_part(self.part())
    }
}

/// The hash by which a table finds a place, from the part of the key that it keeps.
#[inline]
pub(super) fn hash_of_part(part: u32) -> u64 {
    // The table takes its lowest bits for a bucket, and the highest seven to tell entries in it apart.
    u64::from(part) | u64::from(part) << 32
}
