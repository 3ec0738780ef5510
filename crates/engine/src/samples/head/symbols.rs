//! The label names and values of a tenant's series in a head, each stored once.
//!
//! A series refers to its labels by numbers, because it shares most strings with other series.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use sandur_model::Labels;

use crate::growing::Growing;

/// Bytes of a string in addition to its text: the shared string, and its entries in the list and in the
/// hash table.
pub(super) const SYMBOL_BYTES: u64 = 56;

/// Numbers of strings. Strings are never removed.
#[derive(Default)]
pub(super) struct Symbols {
    numbers: HashTable<u32>,
    hasher: RandomState,
    list: Growing<Arc<str>>,
    bytes: u64,
}

/// A snapshot of the strings, by number.
#[derive(Clone, Default)]
pub(super) struct Texts(Growing<Arc<str>>);

impl Symbols {
    /// The number of a string, if it has one.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        let is_it = |number: &u32| **self.list.get(*number as usize) == *text;
        self.numbers.find(self.hasher.hash_one(text), is_it).copied()
    }

    /// Returns the number of a string. Adds the string if it is new.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.find(text) {
            return number;
        }
        let number = self.list.len() as u32;
        self.bytes += SYMBOL_BYTES + text.len() as u64;
        self.list.push(text.into());
        let (list, hasher) = (&self.list, &self.hasher);
        let hash_of = |number: &u32| hasher.hash_one(&**list.get(*number as usize));
        self.numbers.insert_unique(hasher.hash_one(text), number, hash_of);
        number
    }

    /// The string with this number.
    pub(super) fn get(&self, number: u32) -> &str {
        self.list.get(number as usize)
    }

    /// Bytes of all strings.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A snapshot of the strings.
    pub(super) fn texts(&self) -> Texts {
        Texts(self.list.clone())
    }
}

impl Texts {
    /// The string with this number.
    pub(super) fn get(&self, number: u32) -> &str {
        self.0.get(number as usize)
    }

    /// The number of strings.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The label set with these numbers of names and values.
    pub(super) fn labels(&self, pairs: impl Iterator<Item = (u32, u32)>) -> Labels {
        Labels::from_pairs(pairs.map(|(name, value)| (self.get(name), self.get(value))))
    }
}
