//! A shard of the index: buckets of one cache line, two for each key, grown by linear hashing.
//!
//! A bucket is sixteen words: five entries of three words, and a word with six more bits of each tag. The
//! buckets form a table of `base` rows and a growing number of columns: a shard at level `k` with `s` buckets
//! split has `base * 2^k + s` buckets. A key has two homes. Each is a row and a column, of which the lowest
//! `k` bits count (`k + 1` where the bucket is split). Row and column of a home can be computed from those of
//! the other home and the tag, so that entries move between homes, and to the new halves of split buckets,
//! without their keys. The lowest bit of the column differs between the two homes and distinguishes them.
//!
//! Invariants: every entry is in one of its key's two homes; no tag occurs twice in them.

use super::entry::Entry;
use crate::prefetch::prefetch;

pub(in crate::flash) const BUCKET_BYTES: u64 = 64;
const SLOTS: usize = 5;
const WORDS: usize = 16;
const TAG_BITS: u32 = 36;

/// Number of buckets allocated together: 1 KiB.
const CHUNK: usize = 16;

/// A shard grows when more than this fraction of its entries is in use. 64 bytes for 4.5 entries are
/// 14.2 bytes each.
const LOAD: (u64, u64) = (90, 100);

/// Entries moved to their other home before the shard grows for the last one.
const MOVES_MAX: usize = 100;

/// Buckets split for one entry before that entry is dropped.
const SPLITS_FOR_ONE: usize = 8;

/// A column number has up to this many bits of the tag. More would leave too few bits to distinguish keys.
const LEVEL_MAX: u32 = 16;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Bucket([u32; WORDS]);

/// The outcome of an insertion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// The entry that the key had before.
    pub replaced: Option<Entry>,
    /// An entry, of any key, that found no place.
    pub dropped: Option<Entry>,
}

/// A shard. See the module.
pub(in crate::flash) struct Shard {
    #[allow(clippy::vec_box)] // boxed, so that growth moves pointers instead of buckets
    chunks: Vec<Box<[Bucket; CHUNK]>>,
    base: u32,
    level: u32,
    /// Buckets of this level that are already split.
    split: u32,
    entries: u32,
    buckets_max: u32,
    /// State of the generator that chooses which entry of a full bucket is moved.
    turn: u32,
}

/// A copy of a shard.
pub(in crate::flash) struct ShardImage {
    pub level: u32,
    pub split: u32,
    pub entries: u32,
    /// Sixteen words for each bucket.
    pub words: Vec<u32>,
}

/// A hash split into the parts that a shard uses.
#[derive(Clone, Copy)]
struct Key {
    /// The row of the first home; its column is the tag's low bits.
    row: u32,
    tag: u64,
}

impl Key {
    fn new(hash: u64, base: u32) -> Self {
        Self { row: (hash >> 8) as u32 & (base - 1), tag: hash >> (64 - TAG_BITS) }
    }

    /// Differences between the rows and the columns of the two homes, the same in both directions.
    fn step(tag: u64) -> (u32, u32) {
        let mixed = tag.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed >> 40) as u32, (mixed >> 20) as u32 | 1)
    }
}

impl Bucket {
    const EMPTY: Self = Self([0; WORDS]);

    fn is_taken(&self, slot: usize) -> bool {
        self.0[3 * slot + 2] != 0
    }

    fn tag(&self, slot: usize) -> u64 {
        let low = u64::from(self.0[3 * slot] & 0x3FFF_FFFF);
        low | u64::from(self.0[WORDS - 1] >> (6 * slot) & 0x3F) << 30
    }

    fn entry(&self, slot: usize) -> Entry {
        Entry::unpack([self.0[3 * slot], self.0[3 * slot + 1], self.0[3 * slot + 2]])
    }

    fn put(&mut self, slot: usize, tag: u64, entry: &Entry) {
        let [first, second, third] = entry.pack();
        self.0[3 * slot] = first | (tag & 0x3FFF_FFFF) as u32;
        (self.0[3 * slot + 1], self.0[3 * slot + 2]) = (second, third);
        let shift = 6 * slot;
        self.0[WORDS - 1] = self.0[WORDS - 1] & !(0x3F << shift) | ((tag >> 30) as u32) << shift;
    }

