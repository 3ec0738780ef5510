//! One access of a trace.

use crate::hint::Hint;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read. What is not there is fetched from the store and offered to the cache.
    Read,
    /// A write of new data, which goes to the store in any case.
    Write,
}

/// One access: 48 bytes, without the key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Seconds since the start of the trace or the epoch; never less than that of the request before.
    pub at_s: u32,
    /// Hash of the key: stands for it.
    pub hash: u64,
    /// Bytes of the value.
    pub bytes: u32,
    /// Read or write.
    pub kind: Kind,
    /// What the cache may know about it.
    pub hint: Hint,
    /// Whose it is.
    pub tenant: u32,
}
