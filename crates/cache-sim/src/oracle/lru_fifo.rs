//! The tiers of memcached with extstore: LRU in RAM, and pages in order of writing on flash.
//!
//! A value is put into RAM. Values evicted from RAM are appended to flash, whose oldest values are
//! evicted when it is full. One hit on flash in 2,000 (`ext_recache_rate`) moves its value back to RAM;
//! the others change nothing.

use super::entries::Entries;
use sandur_cache::model::{Drops, Policy, Request};

const RAM: u8 = 0;
const FLASH: u8 = 1;
/// One hit on flash in this number moves its value back to RAM.
const RECACHE: u64 = 2_000;

/// Both tiers. A value is in one of them.
#[derive(Debug)]
pub struct LruFifo {
    entries: Entries<2>,
    capacity: [u64; 2],
    flash_hits: u64,
    written: u64,
}

impl LruFifo {
    /// Empty tiers of the given sizes in bytes.
    pub fn new(ram_bytes: u64, flash_bytes: u64) -> Self {
        Self { entries: Entries::new(), capacity: [ram_bytes, flash_bytes], flash_hits: 0, written: 0 }
    }

    /// Evicts until both tiers are within their sizes.
    fn settle(&mut self) {
        while self.entries.slab.weight(RAM) > self.capacity[0] {
            let Some(place) = self.entries.slab.oldest(RAM) else { break };
            self.written += u64::from(self.entries.slab.node(place).weight);
            self.entries.slab.move_to(place, FLASH);
        }
        while self.entries.slab.weight(FLASH) > self.capacity[1] {
            let Some(place) = self.entries.slab.oldest(FLASH) else { break };
            self.entries.expel(place);
        }
    }
}

impl Policy for LruFifo {
    fn name(&self) -> &'static str {
        "LRU and FIFO"
    }

    fn read(&mut self, request: &Request) -> bool {
        let Some(place) = self.entries.find(request.hash) else { return false };
        self.entries.slab.node_mut(place).use_once();
        let is_on_flash = self.entries.slab.node(place).queue == FLASH;
        self.flash_hits += u64::from(is_on_flash);
        if !is_on_flash || self.flash_hits.is_multiple_of(RECACHE) {
            self.entries.slab.move_to(place, RAM);
            self.settle();
        }
        true
    }

    fn put(&mut self, request: &Request) {
        if u64::from(request.bytes) > self.capacity[0] {
            return;
        }
        match self.entries.find(request.hash) {
            Some(place) => {
                self.entries.slab.reweigh(place, request.bytes);
                self.entries.slab.move_to(place, RAM);
            }
            None => self.entries.add(RAM, request),
        }
        self.settle();
    }

    fn drops(&self) -> Drops {
        self.entries.drops
    }

    fn written_bytes(&self) -> u64 {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_cache::Hint;
    use sandur_cache::model::Kind;

    #[test]
    fn flash_is_evicted_in_fifo_order_although_it_is_read() {
        let mut tiers = LruFifo::new(20, 20);
        let request =
            |hash| Request { at_s: 0, hash, bytes: 10, kind: Kind::Read, hint: Hint::Point, tenant: 0 };
        (1..=4).for_each(|hash| tiers.put(&request(hash)));
        assert!((1..=4).all(|hash| tiers.read(&request(hash))), "two in RAM, two on flash");
        tiers.put(&request(5));
        let left: Vec<u64> = (1..=5).filter(|hash| tiers.read(&request(*hash))).collect();
        assert_eq!(left, [2, 3, 4, 5], "1 was written to flash first, and reads do not change the order");
        assert_eq!((tiers.written_bytes(), tiers.drops().objects), (30, 1));
    }
}
