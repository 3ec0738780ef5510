//! Items: the values that lookups return, with their metadata.
//!
//! Invariant: a [`Value`] is immutable and stays readable while it is held, even when its key is
//! replaced or removed meanwhile.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;

/// The bytes of a value. Cloning shares them and allocates nothing.
#[derive(Clone)]
pub struct Value(Kind);

#[derive(Clone)]
enum Kind {
    /// A small value: part of the allocation that also holds its key.
    Packed { record: Arc<[u8]>, start: usize, end: usize },
    /// A large value in a buffer of its own.
    Shared(Bytes),
}

impl Value {
    /// Returns a value that is the bytes `range` of a record, which holds other bytes too.
    ///
    /// Panics when `range` reaches beyond the record.
    pub(crate) fn packed(record: Arc<[u8]>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= record.len(), "a value is within its record");
        Self(Kind::Packed { record, start: range.start, end: range.end })
    }

    /// Returns the bytes `range` of the value. A range that ends beyond the value is cut at its end.
    pub fn slice(&self, range: Range<u64>) -> Self {
        let length = self.len() as u64;
        let (from, to) = (range.start.min(length) as usize, range.end.min(length) as usize);
        let to = to.max(from);
        match &self.0 {
            Kind::Packed { record, start, .. } => {
                let (start, end) = (start + from, start + to);
                Self(Kind::Packed { record: Arc::clone(record), start, end })
            }
            Kind::Shared(bytes) => Self(Kind::Shared(bytes.slice(from..to))),
        }
    }

    /// The value as [`Bytes`], without copying it.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Kind::Shared(bytes) => bytes,
            packed => Bytes::from_owner(Self(packed)),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Packed { record, start, end } => &record[*start..*end],
            Kind::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Bytes> for Value {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Shared(bytes))
    }
}

impl From<Value> for Bytes {
    fn from(value: Value) -> Self {
        value.into_bytes()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

/// A value with its metadata.
#[derive(Clone, Debug)]
pub struct Item {
    /// The value, or the requested part of it.
    pub value: Value,
    /// Bytes of the complete value.
    pub length: u64,
    /// 32 bits of the caller, returned as they were stored.
    pub flags: u32,
    /// The version of the item, which every write changes.
    pub cas: u64,
    /// When the item expires, in seconds since the epoch; 0 is never.
    pub expires_at: u32,
    /// How the item was used before this access.
    pub meta: ItemMeta,
}

impl Item {
    /// Seconds from `now` until the item expires; `None` if it never does.
    pub fn seconds_left(&self, now: u32) -> Option<u32> {
        (self.expires_at != 0).then(|| self.expires_at.saturating_sub(now))
    }
}

/// The state of an item before the access that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemMeta {
    /// When it was last accessed (or stored), in seconds since the epoch.
    pub accessed_at: u32,
    /// When it was stored, in seconds since the epoch.
    pub stored_at: u32,
    /// Whether it was read since it was stored.
    pub fetched: bool,
    /// Whether it is marked as out of date but may still be served.
    pub stale: bool,
    /// Whether a client has already been chosen to refresh the item.
    pub won: bool,
    /// The tier that answered.
    pub tier: Tier,
    /// Whether a copy is on flash.
    pub on_flash: bool,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Memory.
    Ram,
    /// The flash device.
    Flash,
    /// Neither: the value was fetched from its origin.
    Origin,
}
