//! Recent frequencies of keys: a count-min sketch of 4-bit counters that are halved periodically, as in
//! TinyLFU (Einziger, Friedman, Manes 2017).

const ROWS: u64 = 4;
const COUNT_MAX: u8 = 15;

/// Four counters per key; the smallest one is the estimate.
#[derive(Debug)]
pub(super) struct Sketch {
    counters: Vec<u8>,
    added: u64,
}

impl Sketch {
    /// A sketch for about `keys` keys.
    pub(super) fn new(keys: usize) -> Self {
        Self { counters: vec![0; keys.next_power_of_two().max(64) * ROWS as usize], added: 0 }
    }

    /// Grows for `keys` keys, which forgets all counts.
    pub(super) fn make_room(&mut self, keys: usize) {
        if keys * ROWS as usize > self.counters.len() {
            *self = Self::new(keys);
        }
    }

    pub(super) fn add(&mut self, hash: u64) {
        for row in 0..ROWS {
            let at = self.at(hash, row);
            self.counters[at] = (self.counters[at] + 1).min(COUNT_MAX);
        }
        self.added += 1;
        if self.added >= self.counters.len() as u64 / ROWS * 10 {
            self.added /= 2;
            self.counters.iter_mut().for_each(|count| *count /= 2);
        }
    }

    pub(super) fn count(&self, hash: u64) -> u8 {
        (0..ROWS).map(|row| self.counters[self.at(hash, row)]).min().unwrap_or(0)
    }

    fn at(&self, hash: u64, row: u64) -> usize {
        let row_length = self.counters.len() as u64 / ROWS;
        let mixed = crate::draws::mix(hash.wrapping_add(row.wrapping_mul(0xA076_1D64_78BD_642F)));
        (row * row_length + (mixed & (row_length - 1))) as usize
    }
}
