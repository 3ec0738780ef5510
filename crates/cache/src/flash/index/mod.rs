//! The index: the keys on flash and their places, in at most 16 bytes each and without the keys.
//!
//! 256 shards, each with its own lock, which is held briefly. A key is identified by its hash: shard,
//! bucket and 36 bits of tag. Two keys that agree in all of these are taken for one, with a probability
//! of about 1e-7 per lookup at a shard's largest size. The key in the record then differs, so the worst
//! outcome is a miss.
//!
//! Invariants: an operation looks at two buckets, which are two cache lines. Growth moves the entries of
//! one bucket at a time, so that no call waits for the copy of a table. The bytes of the table never
//! exceed their limit; an entry that finds no place is returned to the caller, which counts it.

mod entry;
mod shard;

pub use entry::{Entry, Location};
pub use shard::Inserted;
pub(in crate::flash) use shard::{BUCKET_BYTES, ShardImage};

use self::shard::Shard;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of shards: eight bits of the hash.
pub const SHARDS: usize = 256;

/// Assumed bytes of a value, from which the initial size follows. Most caches hold smaller values; the
/// index then grows, which is cheap, while memory of entries that are never filled is not.
const ASSUMED_VALUE_BYTES: u64 = 256 << 10;

/// The places of keys on flash. Cheap operations under short locks; no I/O.
pub struct Index {
    shards: Box<[Mutex<Shard>]>,
}

/// Rows of each shard for a device of `device_bytes` bytes: half of its first buckets, at most 2^20.
pub fn initial_rows(device_bytes: u64) -> u32 {
    let values = device_bytes / ASSUMED_VALUE_BYTES;
    let wanted = (values / (SHARDS as u64 * 5 * 2)).clamp(8, 1 << 20);
    1 << wanted.ilog2()
}

impl Index {
    /// An empty index of `shard_rows` rows per shard that grows up to `bytes_max`.
    pub fn new(shard_rows: u32, bytes_max: u64) -> Self {
        let buckets_max = bytes_max / BUCKET_BYTES / SHARDS as u64;
        let buckets_max = u32::try_from(buckets_max).unwrap_or(u32::MAX).max(2 * shard_rows);
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new(shard_rows, buckets_max)));
        Self { shards: shards.collect() }
    }

    /// The entry of a key. With `count` a use of it is counted.
    pub fn find(&self, hash: u64, count: bool) -> Option<Entry> {
        self.shard(hash).find(hash, count)
    }

    /// Whether the key is in the index.
    pub fn has(&self, hash: u64) -> bool {
        self.shard(hash).find(hash, false).is_some()
    }

    /// Prefetches the memory that a call for this key will touch.
    pub fn prefetch(&self, hash: u64) {
        self.shard(hash).prefetch(hash);
    }

    /// Sets the entry of the key.
    pub fn insert(&self, hash: u64, entry: Entry) -> Inserted {
        self.shard(hash).insert(hash, entry)
    }

    /// Sets the entry of the key if `may_replace` returns true for its present entry, or for `None`.
    pub fn insert_if(
        &self,
        hash: u64,
        entry: Entry,
        may_replace: impl FnOnce(Option<&Entry>) -> bool,
    ) -> Option<Inserted> {
        let mut shard = self.shard(hash);
        may_replace(shard.find(hash, false).as_ref()).then(|| shard.insert(hash, entry))
    }

    /// Removes the key and returns its entry.
    pub fn remove(&self, hash: u64) -> Option<Entry> {
        self.shard(hash).remove_if(hash, |_| true)
    }

    /// Removes the key if its record is at this place.
    pub fn remove_at(&self, hash: u64, slot: u32, offset: u32) -> Option<Entry> {
        self.shard(hash).remove_if(hash, |entry| entry.is_at(slot, offset))
    }

    /// Takes a use from the key if its record is at this place and has uses left. Returns the entry before.
    pub fn spend_use(&self, hash: u64, slot: u32, offset: u32) -> Option<Entry> {
        let mut shard = self.shard(hash);
        let entry =
            shard.find(hash, false).filter(|entry| entry.is_at(slot, offset) && entry.frequency > 0)?;
        shard.update(hash, |entry| entry.frequency -= 1);
        Some(entry)
    }

    /// Changes the coarse expiry of the key.
    pub fn set_expiry(&self, hash: u64, expiry: super::expiry::Coarse) -> bool {
        self.shard(hash).update(hash, |entry| entry.location.expiry = expiry)
    }

    /// Removes every entry for which `keep` returns false, and returns their number.
    pub fn retain(&self, mut keep: impl FnMut(&Entry) -> bool) -> u64 {
        self.shards.iter().map(|shard| lock(shard).retain(&mut keep)).sum()
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(lock(shard).len())).sum()
    }

    /// Bytes of memory, including free entries.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).bytes()).sum()
    }

    /// Bytes of the buckets of all images.
    pub(in crate::flash) fn image_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(lock(shard).buckets()) * BUCKET_BYTES).sum()
    }

    /// A copy of the current state of shard `number`.
    pub(in crate::flash) fn image_of(&self, number: usize) -> ShardImage {
        lock(&self.shards[number]).image()
    }

    /// Adds the entries of an image of shard `number` below those that are there: see [`Shard::load`].
    pub(in crate::flash) fn load(
        &self,
        number: usize,
        image: &ShardImage,
        keep: impl FnMut(&Entry) -> bool,
    ) -> Option<Vec<Inserted>> {
        lock(&self.shards[number]).load(image, keep)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[hash as usize % SHARDS])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
