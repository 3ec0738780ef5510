//! The item count: how many items are in memory and on flash together, each counted once.
//!
//! Each tier knows how many items it holds, but not how many of them the other tier holds too, because
//! flash may have dropped a copy since. So the count looks at items in memory and asks flash for each of
//! them. Up to [`LOOKED_AT`] items it looks at all. Otherwise it looks at about that number, in every
//! shard, at random positions, [`WINDOW`] neighbours at a time.
//!
//! **Accuracy.** Up to [`LOOKED_AT`] items in memory the count is exact. Beyond, its standard error is
//! at most 1.1 % of them: 0.5 / sqrt(16,384 / [`WINDOW`]), because neighbours may have been stored
//! together. There are three exceptions. A value that is longer than a record may be counts once for
//! each of its records, also after its removal, until their segments are freed. An expired item on flash
//! counts until its segment is freed. An item that changes during the count may count or not.

use crate::inner::Inner;
use crate::ram::Record;

/// Number of items in memory that the count looks at, approximately.
const LOOKED_AT: u64 = 16 << 10;
/// Positions of a shard that are looked at under one lock when the count looks at all.
const STEP: usize = 256;
/// The same when the count takes a sample.
const WINDOW: usize = 8;
/// Attempts for each window that would suffice if every position held an item: a table that once held
/// more items has gaps.
const TRIES: u64 = 8;

/// Number of items in memory that were looked at, and of those that are not on flash too.
#[derive(Default)]
struct Looks {
    seen: u64,
    alone: u64,
}

impl Inner {
    /// Counts the items as the module's documentation says. Expired items count until they are found, as
    /// in memcached.
    pub fn count_items(&self) -> u64 {
        let (_, in_memory) = self.ram.counts();
        let on_flash = self.flash.as_ref().map_or(0, |flash| flash.items());
        if on_flash == 0 {
            return in_memory;
        }
        let shards = 0..self.ram.shards();
        let places: usize = shards.clone().map(|shard| self.ram.lock_shard(shard).places()).sum();
        let is_whole = in_memory <= LOOKED_AT && places as u64 <= LOOKED_AT * TRIES;
        let mut looks = Looks::default();
        for shard in shards {
            match is_whole {
                true => self.look_at_all(shard, &mut looks),
                false => self.look_at_some(shard, LOOKED_AT.div_ceil(self.ram.shards() as u64), &mut looks),
            }
        }
        let alone = match is_whole || looks.seen == 0 {
            true => looks.alone,
            false => (in_memory as f64 * looks.alone as f64 / looks.seen as f64) as u64,
        };
        on_flash + alone
    }

    /// Whether an item in memory is also on flash, or is queued to be written there.
    pub fn is_in_both(&self, hash: u64, record: &Record) -> bool {
        record.on_flash && self.flash.as_ref().is_some_and(|flash| flash.still_has(hash, false))
    }

    fn look_at_all(&self, shard: usize, looks: &mut Looks) {
        let places = self.ram.lock_shard(shard).places();
        (0..places).step_by(STEP).for_each(|from| self.look_into(shard, from, STEP, looks));
    }

    /// Looks at about `most` items of a shard; at fewer where the table has gaps.
    fn look_at_some(&self, shard: usize, most: u64, looks: &mut Looks) {
        let until = looks.seen + most;
        for _ in 0..TRIES * most.div_ceil(WINDOW as u64) {
            if looks.seen >= until {
                return;
            }
            let places = self.ram.lock_shard(shard).places().max(1);
            self.look_into(shard, self.env.random_u64() as usize % places, WINDOW, looks);
        }
    }

    fn look_into(&self, shard: usize, from: usize, count: usize, looks: &mut Looks) {
        self.ram.lock_shard(shard).visit_all(from, count, |hash, record| {
            looks.seen += 1;
            looks.alone += u64::from(!self.is_in_both(hash, record));
        });
    }
}
