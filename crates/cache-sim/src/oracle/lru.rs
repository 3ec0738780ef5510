//! Least recently used, the policy of memcached and most caches.

use super::entries::Entries;
use sandur_cache::model::{Drops, Policy, Request};

/// One queue. Every use moves an entry to its young end.
#[derive(Debug)]
pub struct Lru {
    entries: Entries<1>,
    capacity: u64,
    written: u64,
}

impl Lru {
    /// An empty cache for values of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self { entries: Entries::new(), capacity, written: 0 }
    }
}

impl Policy for Lru {
    fn name(&self) -> &'static str {
        "LRU"
    }

    fn read(&mut self, request: &Request) -> bool {
        let Some(place) = self.entries.find(request.hash) else { return false };
        self.entries.slab.node_mut(place).use_once();
        self.entries.slab.move_to(place, 0);
        true
    }

    fn put(&mut self, request: &Request) {
        if u64::from(request.bytes) > self.capacity {
            return;
        }
        self.written += u64::from(request.bytes);
        if let Some(place) = self.entries.find(request.hash) {
            self.entries.slab.reweigh(place, request.bytes);
            self.entries.slab.move_to(place, 0);
        }
        while self.entries.slab.weight(0) + u64::from(request.bytes) > self.capacity {
            let Some(place) = self.entries.slab.oldest(0) else { break };
            self.entries.expel(place);
        }
        if self.entries.find(request.hash).is_none() {
            self.entries.add(0, request);
        }
    }

    fn drops(&self) -> Drops {
        self.entries.drops
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }
}
