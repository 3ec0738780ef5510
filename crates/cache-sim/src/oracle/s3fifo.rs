//! S3-FIFO as in its paper (Yang and others, SOSP 2023): an exact ghost, no bound on second chances,
//! promotion after two uses, and nine tenths of the capacity each for ghost and main.

use super::entries::Entries;
use sandur_cache::model::{Drops, Policy, Request};

const SMALL: u8 = 0;
const MAIN: u8 = 1;
const GHOST: u8 = 2;

/// The policy. Ghosts are entries of a third queue.
#[derive(Debug)]
pub struct PaperS3Fifo {
    entries: Entries<3>,
    capacity: u64,
    written: u64,
}

impl PaperS3Fifo {
    /// An empty cache for values of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self { entries: Entries::new(), capacity, written: 0 }
    }

    fn evict(&mut self) {
        let main_is_over = self.entries.slab.weight(MAIN) > self.capacity / 10 * 9;
        let queue = if main_is_over || self.entries.slab.entries(SMALL) == 0 { MAIN } else { SMALL };
        while let Some(place) = self.entries.slab.oldest(queue) {
            let node = self.entries.slab.node_mut(place);
            if queue == SMALL && node.uses() >= 2 {
                node.set_uses(0);
                self.entries.slab.move_to(place, MAIN);
            } else if queue == MAIN && node.uses() > 0 {
                node.set_uses(node.uses() - 1);
                self.entries.slab.move_to(place, MAIN);
            } else {
                if queue == MAIN {
                    self.entries.expel(place);
                } else {
                    self.entries.count_drop(place);
                    self.entries.slab.move_to(place, GHOST);
                    self.trim_ghost();
                }
                return;
            }
        }
    }

    fn trim_ghost(&mut self) {
        while self.entries.slab.weight(GHOST) > self.capacity / 10 * 9 {
            let Some(place) = self.entries.slab.oldest(GHOST) else { return };
            self.entries.forget(place);
        }
    }
}

impl Policy for PaperS3Fifo {
    fn name(&self) -> &'static str {
        "S3-FIFO"
    }

    fn read(&mut self, request: &Request) -> bool {
        let Some(place) = self.entries.find(request.hash) else { return false };
        let node = self.entries.slab.node_mut(place);
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
        let found = self.entries.find(request.hash).map(|place| (place, self.entries.slab.node(place).queue));
        if let Some((place, SMALL | MAIN)) = found {
            self.entries.slab.reweigh(place, request.bytes);
            return;
        }
        if let Some((place, _)) = found {
            self.entries.forget(place);
        }
        while self.entries.slab.weight(SMALL) + self.entries.slab.weight(MAIN) + bytes > self.capacity {
            self.evict();
        }
        let queue = if found.is_some() { MAIN } else { SMALL };
        self.entries.add(queue, request);
    }

    fn drops(&self) -> Drops {
        self.entries.drops
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }
}
