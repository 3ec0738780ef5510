//! Label names and values of a tenant's series in a head, each once.
//!
//! A series names its labels by numbers, eight bytes a label, because most of its strings are those of
//! other series as well.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use sandur_model::Labels;

use crate::growing::Growing;

/// Bytes that a string takes beside its text: the shared string, its place in the list and in the map.
pub(super) const SYMBOL_BYTES: u64 = 96;

/// Numbers of strings; they only grow.
#[derive(Default)]
pub(super) struct Symbols {
    by_text: HashMap<Arc<str>, u32, RandomState>,
    list: Growing<Arc<str>>,
    bytes: u64,
}

/// The strings of a moment, by number.
pub(super) struct Texts(Growing<Arc<str>>);

/// A label as numbers of its name and its value.
pub(super) type Pair = (u32, u32);

/// Bytes of a label of a series.
pub(super) const PAIR_BYTES: u64 = size_of::<Pair>() as u64;

impl Symbols {
    /// The labels as numbers, sorted as the labels are.
    pub(super) fn pairs(&mut self, labels: &Labels) -> Box<[Pair]> {
        labels.iter().map(|(name, value)| (self.number(name), self.number(value))).collect()
    }

    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.by_text.get(text) {
            return *number;
        }
        let number = self.list.len() as u32;
        let text: Arc<str> = text.into();
        self.bytes += SYMBOL_BYTES + text.len() as u64;
        self.list.push(Arc::clone(&text));
        self.by_text.insert(text, number);
        number
    }

    /// Bytes of all strings.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The strings so far.
    pub(super) fn texts(&self) -> Texts {
        Texts(self.list.clone())
    }
}

impl Texts {
    /// The string of a number.
    pub(super) fn get(&self, number: u32) -> &str {
        self.0.get(number as usize)
    }

    /// The label set that these numbers stand for.
    pub(super) fn labels(&self, pairs: &[Pair]) -> Labels {
        Labels::from_pairs(pairs.iter().map(|(name, value)| (self.get(*name), self.get(*value))))
    }
}
