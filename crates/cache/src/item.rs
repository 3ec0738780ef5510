//! What a lookup hands out: a value with its metadata.
//!
//! Invariant: a [`Value`] is immutable and stays readable for as long as it is held, whatever
//! happens to its key meanwhile.

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
    /// Bytes `range` of a record that holds other bytes too.
    ///
    /// Panics when `range` reaches beyond the record.
    pub(crate) fn packed(record: Arc<[u8]>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= record.len(), "a value within its record");
        Self(Kind::Packed { record, start: range.start, end: range.end })
    }

    /// The part of the value that `range` names, cut at its end.
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

/// A value with everything that is known of it.
#[derive(Clone, Debug)]
pub struct Item {
    /// The value, or the part of it that was asked for.
    pub value: Value,
    /// Bytes of the whole value.
    pub length: u64,
    /// The caller's own 32 bits, returned as they were stored.
    pub flags: u32,
    /// Number of this version of the item: changes with every write.
    pub cas: u64,
    /// When the item ends, in seconds since the epoch; 0 is never.
    pub expires_at: u32,
    /// How the item was used until this access.
    pub meta: ItemMeta,
}

impl Item {
    /// Seconds that the item has left at `now`; `None` when it never ends.
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
    /// Whether it was marked as out of date but still servable.
    pub stale: bool,
    /// Whether some client was told that it alone shall refresh the item.
    pub won: bool,
    /// Where the value was found.
    pub tier: Tier,
    /// Whether it lies on flash.
    pub on_flash: bool,
}

/// A place that answers a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Memory.
    Ram,
    /// The flash device.
    Flash,
    /// Neither: the value was fetched from where it comes from.
    Origin,
}
