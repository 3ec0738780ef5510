//! The entries of a known policy: queues of hashes with a table to find them, and counts of evictions.
//!
//! Invariant: the table names exactly the entries of the queues.

use sandur_cache::model::{Drops, Request};
use sandur_cache::policy::slab::Slab;
use sandur_cache::policy::table::Table;

/// Entries in `N` queues.
#[derive(Debug)]
pub(super) struct Entries<const N: usize> {
    table: Table,
    pub slab: Slab<(), N>,
    pub drops: Drops,
}

impl<const N: usize> Entries<N> {
    pub fn new() -> Self {
        Self { table: Table::default(), slab: Slab::new(), drops: Drops::default() }
    }

    pub fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |place| self.slab.node(place).hash == hash)
    }

    /// Adds an entry as the newest of `queue`.
    pub fn add(&mut self, queue: u8, request: &Request) {
        let place = self.slab.add(queue, request.hash, request.bytes, ());
        self.table.insert(request.hash, place);
    }

    /// Evicts an entry.
    pub fn expel(&mut self, place: u32) {
        self.count_drop(place);
        self.forget(place);
    }

    /// Counts an entry as evicted.
    pub fn count_drop(&mut self, place: u32) {
        let node = self.slab.node(place);
        self.drops.count(u64::from(node.weight), node.was_fetched());
    }

    /// Removes an entry without counting it.
    pub fn forget(&mut self, place: u32) {
        let hash = self.slab.node(place).hash;
        self.table.remove(hash, place);
        self.slab.take(place);
    }
}
