//! The removal listener, which receives the items that leave memory without a caller's request.
//!
//! Invariant: the listener receives an item at most once, under the lock of its shard. It must be quick
//! and must not call the cache. Items that a caller removes or replaces are not reported.

use std::fmt::Debug;

/// Receives items that leave memory.
pub trait RemovalListener: Debug + Send + Sync {
    /// Called for each item that has left memory.
    fn removed(&self, item: &RemovedItem<'_>);
}

/// An item that has left memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedItem<'a> {
    /// The key of the item.
    pub key: &'a [u8],
    /// Length of the value in bytes.
    pub length: u64,
    /// 32 bits of the caller, as they were stored.
    pub flags: u32,
    /// When it expires or would have, in seconds since the epoch; 0 is never.
    pub expires_at: u32,
    /// When it was last accessed or stored, in seconds since the epoch.
    pub accessed_at: u32,
    /// Whether it was read since it was stored.
    pub fetched: bool,
    /// Why it has left.
    pub why: RemovalReason,
    /// Whether a lookup found it dead. Otherwise it was removed to make room or by a pass over the
    /// items.
    pub looked_up: bool,
    /// Now, in seconds since the epoch.
    pub now: u32,
}

/// Why an item leaves memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// It was evicted to make room.
    Evicted,
    /// It had expired.
    Expired,
    /// A `flush_all` had voided it.
    Flushed,
}