    fn clear(&mut self, slot: usize) {
        self.0[3 * slot + 2] = 0;
    }

    fn position(&self, tag: u64) -> Option<usize> {
        (0..SLOTS).find(|&slot| self.is_taken(slot) && self.tag(slot) == tag)
    }

    fn free(&self) -> Option<usize> {
        (0..SLOTS).find(|&slot| !self.is_taken(slot))
    }

    fn taken(&self) -> usize {
        (0..SLOTS).filter(|&slot| self.is_taken(slot)).count()
    }
}

impl Shard {
    /// `base` is a power of two. The shard begins with twice as many buckets.
    pub fn new(base: u32, buckets_max: u32) -> Self {
        let (level, split, entries, turn) = (1, 0, 0, 0);
        let mut shard = Self { chunks: Vec::new(), base, level, split, entries, buckets_max, turn };
        shard.reserve_buckets(base << level);
        shard
    }

    pub fn len(&self) -> u32 {
        self.entries
    }

    pub fn bytes(&self) -> u64 {
        (self.chunks.len() * CHUNK) as u64 * BUCKET_BYTES + (self.chunks.capacity() * 8) as u64
    }

    pub fn find(&mut self, hash: u64, count: bool) -> Option<Entry> {
        let (bucket, slot) = self.position(Key::new(hash, self.base))?;
        let bucket = self.bucket_mut(bucket);
        let mut entry = bucket.entry(slot);
        if count {
            let before = entry;
            entry.is_fetched = true;
            entry.frequency = (entry.frequency + 1).min(3);
            if entry != before {
                let tag = bucket.tag(slot);
                bucket.put(slot, tag, &entry);
            }
            return Some(before);
        }
        Some(entry)
    }

    /// Prefetches both homes of a key.
    pub fn prefetch(&self, hash: u64) {
        let homes = self.homes(Key::new(hash, self.base));
        homes.into_iter().for_each(|home| prefetch(self.bucket(home), BUCKET_BYTES as usize));
    }

    pub fn update(&mut self, hash: u64, change: impl FnOnce(&mut Entry)) -> bool {
        let Some((bucket, slot)) = self.position(Key::new(hash, self.base)) else { return false };
        let bucket = self.bucket_mut(bucket);
        let (tag, mut entry) = (bucket.tag(slot), bucket.entry(slot));
        change(&mut entry);
        bucket.put(slot, tag, &entry);
        true
    }

    pub fn remove_if(&mut self, hash: u64, condition: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        let (bucket, slot) = self.position(Key::new(hash, self.base))?;
        let bucket = self.bucket_mut(bucket);
        let entry = bucket.entry(slot);
        if !condition(&entry) {
            return None;
        }
        bucket.clear(slot);
        self.entries -= 1;
        Some(entry)
    }

