//! What a piece of work concerns, as a hash.

use sandur_base::Id;
use sandur_model::{Dataset, TimeRange};
use xxhash_rust::xxh3::xxh3_64;

/// The version of the function. It is part of every hash.
pub const PLACEMENT_VERSION: u8 = 1;

/// Number of slots among which keys are divided. With 50 nodes a node has 328 of them on average, and plain
/// rendezvous hashing would miss this by 6 % (one standard deviation).
pub const SLOTS: usize = 1 << 14;

/// Kinds of keys. The numbers are part of the hash.
const WINDOW: u8 = 1;
const SHARD: u8 = 2;
const WRITER: u8 = 3;
const NAME: u8 = 4;

/// A key of placement: equal for equal work on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceKey(u64);

impl PlaceKey {
    /// The key of work on all rows of a dataset in a window.
    pub fn of_window(dataset: &Dataset, window: TimeRange) -> Self {
        Self::of(WINDOW, dataset, window, 0)
    }

    /// The key of work on one virtual shard of a window: the highest eight bits of the hash of a stream's or
    /// series' labels.
    pub fn of_shard(dataset: &Dataset, window: TimeRange, shard: u8) -> Self {
        Self::of(SHARD, dataset, window, shard)
    }

    /// The key of the adoption of a writer.
    pub fn of_writer(incarnation: Id) -> Self {
        Self::hash(WRITER, &incarnation.to_bytes())
    }

    /// The key of work that has a name, such as a group of rules.
    pub fn of_name(name: &str) -> Self {
        Self::hash(NAME, name.as_bytes())
    }

    fn of(kind: u8, dataset: &Dataset, window: TimeRange, shard: u8) -> Self {
        let mut bytes = window.start.to_le_bytes().to_vec();
        bytes.push(shard);
        bytes.extend_from_slice(dataset.signal.as_str().as_bytes());
        // Names of signals and tenants contain no zero byte.
        bytes.push(0);
        bytes.extend_from_slice(dataset.tenant.as_str().as_bytes());
        Self::hash(kind, &bytes)
    }

    fn hash(kind: u8, rest: &[u8]) -> Self {
        let mut bytes = vec![PLACEMENT_VERSION, kind];
        bytes.extend_from_slice(rest);
        Self(xxh3_64(&bytes))
    }

    /// The slot of the key.
    pub fn slot(self) -> usize {
        (self.0 >> (u64::BITS - SLOTS.trailing_zeros())) as usize
    }
}
