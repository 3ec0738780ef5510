//! One access of a trace.

use crate::hint::Hint;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read. A missing value is fetched from the store and offered to the cache.
    Read,
    /// A write of new data, which goes to the store too.
    Write,
}

/// An access: 48 bytes, without the key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Seconds since the start of the trace or since 1970; not less than in the previous request.
    pub at_s: u32,
    /// Hash of the key, which identifies it.
    pub hash: u64,
    /// Bytes of the value.
    pub bytes: u32,
    /// Read or write.
    pub kind: Kind,
    /// The hint that the cache gets.
    pub hint: Hint,
    /// The tenant that owns the value.
    pub tenant: u32,
}
