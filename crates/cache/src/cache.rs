//! The cache: what callers use.
//!
//! **Life of a call.** The key is hashed once. The hash names a shard; its lock is held for the look
//! at the table and no longer. A hit shares the record with the caller: nothing is copied.
//!
//! **Invariants.** A lookup never returns a value older than one whose write was acknowledged before
//! the lookup began: whatever replaces or removes an item does so under its shard's lock, in every
//! tier. A write that cannot be kept removes what it was meant to replace. No call blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sandur_base::Env;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::Error;
use crate::item::Item;
use crate::options::{CacheOptions, LEAST_MEMORY};
use crate::ram::{Epochs, Locked, Memory, Moment, Ram, Record, Reserved};
use crate::request::{Answer, Applied, Change, Lookup, Put, Read, Stored, Updated};
use crate::single_flight::Flights;
use crate::stats::CacheStats;

/// Longest key in bytes.
pub const LONGEST_KEY: usize = u16::MAX as usize;

/// A cache. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Cache(Arc<Inner>);

struct Inner {
    env: Env,
    options: CacheOptions,
    /// Of the hash of keys.
    seed: u64,
    ram: Ram,
    epochs: Epochs,
    /// The version number of the next write.
    next_cas: AtomicU64,
    stored: AtomicU64,
    flights: Flights,
}

impl Cache {
    /// Opens a cache.
    pub fn open(env: &Env, options: CacheOptions) -> Result<Self, Error> {
        if options.memory < LEAST_MEMORY {
            return Err(Error::TooLittleMemory { limit: options.memory, least: LEAST_MEMORY });
        }
        let ram = Ram::new(Memory::new(options.memory), options.evict, options.listener.clone());
        Ok(Self(Arc::new(Inner {
            env: env.clone(),
            options,
            seed: env.random_u64(),
            ram,
            epochs: Epochs::default(),
            next_cas: AtomicU64::new(1),
            stored: AtomicU64::new(0),
            flights: Flights::default(),
        })))
    }

    /// The item of `key`. Never blocks: what is in memory, or in no tier, is answered at once.
    pub fn get(&self, key: &[u8], read: &Read) -> Lookup {
        self.0.get(key, read, self.0.moment())
    }

