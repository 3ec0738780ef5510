//! Recent reads of flash: a key that is read twice in a short time is promoted to RAM.
//!
//! Most values are read from flash once, and a copy in RAM would evict values that are read there. A key
//! that is read a second time while it is remembered here gets its copy.
//!
//! **Invariants.** 1 KiB of memory. A key's hash determines its place, and the next key there replaces
//! it. False positives are one in 2^31 lookups.

/// Number of remembered keys, four bytes each.
const PLACES: usize = 256;

/// Parts of the hashes of recently read keys.
#[derive(Debug)]
pub struct RecentReads(Box<[u32; PLACES]>);

impl Default for RecentReads {
    fn default() -> Self {
        Self(Box::new([0; PLACES]))
    }
}

impl RecentReads {
    /// Notes a read of a key. Returns whether the key was read shortly before.
    pub fn note(&mut self, hash: u64) -> bool {
        let tag = (hash >> 32) as u32 | 1;
        std::mem::replace(&mut self.0[hash as usize % PLACES], tag) == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_until_another_key_takes_the_place() {
        let mut recent = RecentReads::default();
        let (key, rival) = (5 | 7 << 40, 5 | 9 << 40);
        assert!(!recent.note(key) && recent.note(key));
        assert!(!recent.note(rival) && !recent.note(key));
    }

    #[test]
    fn remembers_as_many_keys_as_it_has_places() {
        let mut recent = RecentReads::default();
        (0..1000).for_each(|key| assert!(!recent.note(key | key << 33)));
        assert_eq!((0..1000).rev().filter(|key| recent.note(key | key << 33)).count(), PLACES);
    }
}
