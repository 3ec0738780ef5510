//! Requests to a cache and the shapes of its answers.
//!
//! Invariant: a call never blocks. If it needs the device, its answer is a [`Pending`] future, which
//! works with any runtime: the waker decides where it continues.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::hint::Hint;
use crate::item::Item;

/// How to read a key.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The requested byte range of the value; `None` for the complete value.
    pub range: Option<Range<u64>>,
    /// What the caller knows about the value.
    pub hint: Hint,
    /// The new expiry of the item, in seconds since the epoch (0 = never); `None` leaves it as it is.
    pub expires_at: Option<u32>,
    /// Whether the access is not counted: eviction, `fetched` and the last access do not change.
    pub quiet: bool,
}

impl Read {
    /// Reads the complete value with `hint`.
    pub fn with_hint(hint: Hint) -> Self {
        Self { hint, ..Self::default() }
    }
}

/// How to write a key.
#[derive(Clone, Debug, Default)]
pub struct Put {
    /// 32 bits of the caller, stored with the value.
    pub flags: u32,
    /// When the item expires, in seconds since the epoch; 0 is never.
    pub expires_at: u32,
    /// What the caller knows about the value.
    pub hint: Hint,
    /// The tenant that owns the item, for shares of flash and for churn; 0 is no tenant.
    pub tenant: u32,
    /// What must hold for the write to happen.
    pub condition: Condition,
    /// The item's new version number; `None` for the cache's next one.
    pub cas: Option<u64>,
    /// Whether the item is out of date from the start but may still be served.
    pub stale: bool,
    /// Whether a client has already been chosen to refresh it.
    pub won: bool,
}

/// Condition on the present item under which a write happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    #[default]
    Always,
    /// There is no item.
    Absent,
    /// There is an item.
    Present,
    /// There is an item with this version number.
    Cas(u64),
}

impl Condition {
    /// `None` if a write over an item with version `present` may happen, otherwise the answer.
    pub(crate) fn refusal(self, present: Option<u64>) -> Option<Stored> {
        match (self, present) {
            (Self::Always, _) | (Self::Absent, None) | (Self::Present, Some(_)) => None,
            (Self::Cas(wanted), Some(cas)) if wanted == cas => None,
            (Self::Absent | Self::Cas(_), Some(_)) => Some(Stored::Exists),
            (Self::Present | Self::Cas(_), None) => Some(Stored::Missing),
        }
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The value was written.
    Done {
        /// The item's version number.
        cas: u64,
    },
    /// Not written: there is an item, and the condition required none or another version.
    Exists,
    /// Not written: there is no item, and the condition required one.
    Missing,
    /// Not written: the value is larger than `limit` bytes (`CacheOptions::max_value`). An unconditional
    /// write has removed the old item, so that no reader gets the replaced value.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Not written: no memory could be freed. The old item is removed as with `TooLarge`.
    NoMemory,
}

/// What a read-modify-write does to its item.
#[derive(Clone, Debug)]
pub enum Change {
    /// Nothing.
    Keep,
    /// Removes it.
    Remove,
    /// Changes metadata and keeps the value. Does nothing when there is no item.
    Revise(Revision),
    /// Stores a new value. The condition in `Put` is ignored, because the closure has decided.
    Write(Bytes, Put),
}

/// New metadata for an item; `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// When the item expires, in seconds since the epoch; 0 is never.
    pub expires_at: Option<u32>,
    /// The version number.
    pub cas: Option<u64>,
    /// Whether the item is out of date but may still be served.
    pub stale: Option<bool>,
    /// Whether a client has been chosen to refresh it.
    pub won: Option<bool>,
    /// Whether the change counts as an access: for eviction, `fetched` and the last access.
    pub accessed: bool,
}

/// The outcome of a read-modify-write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated<R> {
    /// What the closure returned.
    pub answer: R,
    /// What the change did.
    pub applied: Applied,
}

/// What a [`Change`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing, or there was no item to change.
    Kept,
    /// The item was removed.
    Removed,
    /// Metadata was changed.
    Revised,
    /// A value was to be written; [`Stored`] says whether it was.
    Written(Stored),
}

/// The answer to a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// The item, from memory.
    Hit(Item),
    /// The key is in no tier.
    Miss,
    /// The item is probably on flash; the future yields `None` if it is not.
    Pending(Pending<Option<Item>>),
}

/// An answer that is ready at once or needs the device first.
#[derive(Debug)]
pub enum Answer<T> {
    /// The answer, ready at once.
    Ready(T),
    /// The answer after a read of the device.
    Pending(Pending<T>),
}

impl<T> Answer<T> {
    /// Waits for the answer.
    pub async fn wait(self) -> T {
        match self {
            Self::Ready(answer) => answer,
            Self::Pending(pending) => pending.await,
        }
    }
}

impl Lookup {
    /// Waits for the answer; `None` is a miss.
    pub async fn wait(self) -> Option<Item> {
        match self {
            Self::Hit(item) => Some(item),
            Self::Miss => None,
            Self::Pending(pending) => pending.await,
        }
    }
}

/// An answer under way. Dropping it discards the answer; a change under way may happen or not.
pub struct Pending<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Pending<T> {
    /// Wraps `future`, which yields the answer.
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().poll(context)
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}
