//! Demotion on request: items move from memory to flash although memory has room for them.
//!
//! Invariant: an item is on flash before it leaves memory.

use crate::inner::Inner;
use crate::promotion::Demotion;
use crate::ram::{Moment, Record};

/// Items that are looked at under one lock of the shard.
const STEP: usize = 256;

impl Demotion {
    fn wants(&self, record: &Record, at: Moment) -> bool {
        let bytes = (record.key().len() + record.length()) as u64;
        let idle = at.now.saturating_sub(record.accessed_at);
        idle >= self.idle_s && bytes >= self.least_bytes
    }
}

impl Inner {
    /// See [`Cache::demote`](crate::Cache::demote).
    pub fn demote(&self, number: usize, demotion: &Demotion) -> usize {
        let mut moved = 0;
        let mut next = Some(0);
        while let Some(from) = next {
            let mut wanted = Vec::new();
            let at = self.moment();
            next = self.ram.lock_shard(number).visit(from, STEP, at, |hash, record| {
                if demotion.wants(record, at) {
                    wanted.push((hash, record.shared_key()));
                }
            });
            for (hash, key) in wanted {
                match self.demote_one(hash, &key, demotion) {
                    Some(is_moved) => moved += usize::from(is_moved),
                    None => return moved,
                }
            }
        }
        moved
    }

    /// Returns whether the item was moved; `None` when flash has no room for the moment.
    fn demote_one(&self, hash: u64, key: &[u8], demotion: &Demotion) -> Option<bool> {
        let flash = self.flash.as_ref()?;
        let at = self.moment();
        let mut shard = self.ram.lock(hash);
        // An item that was changed or removed since is left to that change.
        let Ok(record) = shard.find(hash, key, at, false) else { return Some(false) };
        if !demotion.wants(record, at) {
            return Some(false);
        }
        if !(record.on_flash && flash.still_has(hash, record.fetched)) {
            if !flash.flash().has_room_for(record.weight()) {
                return None;
            }
            record.on_flash = flash.offer(hash, record, u8::from(record.fetched));
            if !record.on_flash {
                return Some(false);
            }
        }
        shard.take(hash, key);
        shard.counts().demoted += 1;
        Some(true)
    }
}
