//! Memory of a decoder: reserved before it is used, so that a small body with a large content is refused
//! before memory is allocated.
//!
//! Counted are decompressed and translated bodies, buffers of decompression, entries, metadata, streams
//! with their labels, and added text. A buffer that grows counts twice while its contents are copied. The
//! decoder returns memory that it releases, so that in the end its owner holds about the bytes of the
//! batch.

use std::rc::Rc;

use crate::error::Error;

/// The owner of the memory of a decoder.
pub trait Memory {
    /// Reserves `bytes` more; false when they are not available now.
    fn take(&self, bytes: u64) -> bool;
    /// Returns `bytes` to the owner.
    fn give(&self, bytes: u64);
}

/// Reserves a decoder's memory from its owner, if there is one. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct DecoderMemory(Option<Rc<dyn Memory>>);

impl DecoderMemory {
    /// Memory that is reserved from `memory`.
    pub(crate) fn new(memory: Rc<dyn Memory>) -> Self {
        Self(Some(memory))
    }

    /// Reserves bytes, or fails.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Error> {
        match &self.0 {
            Some(memory) if !memory.take(bytes) => Err(Error::MemoryShort { asked: bytes }),
            _ => Ok(()),
        }
    }

    /// Returns bytes to the owner.
    pub(crate) fn give(&self, bytes: u64) {
        if let Some(memory) = &self.0 {
            memory.give(bytes);
        }
    }

    /// Makes room for `more` items. `most` bounds the capacity that is reserved in advance.
    #[inline]
    pub(crate) fn widen<T>(&self, list: &mut Vec<T>, more: usize, most: usize) -> Result<(), Error> {
        if list.capacity() - list.len() >= more {
            return Ok(());
        }
        self.widen_now(list, more, most)
    }

    #[cold]
    fn widen_now<T>(&self, list: &mut Vec<T>, more: usize, most: usize) -> Result<(), Error> {
        let (before, needed) = (list.capacity(), list.len() + more);
        let capacity = (before * 2).max(ROOM_MIN).min(most).max(needed);
        let bytes = |items: usize| (items * size_of::<T>()) as u64;
        self.take(bytes(capacity))?;
        list.reserve_exact(capacity - list.len());
        self.give(bytes(before));
        Ok(())
    }
}

/// Smallest capacity of a list that grows, in items.
const ROOM_MIN: usize = 64;

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    /// An owner with a limit in bytes.
    pub(crate) struct LimitedMemory {
        pub(crate) limit: u64,
        pub(crate) held: Cell<u64>,
        pub(crate) peak: Cell<u64>,
    }

    impl LimitedMemory {
        pub(crate) fn of(limit: u64) -> Rc<Self> {
            Rc::new(Self { limit, held: Cell::new(0), peak: Cell::new(0) })
        }
    }

    impl Memory for LimitedMemory {
        fn take(&self, bytes: u64) -> bool {
            if self.held.get() + bytes > self.limit {
                return false;
            }
            self.held.set(self.held.get() + bytes);
            self.peak.set(self.peak.get().max(self.held.get()));
            true
        }

        fn give(&self, bytes: u64) {
            self.held.set(self.held.get().checked_sub(bytes).unwrap());
        }
    }

    #[test]
    fn old_and_new_buffer_of_a_growing_list_are_both_counted() {
        let purse = LimitedMemory::of(64 * 8 * 3);
        let memory = DecoderMemory::new(Rc::clone(&purse) as Rc<dyn Memory>);
        let mut list: Vec<u64> = Vec::new();
        let mut fill = |memory: &DecoderMemory| -> Result<(), Error> {
            for n in 0..1_000 {
                memory.widen(&mut list, 1, usize::MAX)?;
                list.push(n);
            }
            Ok(())
        };
        assert_eq!(fill(&memory), Err(Error::MemoryShort { asked: 256 * 8 }));
        assert_eq!((list.len(), purse.held.get(), purse.peak.get()), (128, 128 * 8, 64 * 8 * 3));
    }
}
