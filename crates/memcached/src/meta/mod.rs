//! Meta commands: two letters, a key, and flags that say what to do and what to return. They are lines of the
//! text protocol and stand in its table.
//!
//! Invariants: what a flag returns stands in the answer in the order of the flags. `q` hides the
//! answer that is expected (a miss of mg, a success of the others) and never an error.

mod flags;
pub(crate) mod ma;
pub(crate) mod md;
pub(crate) mod me;
pub(crate) mod mg;
pub(crate) mod mn;
pub(crate) mod ms;
