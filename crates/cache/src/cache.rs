//! The public interface of the cache.
//!
//! **Life of a call.** The key is hashed once. The hash selects a shard, whose lock is held only while
//! the call looks at the shard's table. A hit shares the record with the caller and copies nothing.
//!
//! **Invariants.** A lookup never returns a value older than one whose write was acknowledged before the
//! lookup began: every call that replaces or removes an item does so in all tiers under the lock of its
//! shard. A write that cannot be kept removes the value that it was to replace. No call blocks, except
//! those whose documentation says so.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_runtime::Env;

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
use crate::request::{Answer, Change, Condition, Lookup, Pending, Put, Read, Revision, Stored, Updated};
use crate::stats::CacheStats;
use crate::write_back::Backpressure;

/// A cache. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Cache(Arc<Inner>);

impl Cache {
    /// Opens a cache. With flash, the items of an earlier run are recovered in the background.
    pub fn open(env: &Env, options: CacheOptions) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner::open(env, options, None)?)))
    }

    /// As [`Cache::open`], with flash on `device` instead of on the files that the options name.
    pub fn open_over(env: &Env, options: CacheOptions, device: Arc<dyn Device>) -> Result<Self, Error> {
        Ok(Self(Arc::new(Inner::open(env, options, Some(device))?)))
    }

    /// Opens a cache without flash. A `memory` below [`LEAST_MEMORY`] is raised to it.
    pub fn in_memory(env: &Env, memory: u64) -> Self {
        let options = CacheOptions { memory: memory.max(LEAST_MEMORY), ..CacheOptions::default() };
        Self::open(env, options).expect("without flash only a memory limit below LEAST_MEMORY fails")
    }

    /// Lets the calling thread complete its own reads of flash, so that a lookup needs no other thread.
    /// For threads with a poller that follow the contract of [`OwnReads`]; other threads do not call it.
    /// `None` without flash, and for devices that do not read this way.
    pub fn own_reads(&self) -> Option<OwnReads> {
        self.0.flash.as_ref()?.own_reads()
    }

    /// Looks up the item of `key`. Never blocks: a value in memory, and a miss in both tiers, are
    /// answered at once.
    pub fn get(&self, key: &[u8], read: &Read) -> Lookup {
        let at = self.0.moment();
        match self.0.look(self.0.hash(key), key, read, at) {
            Look::Hit(item) => Lookup::Hit(item),
            Look::Miss => Lookup::Miss,
            Look::OnFlash(lead) => self.read_all(vec![(key, lead)], read).pop().unwrap_or(Lookup::Miss),
        }
    }

    /// Looks up the items of many keys and appends the answers to `out`, in the order of `keys`. Reads
    /// of flash run in parallel: all are submitted to the device at once.
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
            inner.report_flash_answer((hash, &key), found.as_ref().map(|item| item.length), &read, at);
            found
        }))
    }

    /// Writes `value` if the condition in `put` holds.
    ///
    /// A value above 16 KiB is kept in the buffer that holds it and is not copied. That buffer should
    /// hold little else, because all of it stays in memory with the item. The answer is pending only if
    /// the write has a condition and the present item is on flash.
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

    /// Returns a future that a client which can slow down awaits before it stores more; `None` while
    /// flash keeps up. The future ends after 50 ms at the latest. A client that does not wait loses
    /// values, old and new, and the losses are counted.
    pub fn backpressure(&self) -> Option<Backpressure> {
        self.0.flash.as_ref().and_then(|flash| flash.backpressure())
    }

    /// Reads, decides and writes one key atomically: no other call on the key comes in between.
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

    /// Removes the item of `key` from every tier and returns whether there was one. For a key on flash
    /// the index alone decides, which takes another key for it once in ten million times.
    pub fn remove(&self, key: &[u8]) -> bool {
        let inner = &*self.0;
        let (at, hash) = (inner.moment(), inner.hash(key));
        let mut shard = inner.ram.lock(hash);
        // An expired or voided item does not count as removed.
        let is_dead = matches!(shard.with(hash, key, (at, false), |_, _| ()), Err(Some(_)));
        let removed = inner.discard(&mut shard, hash, key) && !is_dead;
        shard.counts().removed += u64::from(removed);
        removed
    }

    /// Voids all items written before now or, if `at` (seconds since the epoch) is in the future, all
    /// items written before that time, once it has come. Only one flush can be scheduled at a time.
    pub fn flush_all(&self, at: Option<u32>) {
        match at {
            Some(at) if at > self.0.moment().now => self.0.epochs.flush_at(at),
            _ => {
                // Flash first: items written in the new epoch must not be voided there.
                self.0.flash.iter().for_each(|flash| flash.flush_all());
                self.0.epochs.flush();
            }
        }
    }

    /// Reserves `bytes` of the cache's memory for another use, such as a connection's buffer. Items are
    /// evicted for it; `None` if that does not free enough.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        self.0.ram.reserve(bytes, self.0.moment())
    }

    /// Evicts items from memory until about `bytes` less are in use. Does not wait for locks.
    pub fn release(&self, bytes: u64) {
        self.0.ram.release(bytes, self.0.moment());
    }

    /// The budget of the cache's memory.
    pub fn budget(&self) -> &MemoryBudget {
        self.0.ram.memory()
    }

    /// Changes the memory limit. Items above the new limit are evicted at once.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.0.ram.set_limit(bytes.max(LEAST_MEMORY), self.0.moment());
    }

    /// The memory limit in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.0.ram.memory().limit()
    }

    /// Whether the items that an earlier run left on flash are still being recovered. Until they are,
    /// lookups of them miss.
    pub fn is_recovering(&self) -> bool {
        self.0.flash.as_ref().is_some_and(|flash| flash.is_recovering())
    }

    /// Lists the keys on flash, reading its segments one after the other. [`Cache::visit`] lists the
    /// items in memory. Blocks on the device, for as long as `see` takes.
    pub fn visit_flash(&self, see: &mut dyn FnMut(KeyInfo<'_>) -> ControlFlow<()>) {
        if let Some(flash) = &self.0.flash {
            flash.keys(see);
        }
    }

    /// Resolves when all earlier removals, replacements and changes of expiry would survive a crash; at
    /// once without flash.
    pub async fn committed(&self) {
        let committed = self.0.flash.as_ref().map(|flash| flash.committed());
        if let Some(committed) = committed {
            committed.await;
        }
    }

    /// Writes items that are only in memory to flash, and flash to the device, so that the next start
    /// finds them. Stops writing items after `patience`. Blocks on the device. Must be the last call:
    /// flash accepts nothing afterwards. Dropping a cache without this call has the effect of a crash,
    /// which is safe too.
    pub fn close(&self, patience: Duration) {
        self.0.close(patience);
    }

    /// As [`Cache::close`], and saves the items in memory to `file` and `file.meta` for
    /// [`Cache::restore`] at the next start, with `notes` of the caller. If the file cannot be written,
    /// the items are written to flash for at most `patience`. No other call may run meanwhile: its
    /// changes might be lost.
    pub fn close_into(&self, file: &Path, notes: Notes, patience: Duration) -> Result<Saved, Error> {
        Ok(memory_file::close_into(&self.0, file, notes, patience)?)
    }

    /// Loads what [`Cache::close_into`] saved to `file`, and deletes the file. Must be the first call: a
    /// restored item would overwrite a newer one of the same key. Blocks on the disk. Returns an error
    /// if no stop could ever save anything to this path; a file that cannot be used is
    /// [`Restored::Refused`].
    pub fn restore(&self, file: &Path) -> Result<Restored, Error> {
        Ok(memory_file::restore(&self.0, file)?)
    }

    /// Shows the live items in memory, in no particular order. Holds a shard's lock for 256 items at a
    /// time; `see` must not call the cache. An item that stays in memory during the pass is shown once.
    /// Stops when `see` returns `false`.
    pub fn visit(&self, mut see: impl FnMut(&[u8], &Item) -> bool) {
        const STEP: usize = 256;
        let mut items: Vec<(Vec<u8>, Item)> = Vec::new();
        for shard in 0..self.0.ram.shards() {
            let mut next = Some(0);
            while let Some(from) = next {
                let at = self.0.moment();
                next = self.0.ram.lock_shard(shard).visit(from, STEP, at, |hash, record| {
                    let mut item = record.item(&Read::default());
                    // Only the flash tier knows whether it has dropped its copy.
                    item.meta.on_flash = self.0.is_in_both(hash, record);
                    items.push((record.key().to_vec(), item));
                });
                if !items.drain(..).all(|(key, item)| see(&key, &item)) {
                    return;
                }
            }
        }
    }

    /// Removes some expired and voided items of shard `number` (modulo [`Cache::shards`]) and returns
    /// how many. Others are removed when a lookup finds them or when they are evicted.
    pub fn sweep(&self, number: usize) -> usize {
        let at = self.0.moment();
        self.0.ram.lock_shard(number % self.0.ram.shards()).sweep(at)
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.0.ram.shards()
    }

    /// The counters of the cache.
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

    /// Counts the items in memory and on flash together, each once. Exact up to 16,384 items in memory,
    /// otherwise an estimate with a standard error of at most 1.1 % of the items in memory. Looks at
    /// about 16,384 items.
    pub fn count_items(&self) -> u64 {
        self.0.count_items()
    }

    /// Evictions by class, age, source and tenant, with those of items that were never read.
    pub fn churn(&self) -> &Churn {
        &self.0.churn
    }

    /// Changes which items are promoted to memory, from now on.
    pub fn set_promotion(&self, promotion: Promotion) {
        self.inner().promotion.store(promotion as u8, Ordering::Relaxed);
    }

    /// Changes when segments of flash are compacted, from now on.
    pub fn set_compaction(&self, compaction: Compaction) {
        if let Some(flash) = &self.inner().flash {
            flash.flash().set_compaction(compaction);
        }
    }

    /// Moves items of shard `number` (modulo [`Cache::shards`]) to flash and returns how many. Stops
    /// early when flash has no room for the moment.
    pub fn demote(&self, number: usize, demotion: &Demotion) -> usize {
        self.inner().demote(number % self.shards(), demotion)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Estimates hit ratios at other sizes from the accesses of the last hours. `None` for a cache with
    /// less than 64 MiB of memory, which is too small to hold the predictor.
    pub fn prediction(&self) -> Option<Report> {
        self.0.prediction()
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.0.flights
    }

    /// The options with which the cache was opened.
    pub fn options(&self) -> &CacheOptions {
        &self.0.options
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("options", &self.0.options).finish_non_exhaustive()
    }
}
