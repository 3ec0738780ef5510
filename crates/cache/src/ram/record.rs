//! An item in memory.
//!
//! Key and value of a small item are one allocation, which readers share: a hit increments a counter and
//! copies nothing. A large value stays in the caller's buffer.
//!
//! Invariant: key and value of a record never change; metadata changes under the shard's lock.

use std::sync::Arc;

use bytes::Bytes;

use crate::flash::{Class, FlashItem, Marks, NewRecord};
use crate::hint::Hint;
use crate::item::{Item, ItemMeta, Tier, Value};
use crate::listener::RemovalReason;
use crate::prefetch::prefetch;
use crate::request::{Put, Read, Revision};

/// Up to this size a value is copied next to its key. Copying 16 KiB takes about a microsecond, less
/// than a second allocation with its bookkeeping.
const PACKED_VALUE: usize = 16 << 10;
/// Bytes of the two counters at the start of an `Arc<[u8]>`.
const ARC_HEADER: u64 = 16;
/// Bytes of the shared box of a large value, and of the handle to it.
const LARGE_HEADER: u64 = 32 + 32;

/// One item of the RAM tier. Clones share key and value.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The key, followed by the value if it is small.
    packed: Arc<[u8]>,
    large: Option<Box<Bytes>>,
    pub cas: u64,
    key_length: u16,
    pub fetched: bool,
    pub stale: bool,
    pub won: bool,
    /// Whether the same version was written to flash.
    pub on_flash: bool,
    pub flags: u32,
    pub expires_at: u32,
    /// The flush epoch in which the item was written: see `Epochs`.
    pub epoch: u32,
    pub accessed_at: u32,
    pub stored_at: u32,
    pub tenant: u32,
    pub hint: Hint,
}

/// The time and flush epoch of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Seconds since 1970.
    pub now: u32,
    /// The current flush epoch.
    pub epoch: u32,
}

/// Why an item is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dead {
    Expired,
    Flushed,
}

impl From<Dead> for RemovalReason {
    fn from(dead: Dead) -> Self {
        match dead {
            Dead::Expired => Self::Expired,
            Dead::Flushed => Self::Flushed,
        }
    }
}

impl Record {
    /// Creates a record. Copies `key` and a small `value`; keeps the buffer of a large value.
    pub fn new(key: &[u8], value: Bytes, put: &Put, cas: u64, at: Moment) -> Self {
        let is_large = !Self::is_packed(value.len());
        let packed = join(key, if is_large { &[] } else { &value });
        let large = is_large.then(|| {
            // Cloning some buffers for the first time allocates their shared state: do it here and not
            // on a hit.
            drop(value.clone());
            Box::new(value)
        });
        Self {
            packed,
            large,
            cas,
            key_length: key.len() as u16,
            fetched: false,
            stale: put.stale,
            won: put.won,
            on_flash: false,
            flags: put.flags,
            expires_at: put.expires_at,
            epoch: at.epoch,
            accessed_at: at.now,
            stored_at: at.now,
            tenant: put.tenant,
            hint: put.hint,
        }
    }

    /// A copy of an item on flash. It counts as read, because a read caused the copy.
    pub fn from_flash(key: &[u8], found: &FlashItem, at: Moment) -> Self {
        let is_large = !Self::is_packed(found.value.len());
        // The value from flash is part of a buffer of the device, which must be reused.
        let value = if is_large { Bytes::copy_from_slice(&found.value) } else { found.value.clone() };
        let (flags, expires_at, tenant) = (found.flags, found.expires_at, found.tenant);
        let Marks { stale, won } = found.marks;
        let put = Put { flags, expires_at, tenant, stale, won, ..Put::default() };
        Self { fetched: true, on_flash: true, ..Self::new(key, value, &put, found.cas, at) }
    }

    /// The record to be written to flash; `value` is [`Record::value`].
    pub fn as_new_record<'a>(&'a self, hash: u64, value: &'a Value, class: Class) -> NewRecord<'a> {
        NewRecord {
            key: self.key(),
            hash,
            value,
            flags: self.flags,
            marks: self.marks(),
            expires_at: self.expires_at,
            tenant: self.tenant,
            cas: self.cas,
            class,
        }
    }

    pub fn marks(&self) -> Marks {
        Marks { stale: self.stale, won: self.won }
    }

    /// Whether values of this length are copied next to their key.
    pub fn is_packed(value: usize) -> bool {
        value <= PACKED_VALUE
    }

    /// Bytes that a record with these lengths of key and value occupies, without its entry in the table.
    pub fn weight_of(key: usize, value: usize) -> u64 {
        let (key, value) = (key as u64, value as u64);
        if value > PACKED_VALUE as u64 {
            return allocated(ARC_HEADER + key) + allocated(value) + LARGE_HEADER;
        }
        allocated(ARC_HEADER + key + value)
    }

    pub fn weight(&self) -> u64 {
        Self::weight_of(usize::from(self.key_length), self.length())
    }

    pub fn key(&self) -> &[u8] {
        &self.packed[..usize::from(self.key_length)]
    }

