//! What a caller may want done earlier, later or otherwise than the cache would by itself. memcached's
//! operators have knobs for it, and the server's figures are read with them in mind.
//!
//! Invariant: untouched, nothing here changes what the cache does.

use std::sync::atomic::Ordering;

use crate::cache::Cache;
use crate::flash::Compaction;
use crate::inner::Inner;
use crate::ram::{Moment, Record};

/// Items looked at while a shard is locked.
const STEP: usize = 256;

/// Which items return to memory when they are read from flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promotion {
    /// Those that are worth it: while there is room, and what is read again soon.
    #[default]
    Worthy,
    /// Those that are read again soon, room or not.
    Again,
    /// None.
    Never,
    /// Every one.
    Always,
}

impl Promotion {
    pub(crate) fn from_number(number: u8) -> Self {
        [Self::Worthy, Self::Again, Self::Never, Self::Always][usize::from(number.min(3))]
    }
}

/// Which items leave memory for flash although there is room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// Not accessed for so many seconds.
    pub idle_s: u32,
    /// Of at least so many bytes, key and value.
    pub least_bytes: u64,
}

impl Demotion {
    fn wants(&self, record: &Record, at: Moment) -> bool {
        let bytes = (record.key().len() + record.length()) as u64;
        let idle = at.now.saturating_sub(record.accessed_at);
        idle >= self.idle_s && bytes >= self.least_bytes
    }
}

impl Cache {
    /// Changes which items return to memory, from now on.
    pub fn set_promotion(&self, promotion: Promotion) {
        self.inner().promotion.store(promotion as u8, Ordering::Relaxed);
    }

    /// Changes when segments of flash are compacted, from now on.
    pub fn set_compaction(&self, compaction: Compaction) {
        if let Some(flash) = &self.inner().flash {
            flash.flash().set_compaction(compaction);
        }
    }

    /// Moves items of shard `number` (modulo [`Cache::shards`]) to flash; how many. Stops early when flash
    /// cannot take more for now.
    pub fn demote(&self, number: usize, demotion: &Demotion) -> usize {
        self.inner().demote(number % self.shards(), demotion)
    }
}

impl Inner {
    fn demote(&self, number: usize, demotion: &Demotion) -> usize {
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

    /// Whether the item was moved; nothing when flash cannot take it for now.
    fn demote_one(&self, hash: u64, key: &[u8], demotion: &Demotion) -> Option<bool> {
        let flash = self.flash.as_ref()?;
        let at = self.moment();
        let mut shard = self.ram.lock(hash);
        // what was changed or removed since is another's affair
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
