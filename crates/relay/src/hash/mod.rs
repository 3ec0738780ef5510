//! The hashes of the rings, as each original computes them.

pub(crate) mod fnv1a;
pub(crate) mod jump;
pub(crate) mod md5;
pub(crate) mod mmh3;
