//! The removal listener: it hears of items that leave memory by themselves.
//!
//! Invariant: an item is told of at most once, under the lock of its shard: a listener must be quick
//! and must not call the cache. What a caller removes or replaces is not told.

use std::fmt::Debug;

/// Hears of items that leave memory.
pub trait RemovalListener: Debug + Send + Sync {
    /// `item` has left.
    fn removed(&self, item: &RemovedItem<'_>);
}

/// An item that has left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedItem<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Bytes of its value.
    pub length: u64,
    /// The caller's own 32 bits.
    pub flags: u32,
    /// When it ended or would have, in seconds since the epoch; 0 is never.
    pub expires_at: u32,
    /// When it was last accessed or stored, in seconds since the epoch.
    pub accessed_at: u32,
    /// Whether it was read since it was stored.
    pub fetched: bool,
    /// Why it left.
    pub why: RemovalReason,
    /// Whether a lookup found it dead; otherwise room was needed or a pass came by.
    pub looked_up: bool,
    /// Now, in seconds since the epoch.
    pub now: u32,
}

/// Why an item leaves memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// It made way for others.
    Evicted,
    /// It had ended.
    Expired,
    /// A `flush_all` had voided it.
    Flushed,
}
