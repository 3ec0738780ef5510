//! How many requests of a class may be under way at once.
//!
//! Every class has its own slots, so a storm of queries (block reads) can never take the slots of
//! the WAL or the catalog. A slot is held for one attempt only, never across a pause, and nobody
//! holds one slot while waiting for another: no deadlock. Slots are given in order of arrival.
//! [`Slot::finish`] learns each attempt's outcome: the place where an adaptive window goes later.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::classify::Failure;
use crate::intent::Class;

/// The slots of all classes.
pub(crate) struct Gate([Arc<Semaphore>; Class::ALL.len()]);

/// The right to have one request under way. Dropping it frees the slot.
pub(crate) struct Slot(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Gate {
    /// Slots for a store over a network, where latency wants many requests in flight.
    pub fn bucket() -> Self {
        Self::with(|class| match class {
            Class::Wal => 16,
            Class::Block => 64,
            Class::Catalog => 16,
            Class::Gc => 8,
            Class::Member | Class::Probe => 4,
        })
    }

    /// Slots for a local directory, where each request occupies a thread.
    pub fn local() -> Self {
        Self::with(|class| match class {
            Class::Block => 32,
            Class::Wal | Class::Catalog => 8,
            Class::Gc | Class::Member | Class::Probe => 4,
        })
    }

    fn with(slots: impl Fn(Class) -> usize) -> Self {
        Self(Class::ALL.map(|class| Arc::new(Semaphore::new(slots(class)))))
    }

    /// Waits for a slot.
    pub async fn enter(&self, class: Class) -> Slot {
        let semaphore = Arc::clone(&self.0[class.index()]);
        Slot(semaphore.acquire_owned().await.expect("the gate is never closed"))
    }
}

impl Slot {
    /// The attempt ended: by success, or by this failure.
    pub fn finish(self, _failure: Option<&Failure>) {}
}
