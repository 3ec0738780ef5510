//! Memory for decoders of hostile input: it is counted, and too much of it is a finding.

use std::cell::Cell;

use sandur_ingest::Memory;

/// Memory that is counted.
pub(super) struct Counted {
    held: Cell<u64>,
    most: u64,
}

impl Counted {
    /// None is held yet; who asks for more than `most` bytes panics.
    pub(super) fn up_to(most: u64) -> Self {
        Self { held: Cell::new(0), most }
    }
}

impl Memory for Counted {
    fn take(&self, bytes: u64) -> bool {
        let held = self.held.get() + bytes;
        assert!(held <= self.most, "{held} bytes are asked for");
        self.held.set(held);
        true
    }

    fn give(&self, bytes: u64) {
        let held = self.held.get().checked_sub(bytes);
        self.held.set(held.expect("no more is given than was taken"));
    }
}
