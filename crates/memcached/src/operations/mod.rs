//! What commands of every protocol do to items; protocols only read requests and write answers.
//!
//! Invariant: each operation counts what memcached counts and tells watchers what memcached tells.

pub(super) mod arithmetic;
pub(super) mod delete;
pub(super) mod fetch;
pub(super) mod flush;
pub(super) mod pending;
pub(super) mod store;

pub(super) use pending::settle;

/// Longest key of the protocols in bytes.
pub(super) const KEY_BYTES_MAX: usize = 250;
