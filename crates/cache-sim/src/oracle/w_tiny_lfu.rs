//! W-TinyLFU (Einziger, Friedman, Manes 2017) without hill climbing: an LRU window of 1 %, a main part
//! with a fifth on probation and the rest protected, and a sketch that decides which values enter it.

use super::entries::Entries;
use super::sketch::Sketch;
use sandur_cache::model::{Drops, Policy, Request};

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;

/// The policy.
#[derive(Debug)]
pub struct WTinyLfu {
    entries: Entries<3>,
    sketch: Sketch,
    capacity: u64,
    written: u64,
}

impl WTinyLfu {
    /// An empty cache for values of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self { entries: Entries::new(), sketch: Sketch::new(1_024), capacity, written: 0 }
    }

    /// Offers the oldest value of the window to the main part.
    fn leave_window(&mut self) {
        let Some(candidate) = self.entries.slab.oldest(WINDOW) else { return };
        let (hash, bytes) =
            (self.entries.slab.node(candidate).hash, u64::from(self.entries.slab.node(candidate).weight));
        let main = self.capacity - self.capacity / 100;
        if bytes > main {
            self.entries.expel(candidate);
            return;
        }
        while self.entries.slab.weight(PROBATION) + self.entries.slab.weight(PROTECTED) + bytes > main {
            let victim = self.entries.slab.oldest(PROBATION).or_else(|| self.entries.slab.oldest(PROTECTED));
            let Some(victim) = victim else { break };
            if self.sketch.count(hash) <= self.sketch.count(self.entries.slab.node(victim).hash) {
                self.entries.expel(candidate);
                return;
            }
            self.entries.expel(victim);
        }
        self.entries.slab.move_to(candidate, PROBATION);
    }
}

impl Policy for WTinyLfu {
    fn name(&self) -> &'static str {
        "W-TinyLFU"
    }

    fn read(&mut self, request: &Request) -> bool {
        self.sketch.add(request.hash);
        let Some(place) = self.entries.find(request.hash) else { return false };
        self.entries.slab.node_mut(place).use_once();
        let queue = self.entries.slab.node(place).queue;
        self.entries.slab.move_to(place, if queue == WINDOW { WINDOW } else { PROTECTED });
        while self.entries.slab.weight(PROTECTED) > self.capacity / 100 * 79 {
            let Some(oldest) = self.entries.slab.oldest(PROTECTED) else { break };
            self.entries.slab.move_to(oldest, PROBATION);
        }
        true
    }

    fn put(&mut self, request: &Request) {
        if u64::from(request.bytes) > self.capacity {
            return;
        }
        self.written += u64::from(request.bytes);
        match self.entries.find(request.hash) {
            Some(place) => self.entries.slab.reweigh(place, request.bytes),
            None => self.entries.add(WINDOW, request),
        }
        let entries = (0..3).map(|queue| self.entries.slab.entries(queue)).sum();
        self.sketch.make_room(entries);
        // While the cache has room, the main part accepts every value; the window keeps its hundredth.
        while self.entries.slab.weight(WINDOW) > (self.capacity / 100).max(u64::from(request.bytes)) {
            self.leave_window();
        }
    }

    fn drops(&self) -> Drops {
        self.entries.drops
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }
}
