//! The hash functions of the rings, as the original programs compute them.

pub(crate) mod fnv1a;
pub(crate) mod jump;
pub(crate) mod md5;
pub(crate) mod mmh3;
