//! Maps a key's 64-bit hash to a place in a slab: open addressing with linear probing, 8 bytes per cell.
//! The table holds no keys and no values, so growing and probing never touch them.
//!
//! **Invariants.** A cell is 0 (empty) or `tag << 32 | place + 1`. Every occupied cell can be reached from
//! its tag's home through occupied cells only. Removal closes the gap by moving later cells back, so there
//! are no tombstones and probes do not become longer with time. At most three quarters of the cells are
//! occupied: in that case a probe of an absent key looks at 8.5 cells on average, about one cache line.

use crate::prefetch::prefetch;

/// Smallest number of cells.
const CELLS_MIN: usize = 16;
/// 2^64 divided by the golden ratio: the multiplier of Fibonacci hashing (Knuth, TAOCP 3, 6.4).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The table. The caller compares keys: two keys may share a hash.
#[derive(Debug, Default)]
pub struct Table {
    cells: Vec<u64>,
    occupied: usize,
}

impl Table {
    /// An empty table with room for `places` places.
    pub fn with_room(places: usize) -> Self {
        let cells = (places * 4 / 3 + 1).next_power_of_two().max(CELLS_MIN);
        Self { cells: vec![0; cells], occupied: 0 }
    }

    /// The place stored under `hash` for which `is` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.occupied == 0 {
            return None;
        }
        let tag = tag(hash);
        let mask = self.cells.len() - 1;
        let mut at = tag as usize & mask;
        loop {
            let cell = self.cells[at];
            if cell == 0 {
                return None;
            }
            if (cell >> 32) as u32 == tag {
                let place = cell as u32 - 1;
                if is(place) {
                    return Some(place);
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Prefetches the cells in which the lookup of `hash` begins.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if self.occupied > 0 {
            let home = tag(hash) as usize & (self.cells.len() - 1);
            prefetch(&raw const self.cells[home], size_of::<u64>());
        }
    }

    /// Adds `place`, which must be below `u32::MAX` and not in the table.
    pub fn insert(&mut self, hash: u64, place: u32) {
        if (self.occupied + 1) * 4 > self.cells.len() * 3 {
            self.grow();
        }
        let tag = tag(hash);
        self.put(u64::from(tag) << 32 | u64::from(place + 1));
        self.occupied += 1;
    }

    /// Removes `place`; `false` if it is not in the table.
    pub fn remove(&mut self, hash: u64, place: u32) -> bool {
        if self.occupied == 0 {
            return false;
        }
        let wanted = u64::from(tag(hash)) << 32 | u64::from(place + 1);
        let mask = self.cells.len() - 1;
        let mut at = tag(hash) as usize & mask;
        while self.cells[at] != wanted {
            if self.cells[at] == 0 {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.close_gap(at);
        self.occupied -= 1;
        true
    }

    /// Empties the table and keeps its cells.
    pub fn clear(&mut self) {
        self.cells.fill(0);
        self.occupied = 0;
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        self.cells.capacity() * size_of::<u64>()
    }

    fn put(&mut self, cell: u64) {
        let mask = self.cells.len() - 1;
        let mut at = (cell >> 32) as usize & mask;
        while self.cells[at] != 0 {
            at = (at + 1) & mask;
        }
        self.cells[at] = cell;
    }

    /// Moves back every later cell of the run that may be at `gap` or between it and its home.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.cells.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let cell = self.cells[at];
            if cell == 0 {
                break;
            }
            let home = (cell >> 32) as usize & mask;
            let from_home = at.wrapping_sub(home) & mask;
            let from_gap = at.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.cells[gap] = cell;
                gap = at;
            }
        }
        self.cells[gap] = 0;
    }

    fn grow(&mut self) {
        let larger = vec![0; (self.cells.len() * 2).max(CELLS_MIN)];
        for cell in std::mem::replace(&mut self.cells, larger) {
            if cell != 0 {
                self.put(cell);
            }
        }
    }
}

/// 32 bits that depend on all bits of the hash. So a shard may be chosen by the low or high bits of the
/// hash, and a sample by its size, without making the tags of one table similar.
#[inline]
fn tag(hash: u64) -> u32 {
    ((hash ^ (hash >> 32)).wrapping_mul(SPREAD) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Few distinct hashes, so that runs of cells, equal tags and gaps are common.
    fn hash_of(key: u32) -> u64 {
        u64::from(key % 37).wrapping_mul(0x0001_0000_0001)
    }

    proptest! {
        #[test]
        fn answers_like_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..200), 1..600)) {
            let mut table = Table::default();
            let mut map: HashMap<u32, u64> = HashMap::new();
            for (add, place) in steps {
                let hash = hash_of(place);
                if add && !map.contains_key(&place) {
                    table.insert(hash, place);
                    map.insert(place, hash);
                } else if !add {
                    prop_assert_eq!(table.remove(hash, place), map.remove(&place).is_some());
                }
                for place in 0..200 {
                    let found = table.find(hash_of(place), |p| p == place);
                    prop_assert_eq!(found, map.get(&place).map(|_| place));
                }
            }
        }
    }

    /// A shard sees hashes with equal low or equal high bits. Runs must stay short in spite of that.
    #[test]
    fn hashes_of_one_shard_spread_over_the_table() {
        for shift in [0, 8, 24] {
            let mut table = Table::with_room(49_152);
            for place in 0..49_152u32 {
                let spread = u64::from(place).wrapping_mul(0xD134_2543_DE82_EF95) >> 8;
                table.insert((spread << shift) | (0x5A << if shift == 0 { 56 } else { 0 }), place);
            }
            let longest = table.cells.split(|c| *c == 0).map(<[u64]>::len).max().unwrap_or(0);
            assert!(longest < 400, "a run of {longest} cells at shift {shift}");
        }
    }
}
