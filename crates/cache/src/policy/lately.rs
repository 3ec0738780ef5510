//! Which keys were read from flash a moment ago: those that are worth a copy in RAM.
//!
//! Most of what is read from flash is read once, and a copy in RAM would push out what is read there. A
//! key that is read a second time while it is remembered here gets its copy.
//!
//! **Invariants.** 1 KiB: a key's place is given by its hash, and the next one there pushes it out. A
//! false "was read" comes to one in 2^31 questions.

/// Keys remembered, four bytes each.
const PLACES: usize = 256;

/// Parts of the hashes of keys that were read.
#[derive(Debug)]
pub struct ReadLately(Box<[u32; PLACES]>);

impl Default for ReadLately {
    fn default() -> Self {
        Self(Box::new([0; PLACES]))
    }
}

impl ReadLately {
    /// Notes that a key is read; whether it was not long ago.
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
        let mut lately = ReadLately::default();
        let (key, rival) = (5 | 7 << 40, 5 | 9 << 40);
        assert!(!lately.note(key) && lately.note(key));
        assert!(!lately.note(rival) && !lately.note(key));
    }
}
