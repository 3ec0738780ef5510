//! Reads of values by key with unequal popularity, as a cache in front of a key-value store gets them.

use crate::draws::{Draws, Zipf, mix};
use sandur_cache::Hint;
use sandur_cache::model::{Kind, Request};

/// The parameters of the reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValues {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of keys that are read repeatedly.
    pub keys: u32,
    /// Skew of the popularity: a key's share of reads is proportional to rank^-skew.
    pub skew: f64,
    /// Share of reads of keys that are read only once.
    pub once_share: f64,
    /// Bytes of each value.
    pub value_bytes: u32,
}

impl KeyValues {
    /// Generates the reads, a hundred per second.
    pub fn generate(&self) -> impl Iterator<Item = Request> + use<> {
        let Self { seed, reads, once_share, value_bytes: bytes, .. } = *self;
        let popularity = Zipf::new(self.keys as usize, self.skew);
        let mut draws = Draws::new(seed);
        (0..reads).map(move |number| {
            let is_once = draws.unit() < once_share;
            // The numbers of keys that are read once begin above those of all others.
            let key = if is_once { number | 1 << 63 } else { popularity.draw(&mut draws) };
            let (hash, at_s) = (mix(seed ^ mix(key)), (number / 100) as u32);
            Request { at_s, hash, bytes, kind: Kind::Read, hint: Hint::Point, tenant: 0 }
        })
    }

    /// Bytes of all keys that are read repeatedly.
    pub fn bytes(&self) -> u64 {
        u64::from(self.keys) * u64::from(self.value_bytes)
    }
}
