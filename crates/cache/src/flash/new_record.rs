//! A record to be written, and the purpose of the write.

use super::format::{Class, Marks};

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The key, 1 byte to 8 KiB.
    pub key: &'a [u8],
    /// Its hash, from [`Flash::hash`](super::Flash::hash).
    pub hash: u64,
    /// The value.
    pub value: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// The client's marks.
    pub marks: Marks,
    /// When it expires, in seconds since 1970; 0 for never.
    pub expires_at: u32,
    /// The tenant that owns the record.
    pub tenant: u32,
    /// The unique version that compare-and-swap compares.
    pub cas: u64,
    /// The class, which says how long the record is expected to live.
    pub class: Class,
}

impl<'a> NewRecord<'a> {
    /// A record of tenant 0 that never expires, without flags, marks and version.
    pub fn plain(key: &'a [u8], hash: u64, value: &'a [u8], class: Class) -> Self {
        let marks = Marks::default();
        Self { key, hash, value, flags: 0, marks, expires_at: 0, tenant: 0, cas: 0, class }
    }
}

/// The purpose of a write, which decides what it may replace.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// A new value.
    New,
    /// A copy of the record at this place, if that is still current.
    Again { slot: u32, offset: u32, uses: u8 },
}
