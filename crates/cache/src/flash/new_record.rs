//! A record to be written, and why it is.

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
    /// What was said of it.
    pub marks: Marks,
    /// Seconds since 1970, 0 for never.
    pub expires_at: u32,
    /// Whose it is.
    pub tenant: u32,
    /// The unique number for compare-and-swap.
    pub cas: u64,
    /// How long it is expected to live.
    pub class: Class,
}

impl<'a> NewRecord<'a> {
    /// A record of tenant 0 that never ends, without flags, marks and number.
    pub fn plain(key: &'a [u8], hash: u64, value: &'a [u8], class: Class) -> Self {
        let marks = Marks::default();
        Self { key, hash, value, flags: 0, marks, expires_at: 0, tenant: 0, cas: 0, class }
    }
}

/// Why a record is written, which decides what it may replace.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// A new value.
    New,
    /// The same value as at this place, if it is still current.
    Again { slot: u32, offset: u32, uses: u8 },
}
