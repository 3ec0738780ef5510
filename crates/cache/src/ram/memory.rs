//! The budget of a cache's memory: every byte that grows with use is reserved here first.
//!
//! Invariant: reserved bytes never exceed the limit, except those of [`Memory::take_anyway`]. The tier
//! then evicts until the excess is gone before it reserves more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in use, and a limit that may be changed at any time.
#[derive(Debug)]
pub(crate) struct Memory {
    limit: AtomicU64,
    used: AtomicU64,
}

impl Memory {
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit: AtomicU64::new(limit), used: AtomicU64::new(0) })
    }

    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes by which use exceeds the limit.
    pub fn excess(&self) -> u64 {
        self.used().saturating_sub(self.limit())
    }

    /// Reserves `bytes` if they fit.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        let limit = self.limit();
        let grow = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grow).ok()?;
        Some(Reserved { memory: Arc::clone(self), bytes })
    }

    /// Reserves `bytes` even if they do not fit: for allocations that have already happened.
    pub fn take_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Bytes reserved from a cache's memory. Dropping it releases them.
#[derive(Debug)]
pub struct Reserved {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Reserved {
    /// The reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes over the bytes of another reservation.
    pub fn join(&mut self, other: Self) {
        self.bytes += other.keep();
    }

    /// Keeps the bytes reserved after the drop of this value, for an item that takes them over.
    pub(crate) fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

/// Bytes that the allocator uses for an allocation of `bytes`.
///
/// The size classes of jemalloc (its manual, "size classes"): multiples of 16 up to 128, then four
/// classes to every doubling.
pub(crate) fn allocated(bytes: u64) -> u64 {
    if bytes <= 128 {
        return bytes.max(1).next_multiple_of(16);
    }
    let spacing = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(spacing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_those_of_the_allocator() {
        let cases = [(1, 16), (16, 16), (17, 32), (128, 128), (129, 160), (160, 160), (161, 192)];
        let large = [(1024, 1024), (1025, 1280), (1 << 20, 1 << 20), ((1 << 20) + 1, 5 << 18)];
        for (asked, taken) in cases.into_iter().chain(large) {
            assert_eq!(allocated(asked), taken, "{asked}");
        }
    }

    #[test]
    fn a_reservation_above_the_limit_is_refused_and_a_dropped_one_is_released() {
        let memory = Memory::new(100);
        let held = memory.take(60).unwrap();
        assert!(memory.take(41).is_none());
        drop(held);
        assert_eq!(memory.take(100).unwrap().keep(), 100);
        memory.take_anyway(5);
        assert_eq!((memory.used(), memory.excess()), (105, 5));
    }
}
