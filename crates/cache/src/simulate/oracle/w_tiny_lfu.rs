//! W-TinyLFU (Einziger, Friedman, Manes 2017) without the climber: a window of 1 % by recency, a main
//! part of a fifth on probation and the rest protected, and a sketch that decides who may enter it.

use super::sketch::Sketch;
use crate::policy::slab::Slab;
use crate::policy::table::Table;
use crate::simulate::{Drops, Policy, Request};

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;

/// The policy.
#[derive(Debug)]
pub struct WTinyLfu {
    table: Table,
    slab: Slab<(), 3>,
    sketch: Sketch,
    capacity: u64,
    drops: Drops,
    written: u64,
}

impl WTinyLfu {
    /// Empty, for values of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self {
            table: Table::default(),
            slab: Slab::new(),
            sketch: Sketch::new(1_024),
            capacity,
            drops: Drops::default(),
            written: 0,
        }
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |place| self.slab.node(place).hash == hash)
    }

    fn drop(&mut self, place: u32) {
        let node = self.slab.node(place);
        self.drops.count(u64::from(node.weight), node.fetched);
        let hash = node.hash;
        self.table.remove(hash, place);
        self.slab.take(place);
    }

    /// The oldest of the window asks for a place in the main part.
    fn leave_window(&mut self) {
        let Some(candidate) = self.slab.oldest(WINDOW) else { return };
        let (hash, bytes) = (self.slab.node(candidate).hash, u64::from(self.slab.node(candidate).weight));
        let main = self.capacity - self.capacity / 100;
        if bytes > main {
            self.drop(candidate);
            return;
        }
        while self.slab.weight(PROBATION) + self.slab.weight(PROTECTED) + bytes > main {
            let victim = self.slab.oldest(PROBATION).or_else(|| self.slab.oldest(PROTECTED));
            let Some(victim) = victim else { break };
            if self.sketch.count(hash) <= self.sketch.count(self.slab.node(victim).hash) {
                self.drop(candidate);
                return;
            }
            self.drop(victim);
        }
        self.slab.move_to(candidate, PROBATION);
    }
}

impl Policy for WTinyLfu {
    fn name(&self) -> &'static str {
        "W-TinyLFU"
    }

    fn read(&mut self, request: &Request) -> bool {
        self.sketch.add(request.hash);
        let Some(place) = self.find(request.hash) else { return false };
        self.slab.node_mut(place).use_once();
        let queue = self.slab.node(place).queue;
        self.slab.move_to(place, if queue == WINDOW { WINDOW } else { PROTECTED });
        while self.slab.weight(PROTECTED) > self.capacity / 100 * 79 {
            let Some(oldest) = self.slab.oldest(PROTECTED) else { break };
            self.slab.move_to(oldest, PROBATION);
        }
        true
    }

    fn put(&mut self, request: &Request) {
        if u64::from(request.bytes) > self.capacity {
            return;
        }
        self.written += u64::from(request.bytes);
        match self.find(request.hash) {
            Some(place) => self.slab.reweigh(place, request.bytes),
            None => {
                let place = self.slab.add(WINDOW, request.hash, request.bytes, ());
                self.table.insert(request.hash, place);
            }
        }
        let entries = (0..3).map(|queue| self.slab.entries(queue)).sum();
        self.sketch.make_room(entries);
        // While there is room, the main part takes everything; the window keeps its hundredth.
        while self.slab.weight(WINDOW) > (self.capacity / 100).max(u64::from(request.bytes)) {
            self.leave_window();
        }
    }

    fn drops(&self) -> Drops {
        self.drops
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }
}