    /// The items of many keys, in the order of `keys`, appended to `out`.
    pub fn get_many<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>, read: &Read, out: &mut Vec<Lookup>) {
        let at = self.0.moment();
        out.extend(keys.into_iter().map(|key| self.0.get(key, read, at)));
    }

    /// Writes `value` if the condition in `put` holds.
    ///
    /// A value beyond 16 KiB is kept in the buffer that it comes in, so that buffer should hold
    /// little else: all of it stays in memory with the item.
    pub fn put(&self, key: &[u8], value: Bytes, put: &Put) -> Answer<Stored> {
        let inner = &*self.0;
        let at = inner.moment();
        let hash = inner.hash(key);
        let mut shard = inner.ram.lock(hash);
        let present = shard.find(hash, key, at, false).ok().map(|record| record.cas);
        if let Some(refusal) = put.condition.refusal(present) {
            return Answer::Ready(refusal);
        }
        let (stored, _replaced) = inner.store(&mut shard, hash, key, value, put, at);
        drop(shard);
        Answer::Ready(stored)
    }

    /// Reads, decides and writes one key as one step: no other call on the key comes between.
    ///
    /// `change` sees the present item and runs under a lock: it must not call the cache.
    pub fn update<R, F>(&self, key: &[u8], change: F) -> Answer<Updated<R>>
    where
        F: FnOnce(Option<&Item>) -> (Change, R) + Send + 'static,
        R: Send + 'static,
    {
        let inner = &*self.0;
        let at = inner.moment();
        let hash = inner.hash(key);
        let mut shard = inner.ram.lock(hash);
        let found = shard.find(hash, key, at, false).ok();
        let item = found.map(|record| record.item(&Read::default()));
        let (change, answer) = change(item.as_ref());
        let applied = inner.apply(&mut shard, hash, key, change, at);
        drop(shard);
        Answer::Ready(Updated { answer, applied })
    }

    /// Removes the item of `key`; whether there was one.
    pub fn remove(&self, key: &[u8]) -> bool {
        let inner = &*self.0;
        let at = inner.moment();
        let hash = inner.hash(key);
        let mut shard = inner.ram.lock(hash);
        let removed = inner.drop_item(&mut shard, hash, key, at);
        drop(shard);
        removed.is_some()
    }

    /// Voids all items: those written until now, or until `at` (seconds since the epoch) when that
    /// time has come. One flush can be set for later at a time.
    pub fn flush_all(&self, at: Option<u32>) {
        match at {
            Some(at) if at > self.0.moment().now => self.0.epochs.flush_at(at),
            _ => self.0.epochs.flush(),
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
                next = self.0.ram.lock_shard(shard).visit(from, STEP, at, |record| {
                    items.push((record.key().to_vec(), record.item(&Read::default())));
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
        let (ram, items) = self.0.ram.counts();
        let memory = self.0.ram.memory();
        CacheStats {
            ram,
            items,
            bytes: self.0.ram.weight(),
            memory_used: memory.used(),
            memory_limit: memory.limit(),
            stored: self.0.stored.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.0.flights
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CacheOptions {
        &self.0.options
    }
}

impl Inner {
    /// Hash of a key. Longer keys than [`LONGEST_KEY`] are never stored, so they hash to nothing.
    fn hash(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed)
    }

    fn moment(&self) -> Moment {
        let now = (self.env.now_ns() / 1_000_000_000).clamp(1, i64::from(u32::MAX)) as u32;
        Moment { now, epoch: self.epochs.at(now) }
    }

    fn get(&self, key: &[u8], read: &Read, at: Moment) -> Lookup {
        let hash = self.hash(key);
        let mut shard = self.ram.lock(hash);
        match shard.find(hash, key, at, !read.quiet) {
            Ok(record) => {
                let item = record.item(read);
                if !read.quiet {
                    record.access(at.now);
                }
                if let Some(expires_at) = read.expires_at {
                    record.expires_at = expires_at;
                }
                shard.counts().hits += 1;
                Lookup::Hit(item)
            }
            Err(why) => {
                shard.counts().count_miss(why);
                Lookup::Miss
            }
        }
    }

    fn apply(&self, shard: &mut Locked, hash: u64, key: &[u8], change: Change, at: Moment) -> Applied {
        match change {
            Change::Keep => Applied::Kept,
            Change::Remove => match self.drop_item(shard, hash, key, at) {
                Some(_) => Applied::Removed,
                None => Applied::Kept,
            },
            Change::Revise(revision) => match shard.find(hash, key, at, revision.accessed) {
                Ok(record) => {
                    record.revise(&revision, at.now);
                    Applied::Revised
                }
                Err(_) => Applied::Kept,
            },
            Change::Write(value, put) => Applied::Written(self.store(shard, hash, key, value, &put, at).0),
        }
    }

    /// Stores a value, or removes what it was meant to replace. Returns the old record too, so that
    /// its memory can be freed after the lock.
    fn store(
        &self,
        shard: &mut Locked,
        hash: u64,
        key: &[u8],
        value: Bytes,
        put: &Put,
        at: Moment,
    ) -> (Stored, Option<Record>) {
        let limit = self.options.max_value;
        if value.len() as u64 > limit || key.len() > LONGEST_KEY {
            return (Stored::TooLarge { limit }, shard.take(hash, key));
        }
        let Some(reserved) = shard.make_room(Record::weight_of(key.len(), value.len()), at) else {
            shard.counts().refused += 1;
            return (Stored::NoMemory, shard.take(hash, key));
        };
        let cas = put.cas.unwrap_or_else(|| self.next_cas.fetch_add(1, Ordering::Relaxed));
        let record = Record::new(key, value, put, cas, at);
        let replaced = shard.store(hash, record, reserved);
        shard.counts().replaced += u64::from(replaced.is_some());
        self.stored.fetch_add(1, Ordering::Relaxed);
        (Stored::Done { cas }, replaced)
    }

    fn drop_item(&self, shard: &mut Locked, hash: u64, key: &[u8], at: Moment) -> Option<Record> {
        shard.find(hash, key, at, false).ok()?;
        shard.counts().removed += 1;
        shard.take(hash, key)
    }
}
