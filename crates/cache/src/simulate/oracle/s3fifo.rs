//! S3-FIFO as its paper has it (Yang and others, SOSP 2023): exact ghost, no bound on second chances,
//! promotion after two uses, ghost and main of nine tenths each.

use crate::policy::slab::Slab;
use crate::policy::table::Table;
use crate::simulate::{Drops, Policy, Request};

const SMALL: u8 = 0;
const MAIN: u8 = 1;
const GHOST: u8 = 2;

/// The policy; ghosts are entries of a third queue.
#[derive(Debug)]
pub struct PaperS3Fifo {
    table: Table,
    slab: Slab<(), 3>,
    capacity: u64,
    drops: Drops,
    written: u64,
}

impl PaperS3Fifo {
    /// Empty, for values of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        let (drops, written) = (Drops::default(), 0);
        Self { table: Table::default(), slab: Slab::new(), capacity, drops, written }
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |place| self.slab.node(place).hash == hash)
    }

    fn forget(&mut self, place: u32) {
        let hash = self.slab.node(place).hash;
        self.table.remove(hash, place);
        self.slab.take(place);
    }

    fn evict(&mut self) {
        let main_is_over = self.slab.weight(MAIN) > self.capacity / 10 * 9;
        let queue = if main_is_over || self.slab.entries(SMALL) == 0 { MAIN } else { SMALL };
        while let Some(place) = self.slab.oldest(queue) {
            let node = self.slab.node_mut(place);
            let (bytes, fetched) = (u64::from(node.weight), node.fetched);
            if queue == SMALL && node.uses >= 2 {
                node.uses = 0;
                self.slab.move_to(place, MAIN);
            } else if queue == MAIN && node.uses > 0 {
                node.uses -= 1;
                self.slab.move_to(place, MAIN);
            } else {
                self.drops.count(bytes, fetched);
                if queue == MAIN {
                    self.forget(place);
                } else {
                    self.slab.move_to(place, GHOST);
                    self.trim_ghost();
                }
                return;
            }
        }
    }

    fn trim_ghost(&mut self) {
        while self.slab.weight(GHOST) > self.capacity / 10 * 9 {
            let Some(place) = self.slab.oldest(GHOST) else { return };
            self.forget(place);
        }
    }
}

impl Policy for PaperS3Fifo {
    fn name(&self) -> &'static str {
        "S3-FIFO"
    }

    fn read(&mut self, request: &Request) -> bool {
        let Some(place) = self.find(request.hash) else { return false };
        let node = self.slab.node_mut(place);
        if node.queue == GHOST {
            return false;
        }
        node.use_once();
        true
    }

    fn put(&mut self, request: &Request) {
        let bytes = u64::from(request.bytes);
        if bytes > self.capacity {
            return;
        }
        self.written += bytes;
        let found = self.find(request.hash).map(|place| (place, self.slab.node(place).queue));
        if let Some((place, SMALL | MAIN)) = found {
            self.slab.reweigh(place, request.bytes);
            return;
        }
        if let Some((place, _)) = found {
            self.forget(place);
        }
        while self.slab.weight(SMALL) + self.slab.weight(MAIN) + bytes > self.capacity {
            self.evict();
        }
        let queue = if found.is_some() { MAIN } else { SMALL };
        let place = self.slab.add(queue, request.hash, request.bytes, ());
        self.table.insert(request.hash, place);
    }

    fn drops(&self) -> Drops {
        self.drops
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }
}
