//! Memory of a decoder: asked for before it is taken, so that a small body that holds much is refused before
//! it costs anything.
//!
//! What is counted: opened and translated bodies, buffers of decompression, entries, metadata, streams with
//! their labels, text that is added. A buffer that grows counts twice while its contents move. What a decoder
//! lets go of is given back, so that in the end its owner holds about what the batch takes.

use std::rc::Rc;

use crate::error::Error;

/// Who gives memory to a decoder.
pub trait Memory {
    /// Takes so many bytes more; false when there are none now.
    fn take(&self, bytes: u64) -> bool;
    /// Takes bytes back.
    fn give(&self, bytes: u64);
}

/// Where a decoder asks. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Meter(Option<Rc<dyn Memory>>);

impl Meter {
    /// Asks there.
    pub(crate) fn new(memory: Rc<dyn Memory>) -> Self {
        Self(Some(memory))
    }

    /// Takes bytes, or fails.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Error> {
        match &self.0 {
            Some(memory) if !memory.take(bytes) => Err(Error::MemoryShort { asked: bytes }),
            _ => Ok(()),
        }
    }

    /// Gives bytes back.
    pub(crate) fn give(&self, bytes: u64) {
        if let Some(memory) = &self.0 {
            memory.give(bytes);
        }
    }

    /// Makes room for `more` items; `most` bounds the room that is made ahead of need.
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

/// Items of the smallest list that grows.
const ROOM_MIN: usize = 64;

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    /// Memory with a limit.
    pub(crate) struct Purse {
        pub(crate) limit: u64,
        pub(crate) held: Cell<u64>,
        pub(crate) peak: Cell<u64>,
    }

    impl Purse {
        pub(crate) fn of(limit: u64) -> Rc<Self> {
            Rc::new(Self { limit, held: Cell::new(0), peak: Cell::new(0) })
        }
    }

    impl Memory for Purse {
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
    fn a_list_that_grows_is_counted_with_the_one_before() {
        let purse = Purse::of(64 * 8 * 3);
        let meter = Meter::new(Rc::clone(&purse) as Rc<dyn Memory>);
        let mut list: Vec<u64> = Vec::new();
        let mut fill = |meter: &Meter| -> Result<(), Error> {
            for n in 0..1_000 {
                meter.widen(&mut list, 1, usize::MAX)?;
                list.push(n);
            }
            Ok(())
        };
        assert_eq!(fill(&meter), Err(Error::MemoryShort { asked: 256 * 8 }));
        assert_eq!((list.len(), purse.held.get(), purse.peak.get()), (128, 128 * 8, 64 * 8 * 3));
    }
}
