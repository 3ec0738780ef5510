//! Counts the memory of decoders. A decoder that requests too much is a finding.

use std::cell::Cell;

use sandur_ingest::Memory;

/// Counts the memory that a decoder holds.
pub(super) struct Counted {
    held: Cell<u64>,
    most: u64,
}

impl Counted {
    /// Returns a counter with nothing held. It panics on a request that exceeds `most` bytes in total.
    pub(super) fn up_to(most: u64) -> Self {
        Self { held: Cell::new(0), most }
    }
}

impl Memory for Counted {
    fn take(&self, bytes: u64) -> bool {
        let held = self.held.get() + bytes;
        assert!(held <= self.most, "{held} bytes are requested");
        self.held.set(held);
        true
    }

    fn give(&self, bytes: u64) {
        let held = self.held.get().checked_sub(bytes);
        self.held.set(held.expect("not more is released than was taken"));
    }
}
