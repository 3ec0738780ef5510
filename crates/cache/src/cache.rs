//! The cache: what callers use.
//!
//! **Life of a call.** The key is hashed once. The hash names a shard; its lock is held for the look
//! at the table and no longer. A hit shares the record with the caller: nothing is copied.
//!
//! **Invariants.** A lookup never returns a value older than one whose write was acknowledged before
//! the lookup began: whatever replaces or removes an item does so under its shard's lock, in every
//! tier. A write that cannot be kept removes what it was meant to replace. No call blocks.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Env;

use crate::device::{Device, OwnReads};
use crate::error::Error;
use crate::flash::{Compaction, KeyInfo};
use crate::flights::Flights;
use crate::inner::{Inner, Lead, Look};
use crate::item::Item;
use crate::memory_file::{self, Notes, Restored, Saved};
use crate::options::{CacheOptions, LEAST_MEMORY};
use crate::policy::Churn;
use crate::predict::Report;
use crate::promotion::{Demotion, Promotion};
use crate::ram::Reserved;
use crate::request::{Answer, Change, Condition, Lookup, Pending, Put, Read, Revision, Stored, Updated};
use crate::stats::CacheStats;
use crate::write_back::Backpressure;

/// A cache. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Cache(Arc<Inner>);

impl Cache {
    /// Opens a cache. With flash, what an earlier run left there is found in the background.
    pub fn open(env: &Env, options: CacheOptions) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner::open(env, options, None)?)))
    }

    /// As [`Cache::open`], with flash on `device` instead of on the parts that its options name.
    pub fn open_over(env: &Env, options: CacheOptions, device: Arc<dyn Device>) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner::open(env, options, Some(device))?)))
    }

    /// A cache in memory alone, with the least limit at least.
    pub fn in_memory(env: &Env, memory: u64) -> Self {
        let options = CacheOptions { memory: memory.max(LEAST_MEMORY), ..CacheOptions::default() };
        Self::open(env, options).expect("memory is not too little, and nothing else can fail")
    }

    /// Makes the calling thread the one that hands out what its own reads of flash bring, so that a lookup
    /// needs no other thread. For threads with a poller, which do as [`OwnReads`] says; others leave it
    /// alone. Nothing without flash, and where flash is read in another way.
    pub fn own_reads(&self) -> Option<OwnReads> {
        self.0.flash.as_ref()?.own_reads()
    }

    /// The item of `key`. Never blocks: what is in memory, or in no tier, is answered at once.
    pub fn get(&self, key: &[u8], read: &Read) -> Lookup {
        let at = self.0.moment();
        match self.0.look(self.0.hash(key), key, read, at) {
            Look::Hit(item) => Lookup::Hit(item),
            Look::Miss => Lookup::Miss,
            Look::OnFlash(lead) => self.read_all(vec![(key, lead)], read).pop().unwrap_or(Lookup::Miss),
        }
    }

    /// The items of many keys, in the order of `keys`, appended to `out`. Those on flash are read
    /// side by side: the device gets all reads at once.
    pub fn get_many<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>, read: &Read, out: &mut Vec<Lookup>) {
        let at = self.0.moment();
        let keys: Vec<(u64, &[u8])> = keys.into_iter().map(|key| (self.0.hash(key), key)).collect();
        self.0.ram.prefetch(keys.iter().map(|(hash, _)| *hash));
        let mut on_flash: Vec<(&[u8], Lead)> = Vec::new();
        let mut places: Vec<usize> = Vec::new();
        for (hash, key) in keys {
            match self.0.look(hash, key, read, at) {
                Look::Hit(item) => out.push(Lookup::Hit(item)),
                Look::Miss => out.push(Lookup::Miss),
                Look::OnFlash(lead) => {
                    places.push(out.len());
                    on_flash.push((key, lead));
                    out.push(Lookup::Miss);
                }
            }
        }
        for (place, lookup) in places.into_iter().zip(self.read_all(on_flash, read)) {
            out[place] = lookup;
        }
    }

    fn read_all(&self, leads: Vec<(&[u8], Lead)>, read: &Read) -> Vec<Lookup> {
        if leads.is_empty() {
            return Vec::new();
        }
        if read.expires_at.is_some() {
            return leads.into_iter().map(|(key, _)| self.touch_on_flash(key, read)).collect();
        }
        let reading = self.0.start_reads(&leads, read);
        let finish = |((key, lead), reading): ((&[u8], Lead), _)| {
            let inner = Arc::clone(&self.0);
            Lookup::Pending(Pending::new(inner.finish_read(key.into(), lead, read.clone(), reading)))
        };
        leads.into_iter().zip(reading).map(finish).collect()
    }

    /// Changes the expiry of an item on flash and reads it, as one step.
    fn touch_on_flash(&self, key: &[u8], read: &Read) -> Lookup {
        let revision = Revision { expires_at: read.expires_at, accessed: !read.quiet, ..Revision::default() };
        let range = read.range.clone();
        let touched = self.update(key, move |item| {
            let part = |item: &Item| match range {
                Some(range) => Item { value: item.value.slice(range), ..item.clone() },
                None => item.clone(),
            };
            (Change::Revise(revision), item.map(part))
        });
        let (inner, read) = (Arc::clone(&self.0), read.clone());
        let (hash, key, at): (u64, Box<[u8]>, _) = (inner.hash(key), key.into(), inner.moment());
        Lookup::Pending(Pending::new(async move {
            let found = touched.wait().await.answer;
            inner.tell_flash_answered((hash, &key), found.as_ref().map(|item| item.length), &read, at);
            found
        }))
    }

    /// Writes `value` if the condition in `put` holds.
    ///
    /// A value beyond 16 KiB is kept in the buffer that it comes in, so that buffer should hold
    /// little else: all of it stays in memory with the item. Pending only under a condition, and
    /// when the present item is on flash.
    pub fn put(&self, key: &[u8], value: Bytes, put: &Put) -> Answer<Stored> {
        if put.condition == Condition::Always {
            let inner = &*self.0;
            let (at, hash) = (inner.moment(), inner.hash(key));
            return Answer::Ready(inner.store(&mut inner.ram.lock(hash), (hash, key), value, put, at));
        }
        let put = put.clone();
        self.0.with_present(key, move |inner, shard, present| {
            let version = present.item.as_ref().map(|item| item.cas);
            match put.condition.refusal(version) {
                Some(refusal) => refusal,
                None => inner.store(shard, (present.hash, present.key), value, &put, present.at),
            }
        })
    }

    /// What somebody who has stored and can slow down should wait for before storing more; `None` while flash
    /// keeps up. It lasts for a twentieth of a second at most. Who stores on regardless loses values, old and
    /// new, which is counted.
    pub fn backpressure(&self) -> Option<Backpressure> {
        self.0.flash.as_ref().and_then(|flash| flash.backpressure())
    }

    /// Reads, decides and writes one key as one step: no other call on the key comes between.
    ///
    /// `change` sees the present item and runs under a lock: it must not call the cache.
    pub fn update<R, F>(&self, key: &[u8], change: F) -> Answer<Updated<R>>
    where
        F: FnOnce(Option<&Item>) -> (Change, R) + Send + 'static,
        R: Send + 'static,
    {
        self.0.with_present(key, move |inner, shard, present| {
            let (change, answer) = change(present.item.as_ref());
            Updated { answer, applied: inner.apply(shard, &present, change) }
        })
    }

    /// Removes the item of `key` from every tier; whether there was one. For a key on flash the
    /// index is believed, which takes another key for it once in ten million times.
    pub fn remove(&self, key: &[u8]) -> bool {
        let inner = &*self.0;
        let (at, hash) = (inner.moment(), inner.hash(key));
        let mut shard = inner.ram.lock(hash);
        // A dead item is not one that could be removed.
        let is_dead = matches!(shard.with(hash, key, (at, false), |_, _| ()), Err(Some(_)));
        let removed = inner.discard(&mut shard, hash, key) && !is_dead;
        shard.counts().removed += u64::from(removed);
        removed
    }

    /// Voids all items: those written until now, or until `at` (seconds since the epoch) when that
    /// time has come. One flush can be set for later at a time.
    pub fn flush_all(&self, at: Option<u32>) {
        match at {
            Some(at) if at > self.0.moment().now => self.0.epochs.flush_at(at),
            _ => {
                // Flash first: what is written from the new epoch on must not be voided there.
                self.0.flash.iter().for_each(|flash| flash.flush_all());
                self.0.epochs.flush();
            }
        }
    }

    /// Takes `bytes` of the cache's memory for something else, such as a connection's buffer. Items
    /// make way; `None` when that does not suffice.
    pub fn reserve(&self, bytes: u64) -> Option<Reserved> {
        self.0.ram.reserve(bytes, self.0.moment())
    }

    /// Moves the memory limit; items beyond it leave at once.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.0.ram.set_limit(bytes.max(LEAST_MEMORY), self.0.moment());
    }

    /// The memory limit in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.0.ram.memory().limit()
    }

    /// Whether what an earlier run left on flash is still being found. Until then it misses.
    pub fn is_recovering(&self) -> bool {
        self.0.flash.as_ref().is_some_and(|flash| flash.is_recovering())
    }

    /// Lists the keys on flash, reading its segments one after the other; those in memory are listed by
    /// [`Cache::visit`]. Blocks on the device; the visitor sets the pace.
    pub fn visit_flash(&self, see: &mut dyn FnMut(KeyInfo<'_>) -> ControlFlow<()>) {
        if let Some(flash) = &self.0.flash {
            flash.keys(see);
        }
    }

    /// Resolves when everything that was removed, replaced and touched so far would stay so after a
    /// crash; at once when there is no flash.
    pub async fn committed(&self) {
        let committed = self.0.flash.as_ref().map(|flash| flash.committed());
        if let Some(committed) = committed {
            committed.await;
        }
    }

    /// Writes what is in memory alone to flash and flash to the device, so that the next start finds
    /// it; gives up on the rest of memory after `patience`. Blocks on the device. Call it last:
    /// afterwards flash takes nothing any more. A cache that is dropped without it has crashed, which
    /// is safe too.
    pub fn close(&self, patience: Duration) {
        self.0.close(patience);
    }

    /// As [`Cache::close`], and keeps what is in memory in `file` and `file.meta` for [`Cache::restore`] at
    /// the next start, with `notes` of the caller. Then `patience` is for when the file cannot be written.
    /// No other call may be under way: what it changed would be lost or not.
    pub fn close_into(&self, file: &Path, notes: Notes, patience: Duration) -> Result<Saved, Error> {
        Ok(memory_file::close_into(&self.0, file, notes, patience)?)
    }

    /// Puts back what [`Cache::close_into`] kept in `file`, which is used up thereby. Call it first: what was
    /// put before could be replaced by what is older. Blocks on the disk. An error says that no stop could
    /// keep anything there; what cannot be used is [`Restored::Refused`].
    pub fn restore(&self, file: &Path) -> Result<Restored, Error> {
        Ok(memory_file::restore(&self.0, file)?)
    }

    /// Shows the live items in memory, in no order that means anything. Locks are held for some
    /// hundred items at a time; `see` must not call the cache. An item that is there for the whole
    /// pass is shown once. Stops when `see` answers `false`.
    pub fn visit(&self, mut see: impl FnMut(&[u8], &Item) -> bool) {
        const STEP: usize = 256;
        let mut items: Vec<(Vec<u8>, Item)> = Vec::new();
        for shard in 0..self.0.ram.shards() {
            let mut next = Some(0);
            while let Some(from) = next {
                let at = self.0.moment();
                next = self.0.ram.lock_shard(shard).visit(from, STEP, at, |hash, record| {
                    let mut item = record.item(&Read::default());
                    // A copy that had to go is known there alone.
                    item.meta.on_flash = self.0.is_in_both(hash, record);
                    items.push((record.key().to_vec(), item));
                });
                if !items.drain(..).all(|(key, item)| see(&key, &item)) {
                    return;
                }
            }
        }
    }

    /// Takes out items of shard `number` (modulo [`Cache::shards`]) that are dead; how many. The rest
    /// leaves when it is looked for or evicted.
    pub fn sweep(&self, number: usize) -> usize {
        let at = self.0.moment();
        self.0.ram.lock_shard(number % self.0.ram.shards()).sweep(at)
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.0.ram.shards()
    }

    /// What the cache counted.
    pub fn stats(&self) -> CacheStats {
        let inner = &*self.0;
        inner.settle_index();
        let (ram, items) = inner.ram.counts();
        let memory = inner.ram.memory();
        CacheStats {
            ram,
            items,
            bytes: inner.ram.weight(),
            memory_used: memory.used(),
            memory_limit: memory.limit(),
            stored: inner.stored.load(Ordering::Relaxed),
            ram_latency: inner.ram_latency.snapshot(),
            flash: inner.flash.as_ref().map(|flash| flash.tier_stats()),
        }
    }

    /// Items in memory and on flash together, each counted once: exact up to 16,384 in memory, else an
    /// estimate with a standard error of at most 1.1 % of those. Looks at as many.
    pub fn count_items(&self) -> u64 {
        self.0.count_items()
    }

    /// What left the cache unread, by class, age, source and tenant.
    pub fn churn(&self) -> &Churn {
        &self.0.churn
    }

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

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// What other sizes would do, from what happened in the last hours. `None` for a cache of less
    /// than 64 MiB of memory, which has none to spare for knowing.
    pub fn prediction(&self) -> Option<Report> {
        self.0.prediction()
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.0.flights
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CacheOptions {
        &self.0.options
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("options", &self.0.options).finish_non_exhaustive()
    }
}
