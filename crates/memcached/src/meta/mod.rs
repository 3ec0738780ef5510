//! Meta commands: two letters, a key, and flags that say what to do and what to return. They are lines
//! of the text protocol and are in its table.
//!
//! Invariants: an answer lists the results of the flags in their order. `q` suppresses the expected
//! answer (a miss of mg, a success of the others) but never an error.

mod flags;
pub(crate) mod ma;
pub(crate) mod md;
pub(crate) mod me;
pub(crate) mod mg;
pub(crate) mod ms;
