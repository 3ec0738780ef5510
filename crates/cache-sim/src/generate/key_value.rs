//! Reads of values by key, some keys much more often than others, as before a key-value store.

use crate::draws::{Draws, Zipf, mix};
use sandur_cache::Hint;
use sandur_cache::model::{Kind, Request};

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeyValues {
    /// Seed of everything drawn.
    pub seed: u64,
    /// Reads in total.
    pub reads: u64,
    /// Keys that are read again and again.
    pub keys: u32,
    /// How unequal they are: a key's share of reads falls as its rank to the minus this.
    pub skew: f64,
    /// Part of the reads that are of keys that are not read a second time.
    pub once_share: f64,
    /// Bytes of each value.
    pub value_bytes: u32,
}

impl KeyValues {
    /// Its reads, a hundred in a second.
    pub fn generate(&self) -> impl Iterator<Item = Request> + use<> {
        let Self { seed, reads, once_share, value_bytes: bytes, .. } = *self;
        let popularity = Zipf::new(self.keys as usize, self.skew);
        let mut draws = Draws::new(seed);
        (0..reads).map(move |number| {
            let is_once = draws.unit() < once_share;
            // Numbers of single keys begin where those of others cannot be.
            let key = if is_once { number | 1 << 63 } else { popularity.draw(&mut draws) };
            let (hash, at_s) = (mix(seed ^ mix(key)), (number / 100) as u32);
            Request { at_s, hash, bytes, kind: Kind::Read, hint: Hint::Point, tenant: 0 }
        })
    }

    /// Bytes of all keys that are read again.
    pub fn bytes(&self) -> u64 {
        u64::from(self.keys) * u64::from(self.value_bytes)
    }
}
