//! How many items there are in memory and on flash together, each counted once.
//!
//! Each tier knows how many it holds, but not how many of them the other holds too: a copy on flash may have
//! had to go since. So items in memory are looked at and flash is asked for each: all of them up to
//! [`LOOKED_AT`], else about as many, from a random place on in every shard.
//!
//! **How exact it is.** Up to [`LOOKED_AT`] items in memory exact, beyond with a standard error of about
//! 0.4 % of them (a half by the root of 16,384), but for three things. A value that is longer than a record
//! may be counts as its records, also after it was removed, until their segments are freed; an item on flash
//! that expired counts until its segment is freed; and what changes during the count may count or not.

use crate::inner::Inner;
use crate::ram::Record;

/// Items in memory that are looked at, about.
const LOOKED_AT: u64 = 16 << 10;
/// Places of a shard that are looked at under one lock.
const STEP: usize = 256;

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
        let is_whole = in_memory <= LOOKED_AT;
        let per_shard = if is_whole { u64::MAX } else { LOOKED_AT.div_ceil(self.ram.shards() as u64) };
        let mut looks = Looks::default();
        for shard in 0..self.ram.shards() {
            self.look_into(shard, per_shard, &mut looks);
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

    /// Looks at `most` items of a shard, or a few more.
    fn look_into(&self, shard: usize, most: u64, looks: &mut Looks) {
        let until = looks.seen.saturating_add(most);
        let places = self.ram.lock_shard(shard).places();
        let begin = if most == u64::MAX { 0 } else { self.env.random_u64() as usize % places.max(1) };
        for (mut from, end) in [(begin, places), (0, begin)] {
            while from < end && looks.seen < until {
                let count = STEP.min(end - from);
                self.ram.lock_shard(shard).visit_all(from, count, |hash, record| {
                    looks.seen += 1;
                    looks.alone += u64::from(!self.is_in_both(hash, record));
                });
                from += count;
            }
        }
    }
}
