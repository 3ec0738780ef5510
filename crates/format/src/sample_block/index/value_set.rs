//! The distinct values of a label, numbered in order of first occurrence: about ten bytes each in
//! addition to their texts.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Values by number, from 1.
#[derive(Debug, Default)]
pub(super) struct ValueSet {
    text: String,
    ends: Vec<u64>,
    /// Numbers, found by the hash of the text.
    numbers: HashTable<u32>,
    hasher: RandomState,
}

impl ValueSet {
    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the value with a number.
    pub(super) fn get(&self, number: u32) -> &str {
        text_of(&self.text, &self.ends, number)
    }

    /// Returns the number of a value, and whether it is new.
    pub(super) fn number_of(&mut self, value: &str) -> (u32, bool) {
        let hash = self.hasher.hash_one(value);
        let Self { text, ends, numbers, hasher } = self;
        if let Some(known) = numbers.find(hash, |number| text_of(text, ends, *number) == value) {
            return (*known, false);
        }
        text.push_str(value);
        ends.push(text.len() as u64);
        let number = ends.len() as u32;
        numbers.insert_unique(hash, number, |number| hasher.hash_one(text_of(text, ends, *number)));
        (number, true)
    }

    /// Returns the values by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (1..=self.len() as u32).map(|number| self.get(number))
    }

    /// Returns the bytes held in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.text.capacity() + self.ends.capacity() * 8 + self.numbers.allocation_size()) as u64
    }
}

fn text_of<'a>(text: &'a str, ends: &[u64], number: u32) -> &'a str {
    let at = number as usize - 1;
    let start = if at == 0 { 0 } else { ends[at - 1] as usize };
    &text[start..ends[at] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_in_order_of_first_occurrence() {
        let mut set = ValueSet::default();
        let found: Vec<(u32, bool)> = ["b", "", "a", "b", "a"].map(|value| set.number_of(value)).into();
        assert_eq!(found, [(1, true), (2, true), (3, true), (1, false), (3, false)]);
        assert!(set.iter().eq(["b", "", "a"]));
        for n in 0..10_000 {
            assert_eq!(set.number_of(&format!("pod-{n}")), (n + 4, true));
        }
        assert_eq!(set.number_of("pod-777"), (781, false));
    }
}
