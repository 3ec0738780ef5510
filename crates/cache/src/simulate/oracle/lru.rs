//! Least recently used: what memcached and most caches do.

use crate::policy::slab::Slab;
use crate::policy::table::Table;
use crate::simulate::{Drops, Policy, Request};

/// One queue; every use moves an entry to its young end.
#[derive(Debug)]
pub struct Lru {
    table: Table,
    slab: Slab<(), 1>,
    capacity: u64,
    drops: Drops,
    written: u64,
}

impl Lru {
    /// Empty, for values of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let (drops, written) = (Drops::default(), 0);
        Self { table: Table::default(), slab: Slab::new(), capacity, drops, written }
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |place| self.slab.node(place).hash == hash)
    }
}

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "LRU"
    }

    fn read(&mut self, request: &Request) -> bool {
        let Some(place) = self.find(request.hash) else { return false };
        self.slab.node_mut(place).use_once();
        self.slab.move_to(place, 0);
        true
    }

    fn put(&mut self, request: &Request) {
        if u64::from(request.bytes) > self.capacity {
            return;
        }
        self.written += u64::from(request.bytes);
        if let Some(place) = self.find(request.hash) {
            self.slab.reweigh(place, request.bytes);
            self.slab.move_to(place, 0);
        }
        while self.slab.weight(0) + u64::from(request.bytes) > self.capacity {
            let Some(place) = self.slab.oldest(0) else { break };
            let node = self.slab.node(place);
            self.drops.count(u64::from(node.weight), node.fetched);
            let hash = node.hash;
            self.table.remove(hash, place);
            self.slab.take(place);
        }
        if self.find(request.hash).is_none() {
            let place = self.slab.add(0, request.hash, request.bytes, ());
            self.table.insert(request.hash, place);
        }
    }

    fn drops(&self) -> Drops {
        self.drops
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }
}
