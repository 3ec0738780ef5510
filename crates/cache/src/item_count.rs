//! The item count: how many items are in memory and on flash together, each counted once.
//!
//! Each tier knows how many it holds, but not how many of them the other holds too: a copy on flash may have
//! had to go since. So items in memory are looked at and flash is asked for each: all of them up to
//! [`LOOKED_AT`], else about as many, in every shard at random places, [`WINDOW`] side by side.
//!
//! **How exact it is.** Up to [`LOOKED_AT`] items in memory exact, beyond with a standard error of at most
//! 1.1 % of them (a half by the root of 16,384 / [`WINDOW`]: neighbours may have come together), but for
//! three things. A value that is longer than a record may be counts as its records, also after it was
//! removed, until their segments are freed; an item on flash that expired counts until its segment is freed;
//! and what changes during the count may count or not.

use crate::inner::Inner;
use crate::ram::Record;

/// Items in memory that are looked at, about.
const LOOKED_AT: u64 = 16 << 10;
/// Places of a shard that are looked at under one lock when all are.
const STEP: usize = 256;
/// The same when some are.
const WINDOW: usize = 8;
/// Windows tried for each that would do if every place held an item: memory that once held more has gaps.
const TRIES: u64 = 8;

/// Items in memory that were looked at, and those of them that are not on flash too.
#[derive(Default)]
struct Looks {
    seen: u64,
    alone: u64,
}

impl Inner {
    /// See the module. Expired items count until they are found, as memcached counts them.
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

    /// Whether an item in memory lies on flash too, or waits to.
    pub fn is_in_both(&self, hash: u64, record: &Record) -> bool {
        record.on_flash && self.flash.as_ref().is_some_and(|flash| flash.still_has(hash, false))
    }

    fn look_at_all(&self, shard: usize, looks: &mut Looks) {
        let places = self.ram.lock_shard(shard).places();
        (0..places).step_by(STEP).for_each(|from| self.look_into(shard, from, STEP, looks));
    }

    /// Looks at `most` items of a shard, or a few more; at fewer where there are gaps.
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
