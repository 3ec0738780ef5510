//! What callers ask of a cache and the shapes of its answers.
//!
//! Invariant: a call never blocks. What needs the device is answered by a [`Pending`] future,
//! which works with any runtime: the waker decides where it continues.

use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::hint::Hint;
use crate::item::Item;

/// How to read a key.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The part of the value that is wanted, in bytes; the whole value when `None`.
    pub range: Option<Range<u64>>,
    /// What the caller knows about the value.
    pub hint: Hint,
    /// New expiry of the item, in seconds since the epoch (0 = never), if it shall change.
    pub expires_at: Option<u32>,
    /// The access does not count: not for eviction, not for `fetched` and the last access.
    pub quiet: bool,
}

impl Read {
    /// The whole value, as an access with `hint`.
    pub fn with_hint(hint: Hint) -> Self {
        Self { hint, ..Self::default() }
    }
}

/// How to write a key.
#[derive(Clone, Debug, Default)]
pub struct Put {
    /// The caller's own 32 bits.
    pub flags: u32,
    /// When the item ends, in seconds since the epoch; 0 is never.
    pub expires_at: u32,
    /// What the caller knows about the value.
    pub hint: Hint,
    /// Whose the item is, for shares and churn; 0 is nobody's.
    pub tenant: u32,
    /// What must hold for the write to happen.
    pub condition: Condition,
    /// The item's new version number; the cache's next one when `None`.
    pub cas: Option<u64>,
    /// The item is out of date from the start but still servable.
    pub stale: bool,
    /// Somebody was already told to refresh it.
    pub won: bool,
}

/// What must hold of the present item for a write to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Anything.
    #[default]
    Always,
    /// There is none.
    Absent,
    /// There is one.
    Present,
    /// There is one with this version number.
    Cas(u64),
}

impl Condition {
    /// `None` when a write may happen over an item with version `present`, else what to answer.
    pub(crate) fn refusal(self, present: Option<u64>) -> Option<Stored> {
        match (self, present) {
            (Self::Always, _) | (Self::Absent, None) | (Self::Present, Some(_)) => None,
            (Self::Cas(wanted), Some(cas)) if wanted == cas => None,
            (Self::Absent | Self::Cas(_), Some(_)) => Some(Stored::Exists),
            (Self::Present | Self::Cas(_), None) => Some(Stored::Missing),
        }
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It happened; the item has this version number.
    Done {
        /// The item's version number.
        cas: u64,
    },
    /// It did not: there is an item, and the condition wanted none or another version.
    Exists,
    /// It did not: there is no item, and the condition wanted one.
    Missing,
    /// It did not: the value is larger than `limit` bytes (`CacheOptions::max_value`). An
    /// unconditional write has removed the old item, so that nobody reads what was replaced.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// It did not: no memory could be freed. The old item is gone as with `TooLarge`.
    NoMemory,
}

/// What a read-modify-write does with its item.
#[derive(Clone, Debug)]
pub enum Change {
    /// Nothing.
    Keep,
    /// Removes it.
    Remove,
    /// Changes metadata; the value stays. Nothing when there is no item.
    Revise(Revision),
    /// Stores a new value. The condition in `Put` is not looked at: the closure has decided.
    Write(Bytes, Put),
}

/// New metadata for an item; `None` leaves a field as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    /// When it ends, in seconds since the epoch; 0 is never.
    pub expires_at: Option<u32>,
    /// Version number.
    pub cas: Option<u64>,
    /// Out of date but still servable.
    pub stale: Option<bool>,
    /// Somebody was told to refresh it.
    pub won: Option<bool>,
    /// Counts as an access: for eviction, `fetched` and the last access.
    pub accessed: bool,
}

/// What became of a read-modify-write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated<R> {
    /// What the closure returned.
    pub answer: R,
    /// What was done.
    pub applied: Applied,
}

/// What a [`Change`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing, or there was nothing to do it to.
    Kept,
    /// The item is gone.
    Removed,
    /// Metadata were changed.
    Revised,
    /// The value was written; see [`Stored`] for what that may mean.
    Written(Stored),
}

/// The answer to a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// In memory.
    Hit(Item),
    /// In no tier.
    Miss,
    /// Probably on the device; `None` when it was not there after all.
    Pending(Pending<Option<Item>>),
}

/// An answer that is there at once or needs the device first.
#[derive(Debug)]
pub enum Answer<T> {
    /// There at once.
    Ready(T),
    /// Needs the device.
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

/// An answer under way. Dropping it gives up the answer; a change under way may still happen or not.
pub struct Pending<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> Pending<T> {
    /// An answer that `future` brings.
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
