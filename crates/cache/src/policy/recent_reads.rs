//! Recent reads of flash: a key that is read twice within them is promoted to RAM.
//!
//! Most of what is read from flash is read once, and a copy in RAM would evict what is read there. A
//! key that is read a second time while it is remembered here gets its copy.
//!
//! As many keys are remembered as RAM has items, or twice as many: a copy made for a key that comes back
//! later than that would be gone before its next read.
//!
//! **Invariants.** 1 KiB: a key's place is given by its hash, and the next one there evicts it. A false
//! positive comes to one in 2^31 lookups.

/// Keys remembered at most, four bytes each.
const PLACES: usize = 256;
/// And at least.
const FEWEST: usize = 8;

/// Parts of the hashes of keys that were read.
#[derive(Debug)]
pub struct RecentReads(Box<[u32; PLACES]>);

impl Default for RecentReads {
    fn default() -> Self {
        Self(Box::new([0; PLACES]))
    }
}

impl RecentReads {
    /// Notes that a key is read, where RAM has `items`; whether it was not long ago.
    pub fn note(&mut self, hash: u64, items: usize) -> bool {
        let tag = (hash >> 32) as u32 | 1;
        let places = items.next_power_of_two().clamp(FEWEST, PLACES);
        std::mem::replace(&mut self.0[hash as usize % places], tag) == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_until_another_key_takes_the_place() {
        let mut recent = RecentReads::default();
        let (key, rival) = (5 | 7 << 40, 5 | 9 << 40);
        assert!(!recent.note(key, 1000) && recent.note(key, 1000));
        assert!(!recent.note(rival, 1000) && !recent.note(key, 1000));
    }

    #[test]
    fn remembers_no_more_keys_than_twice_the_items_of_ram() {
        let mut remembered = |items: usize| {
            let mut recent = RecentReads::default();
            (0..1000).for_each(|key| assert!(!recent.note(key | key << 33, items)));
            (0..1000).rev().filter(|key| recent.note(key | key << 33, items)).count()
        };
        assert_eq!([3, 100, 1 << 20].map(&mut remembered), [8, 128, 256]);
    }
}