    /// Prefetches the key and the bytes after it.
    pub fn prefetch(&self) {
        /// Counters, a key of usual length, and the start of the value. The processor prefetches the rest.
        const BYTES: usize = 128;
        prefetch(Arc::as_ptr(&self.packed), BYTES);
    }

    /// Bytes of the value.
    pub fn length(&self) -> usize {
        match &self.large {
            Some(value) => value.len(),
            None => self.packed.len() - usize::from(self.key_length),
        }
    }

    /// The key as a handle that keeps the record's bytes alive.
    pub fn shared_key(&self) -> Value {
        Value::packed(Arc::clone(&self.packed), 0..usize::from(self.key_length))
    }

    /// Why the item is not served any more, if it is dead.
    pub fn dead(&self, at: Moment) -> Option<Dead> {
        if self.epoch != at.epoch {
            return Some(Dead::Flushed);
        }
        (self.expires_at != 0 && self.expires_at <= at.now).then_some(Dead::Expired)
    }

    /// The value.
    pub fn value(&self) -> Value {
        match &self.large {
            Some(value) => Value::from(Bytes::clone(value)),
            None => Value::packed(Arc::clone(&self.packed), usize::from(self.key_length)..self.packed.len()),
        }
    }

    /// The item as returned to callers, with its state before the access.
    pub fn item(&self, read: &Read) -> Item {
        let whole = self.value();
        let value = match &read.range {
            Some(range) => whole.slice(range.clone()),
            None => whole,
        };
        let meta = ItemMeta {
            accessed_at: self.accessed_at,
            stored_at: self.stored_at,
            fetched: self.fetched,
            stale: self.stale,
            won: self.won,
            tier: Tier::Ram,
            on_flash: self.on_flash,
        };
        let (flags, cas, expires_at) = (self.flags, self.cas, self.expires_at);
        Item { value, length: self.length() as u64, flags, cas, expires_at, meta }
    }

    /// Notes an access.
    pub fn access(&mut self, now: u32) {
        self.fetched = true;
        self.accessed_at = now;
    }

    pub fn revise(&mut self, revision: &Revision, now: u32) {
        self.expires_at = revision.expires_at.unwrap_or(self.expires_at);
        self.cas = revision.cas.unwrap_or(self.cas);
        self.stale = revision.stale.unwrap_or(self.stale);
        self.won = revision.won.unwrap_or(self.won);
        if revision.accessed {
            self.access(now);
        }
    }
}

/// An allocation with the bytes of `first` and `second`.
fn join(first: &[u8], second: &[u8]) -> Arc<[u8]> {
    let mut joined = Arc::<[u8]>::new_uninit_slice(first.len() + second.len());
    let (start, end) =
        Arc::get_mut(&mut joined).expect("the allocation is not shared yet").split_at_mut(first.len());
    start.write_copy_of_slice(first);
    end.write_copy_of_slice(second);
    // SAFETY: the two writes above cover every byte: `write_copy_of_slice` panics unless the lengths are
    // equal, and `start` and `end` together are the complete slice.
    #[allow(unsafe_code)]
    unsafe {
        joined.assume_init()
    }
}

/// Bytes that the allocator uses for an allocation of `bytes`.
///
/// The size classes of jemalloc (its manual, "size classes"): multiples of 16 up to 128, then four
/// classes to every doubling.
fn allocated(bytes: u64) -> u64 {
    if bytes <= 128 {
        return bytes.max(1).next_multiple_of(16);
    }
    let spacing = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(spacing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &[u8], value: &[u8]) -> Record {
        let at = Moment { now: 5, epoch: 0 };
        Record::new(key, Bytes::copy_from_slice(value), &Put::default(), 1, at)
    }

    #[test]
    fn small_and_large_values_are_read_completely_and_in_part() {
        for length in [0, 1, 100, PACKED_VALUE, PACKED_VALUE + 1, 1 << 20] {
            let value: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let record = record(b"key", &value);
            assert_eq!(record.key(), b"key");
            assert_eq!(record.length(), length);
            let item = record.item(&Read::default());
            assert_eq!(*item.value, *value);
            assert_eq!(item.value.clone().into_bytes(), value);
            let part = record.item(&Read { range: Some(1..50), ..Read::default() });
            assert_eq!(*part.value, value[1.min(length)..50.min(length)]);
            assert_eq!(part.length, length as u64);
        }
    }

    #[test]
    fn a_record_is_at_most_one_and_a_half_cache_lines() {
        assert!(size_of::<Record>() <= 96, "{}", size_of::<Record>());
    }

    #[test]
    fn size_classes_are_those_of_the_allocator() {
        let cases = [(1, 16), (16, 16), (17, 32), (128, 128), (129, 160), (160, 160), (161, 192)];
        let large = [(1024, 1024), (1025, 1280), (1 << 20, 1 << 20), ((1 << 20) + 1, 5 << 18)];
        for (asked, taken) in cases.into_iter().chain(large) {
            assert_eq!(allocated(asked), taken, "{asked}");
        }
    }
}
