//! The units of work that the running job may still do before it asks its owner.
//!
//! The allocator subtracts from it, too, so it is apart from [`crate::job`], and has no destructor.

use std::cell::Cell;

/// Units of work between two questions to the owner: about 0.3 ms of scanning.
pub const UNITS: u64 = 1 << 18;

thread_local! {
    pub(crate) static LEFT: Cell<u64> = const { Cell::new(UNITS) };
}

/// Reports allocated bytes of this thread; after many of them, the job asks its owner.
pub(crate) fn allocated(bytes: u64) {
    // The locals of a thread are gone while it ends.
    let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(bytes)));
}
