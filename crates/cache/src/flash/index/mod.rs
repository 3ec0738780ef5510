//! The index: which keys are on flash and where, in at most 16 bytes each and without the keys.
//!
//! 256 shards, each behind its own short lock. A key is known by its hash: shard, bucket and 36 bits
//! of tag. Two keys that agree in all of these are taken for one (about 1e-7 per lookup at the most
//! that a shard grows); the record's own key then tells, so the worst outcome is a miss.
//!
//! Invariants: an operation looks at two buckets, which are two cache lines; growing moves the
//! entries of one bucket at a time, so no call waits for a table to be copied; the bytes of the
//! table never exceed their limit, and an entry that finds no place is handed back to be counted.

mod entry;
mod shard;

pub use entry::{Entry, Location};
pub use shard::Inserted;
pub(in crate::flash) use shard::{BUCKET_BYTES, ShardImage};

use self::shard::Shard;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of shards: eight bits of the hash.
pub const SHARDS: usize = 256;

/// Bytes of value for which the index has a place before it grows. Most caches hold smaller values,
/// and growing is cheap; memory for places that are never filled is not.
const ASSUMED_VALUE_BYTES: u64 = 256 << 10;

/// Where a key lies on flash. Cheap operations behind short locks; no I/O.
pub struct Index {
    shards: Box<[Mutex<Shard>]>,
}

/// Rows of each shard, for a device of so many bytes: half of its first buckets, at most 2^20.
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

    /// The entry of a key; with `count` it becomes one that was used once more.
    pub fn find(&self, hash: u64, count: bool) -> Option<Entry> {
        self.shard(hash).find(hash, count)
    }

    /// Whether the key has a place.
    pub fn has(&self, hash: u64) -> bool {
        self.shard(hash).find(hash, false).is_some()
    }

    /// Asks for the memory that a call about this key will touch.
    pub fn prefetch(&self, hash: u64) {
        self.shard(hash).prefetch(hash);
    }

    /// Makes `entry` the place of the key.
    pub fn insert(&self, hash: u64, entry: Entry) -> Inserted {
        self.shard(hash).insert(hash, entry)
    }

    /// Makes `entry` the place of the key if the key has none, or one that `may_replace` allows.
    pub fn insert_if(
        &self,
        hash: u64,
        entry: Entry,
        may_replace: impl FnOnce(Option<&Entry>) -> bool,
    ) -> Option<Inserted> {
        let mut shard = self.shard(hash);
        may_replace(shard.find(hash, false).as_ref()).then(|| shard.insert(hash, entry))
    }

    /// Removes the key; its last entry.
    pub fn remove(&self, hash: u64) -> Option<Entry> {
        self.shard(hash).remove_if(hash, |_| true)
    }

    /// Removes the key if it lies at this place.
    pub fn remove_at(&self, hash: u64, slot: u32, offset: u32) -> Option<Entry> {
        self.shard(hash).remove_if(hash, |entry| entry.is_at(slot, offset))
    }

    /// Takes one use from the key if it lies at this place and has one; its entry before.
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

    /// Removes every entry of which `keep` is false; how many.
    pub fn retain(&self, mut keep: impl FnMut(&Entry) -> bool) -> u64 {
        self.shards.iter().map(|shard| lock(shard).retain(&mut keep)).sum()
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(lock(shard).len())).sum()
    }

    /// Bytes of memory, free places included.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).bytes()).sum()
    }

    /// Bytes of the buckets of all images.
    pub(in crate::flash) fn image_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| u64::from(lock(shard).buckets()) * BUCKET_BYTES).sum()
    }

    /// A copy of shard `number` as it is now.
    pub(in crate::flash) fn image_of(&self, number: usize) -> ShardImage {
        lock(&self.shards[number]).image()
    }

    /// Puts the entries of an image of shard `number` under those that are there: see [`Shard::load`].
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
