//! The kind of an error, independent of the crate it comes from.
//!
//! Every crate's error type has `fn kind(&self) -> ErrorKind`. The server maps kinds to HTTP status
//! codes in one place, and retry loops call [`ErrorKind::is_retryable`].

/// The kind of a failure. Decides status codes and retries; it does not affect the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is malformed; the same request never succeeds.
    Invalid,
    /// A request, decoded or not, is larger than its limit or than the memory of one request.
    TooLarge,
    /// The request is well-formed but contains nothing to act on.
    Empty,
    /// The named object does not exist.
    NotFound,
    /// A configured limit or budget was exceeded; the message names it.
    Limit,
    /// The server is at capacity now; the same call may succeed later.
    Busy,
    /// The caller has used up its own rate or its own places in a queue; the same request may succeed
    /// later.
    RateLimited,
    /// A dependency (store, peer) did not answer or refused; a retry may succeed.
    Unavailable,
    /// The caller's credentials are missing or not sufficient.
    Denied,
    /// Stored bytes fail their checksum or do not parse.
    Corrupt,
    /// The work was cancelled by its caller or by shutdown.
    Cancelled,
    /// The work did not finish within its deadline.
    Timeout,
    /// A bug in Sandur.
    Internal,
}

impl ErrorKind {
    /// Whether the same operation may succeed when it is repeated unchanged.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::RateLimited | Self::Unavailable | Self::Timeout)
    }
}
