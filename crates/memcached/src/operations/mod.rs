//! The operations on items that all protocols share. The protocols only parse requests and write
//! answers.
//!
//! Invariant: each operation updates the counters and notifies the watchers that memcached would.

pub(super) mod arithmetic;
pub(super) mod delete;
pub(super) mod fetch;
pub(super) mod flush;
pub(super) mod pending;
pub(super) mod store;

pub(super) use pending::settle;

/// The longest key of the protocols in bytes.
pub(super) const KEY_BYTES_MAX: usize = 250;