    pub fn insert(&mut self, hash: u64, entry: Entry) -> Inserted {
        self.insert_key(Key::new(hash, self.base), entry)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Entry) -> bool) -> u64 {
        let mut removed = 0;
        for bucket in self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut()) {
            for slot in 0..SLOTS {
                if bucket.is_taken(slot) && !keep(&bucket.entry(slot)) {
                    bucket.clear(slot);
                    removed += 1;
                }
            }
        }
        self.entries -= removed;
        u64::from(removed)
    }

    pub fn image(&self) -> ShardImage {
        let buckets = (0..self.buckets()).map(|bucket| self.bucket(bucket));
        let words = buckets.flat_map(|bucket| bucket.0).collect();
        ShardImage { level: self.level, split: self.split, entries: self.entries, words }
    }

    /// Loads an image below the entries that are here, which are newer and stay. Returns the outcomes of
    /// their insertions, or `None` if the image does not fit, because the limit was lowered or the shard
    /// has grown larger.
    pub fn load(
        &mut self,
        image: &ShardImage,
        mut keep: impl FnMut(&Entry) -> bool,
    ) -> Option<Vec<Inserted>> {
        if image.level == 0 || image.level > LEVEL_MAX {
            return None;
        }
        let buckets = self.base as usize * (1 << image.level) + image.split as usize;
        let is_fitting = (self.buckets() as usize..=self.buckets_max as usize).contains(&buckets);
        if image.words.len() != buckets * WORDS || !is_fitting {
            return None;
        }
        let newer = std::mem::replace(self, Self::new(self.base, self.buckets_max));
        (self.level, self.split) = (image.level, image.split);
        self.reserve_buckets(buckets as u32);
        for (number, words) in image.words.chunks_exact(WORDS).enumerate() {
            let Ok(words) = words.try_into() else { continue };
            let mut bucket = Bucket(words);
            for slot in 0..SLOTS {
                if bucket.is_taken(slot) && !keep(&bucket.entry(slot)) {
                    bucket.clear(slot);
                }
            }
            self.entries += bucket.taken() as u32;
            *self.bucket_mut(number as u32) = bucket;
        }
        let mut displaced = Vec::new();
        for number in 0..newer.buckets() {
            let bucket = newer.bucket(number);
            for slot in (0..SLOTS).filter(|&slot| bucket.is_taken(slot)) {
                let key = newer.key_at(number, bucket.tag(slot));
                displaced.push(self.insert_key(key, bucket.entry(slot)));
            }
        }
        Some(displaced)
    }

    fn insert_key(&mut self, key: Key, entry: Entry) -> Inserted {
        if let Some((bucket, slot)) = self.position(key) {
            let bucket = self.bucket_mut(bucket);
            let replaced = Some(bucket.entry(slot));
            bucket.put(slot, key.tag, &entry);
            return Inserted { replaced, dropped: None };
        }
        while self.is_loaded() && self.split_one() {}
        self.entries += 1;
        let mut homeless = self.place(key, entry);
        for _ in 0..SPLITS_FOR_ONE {
            let Some((key, entry)) = homeless else { break };
            if !self.split_one() {
                break;
            }
            homeless = self.place(key, entry);
        }
        self.entries -= u32::from(homeless.is_some());
        Inserted { replaced: None, dropped: homeless.map(|(_, entry)| entry) }
    }

    fn position(&self, key: Key) -> Option<(u32, usize)> {
        let [first, second] = self.homes(key);
        if let Some(slot) = self.bucket(first).position(key.tag) {
            return Some((first, slot));
        }
        self.bucket(second).position(key.tag).map(|slot| (second, slot))
    }

    /// Finds a place for the entry, moving others if necessary. Returns the entry, of any key, that
    /// remains without one.
    fn place(&mut self, key: Key, entry: Entry) -> Option<(Key, Entry)> {
        let [first, second] = self.homes(key);
        let emptier = if self.bucket(second).taken() < self.bucket(first).taken() { second } else { first };
        let (mut bucket, mut key, mut entry) = (emptier, key, entry);
        for _ in 0..MOVES_MAX {
            if let Some(slot) = self.bucket(bucket).free().or_else(|| self.make_room(bucket)) {
                self.bucket_mut(bucket).put(slot, key.tag, &entry);
                return None;
            }
            self.turn = self.turn.wrapping_mul(0x9E37_79B1).wrapping_add(1);
            let slot = (self.turn >> 16) as usize % SLOTS;
            let moved = self.key_at(bucket, self.bucket(bucket).tag(slot));
            let full = self.bucket_mut(bucket);
            let moved_entry = full.entry(slot);
            full.put(slot, key.tag, &entry);
            (key, entry) = (moved, moved_entry);
            bucket = self.other_home(key, bucket);
        }
        Some((key, entry))
    }

    /// Moves an entry of a full bucket to its other home, if one of the five has room there, and returns
    /// the free slot. All five homes are loaded together, because each load probably misses the
    /// processor's caches.
    fn make_room(&mut self, bucket: u32) -> Option<usize> {
        let full = *self.bucket(bucket);
        let keys: [Key; SLOTS] = std::array::from_fn(|slot| self.key_at(bucket, full.tag(slot)));
        let others = keys.map(|key| self.other_home(key, bucket));
        let free = others.map(|other| self.bucket(other).free());
        let slot = free.iter().position(Option::is_some)?;
        let (other, free) = (others[slot], free[slot]?);
        self.bucket_mut(other).put(free, keys[slot].tag, &full.entry(slot));
        self.bucket_mut(bucket).clear(slot);
        Some(slot)
    }

    fn other_home(&self, key: Key, home: u32) -> u32 {
        let [first, second] = self.homes(key);
        if first == home { second } else { first }
    }

    fn is_loaded(&self) -> bool {
        let places = u64::from(self.buckets()) * SLOTS as u64;
        u64::from(self.entries) * LOAD.1 >= places * LOAD.0
    }

    /// Splits the next bucket into two, unless the shard has its largest size.
    fn split_one(&mut self) -> bool {
        if self.buckets() >= self.buckets_max || self.level >= LEVEL_MAX {
            return false;
        }
        let (low, high) = (self.split, self.split + (self.base << self.level));
        self.reserve_buckets(high + 1);
        let mut upper = Bucket::EMPTY;
        let whole = *self.bucket(low);
        let mut lower = whole;
        for slot in (0..SLOTS).filter(|&slot| whole.is_taken(slot)) {
            let tag = whole.tag(slot);
            let step = if self.is_first_home(low, tag) { 0 } else { Key::step(tag).1 };
            if (tag as u32 ^ step) >> self.level & 1 == 1 {
                upper.put(slot, tag, &whole.entry(slot));
                lower.clear(slot);
            }
        }
        *self.bucket_mut(low) = lower;
        *self.bucket_mut(high) = upper;
        self.split += 1;
        if self.split == self.base << self.level {
            (self.level, self.split) = (self.level + 1, 0);
        }
        true
    }

    fn homes(&self, key: Key) -> [u32; 2] {
        let (row_step, column_step) = Key::step(key.tag);
        let column = key.tag as u32;
        let second_row = (key.row ^ row_step) & (self.base - 1);
        [self.home(key.row, column), self.home(second_row, column ^ column_step)]
    }

    fn home(&self, row: u32, column: u32) -> u32 {
        let grown = |level: u32| row + self.base * (column & ((1 << level) - 1));
        let bucket = grown(self.level);
        if bucket < self.split { grown(self.level + 1) } else { bucket }
    }

    /// The key of the entry with this tag in `bucket`.
    fn key_at(&self, bucket: u32, tag: u64) -> Key {
        let row = if self.is_first_home(bucket, tag) { bucket } else { bucket ^ Key::step(tag).0 };
        Key { row: row & (self.base - 1), tag }
    }

    fn is_first_home(&self, bucket: u32, tag: u64) -> bool {
        (bucket / self.base) & 1 == tag as u32 & 1
    }

    pub fn buckets(&self) -> u32 {
        (self.base << self.level) + self.split
    }

    fn reserve_buckets(&mut self, buckets: u32) {
        while self.chunks.len() * CHUNK < buckets as usize {
            self.chunks.push(Box::new([Bucket::EMPTY; CHUNK]));
        }
    }

    fn bucket(&self, number: u32) -> &Bucket {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn bucket_mut(&mut self, number: u32) -> &mut Bucket {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Index, SHARDS};
    use super::*;
    use crate::flash::expiry::Coarse;
    use crate::flash::index::Location;
    use std::collections::HashMap;

    fn entry(number: u32) -> Entry {
        let (slot, offset) = (number >> 20, number & 0xF_FFFF);
        let location = Location { slot, offset, units: 7, expiry: Coarse::UNKNOWN, is_large: false };
        Entry::new(location)
    }

    fn hash(number: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), 42)
    }

    #[test]
    fn a_million_keys_take_at_most_sixteen_bytes_each_at_every_size() {
        let index = Index::new(8, u64::MAX);
        let mut dropped = 0;
        for number in 0..1_000_000_u32 {
            let outcome = index.insert(hash(u64::from(number)), entry(number));
            assert_eq!(outcome.replaced, None, "36 bits of tag do not collide among a million keys");
            dropped += u64::from(outcome.dropped.is_some());
            if number >= 250_000 && number.is_multiple_of(50_000) {
                let each = index.bytes() as f64 / index.len() as f64;
                assert!(each <= 16.0, "{each} bytes for each of {number} keys");
            }
        }
        println!("{} bytes each, {dropped} dropped", index.bytes() as f64 / index.len() as f64);
        assert!(dropped < 100, "{dropped} of a million found no room");
        let found = (0..1_000_000_u32)
            .filter(|&n| index.find(hash(u64::from(n)), false) == Some(entry(n)))
            .count() as u64;
        assert_eq!((found, index.len()), (1_000_000 - dropped, 1_000_000 - dropped));
        let strangers = (1_000_000..2_000_000).filter(|&n| index.find(hash(n), false).is_some()).count();
        assert!(strangers <= 1, "{strangers} absent keys were found");
    }

    #[test]
    fn a_full_index_returns_entries_and_stays_within_its_limit() {
        let index = Index::new(8, 1 << 20);
        let mut dropped = 0;
        for number in 0..100_000_u32 {
            dropped += u64::from(index.insert(hash(u64::from(number)), entry(number)).dropped.is_some());
        }
        assert_eq!(index.len() + dropped, 100_000);
        assert!(index.bytes() <= (1 << 20) + SHARDS as u64 * 3072, "{} bytes", index.bytes());
        assert!(index.len() > 70_000, "{} entries in a MiB", index.len());
    }

    #[test]
    fn a_growing_index_answers_like_a_map() {
        let index = Index::new(8, u64::MAX);
        let mut model: HashMap<u64, u32> = HashMap::new();
        let mut random = 1_u64;
        for step in 0..300_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = hash(random >> 33 & 0xFFFF);
            match random >> 60 {
                0..=8 => {
                    let outcome = index.insert(key, entry(step));
                    assert_eq!(outcome.replaced, model.insert(key, step).map(entry));
                    assert_eq!(outcome.dropped, None);
                }
                9..=11 => assert_eq!(index.remove(key), model.remove(&key).map(entry)),
                12 => {
                    let at = model.get(&key).copied().unwrap_or(step);
                    let gone = index.remove_at(key, at >> 20, at & 0xF_FFFF);
                    assert_eq!(gone, model.remove(&key).map(entry));
                }
                _ => assert_eq!(index.find(key, false), model.get(&key).copied().map(entry)),
            }
        }
        assert_eq!(index.len(), model.len() as u64);
    }

    #[test]
    fn a_loaded_image_does_not_replace_newer_entries() {
        let (old, new) = (Index::new(8, u64::MAX), Index::new(8, u64::MAX));
        for number in 0..50_000 {
            old.insert(hash(u64::from(number)), entry(number));
        }
        for number in 0..500 {
            new.insert(hash(u64::from(number) * 7), entry(1_000_000 + number));
        }
        for shard in 0..SHARDS {
            new.load(shard, &old.image_of(shard), |entry| entry.location.offset % 2 == 0);
        }
        for number in 0..50_000_u32 {
            let expected = match number {
                n if n % 7 == 0 && n / 7 < 500 => Some(entry(1_000_000 + n / 7)),
                n if n % 2 == 0 => Some(entry(n)),
                _ => None,
            };
            assert_eq!(new.find(hash(u64::from(number)), false), expected, "key {number}");
        }
    }

    #[test]
    fn uses_are_counted() {
        let index = Index::new(8, u64::MAX);
        index.insert(1, entry(5));
        assert!(!index.find(1, true).unwrap().is_fetched);
        for _ in 0..9 {
            index.find(1, true);
        }
        let found = index.find(1, false).unwrap();
        assert_eq!((found.frequency, found.is_fetched, found.location), (3, true, entry(5).location));
    }
}
