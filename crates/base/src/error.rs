//! What kind of failure an error is, independent of the crate it comes from.
//!
//! Every crate's error type has `fn kind(&self) -> ErrorKind`; the server maps kinds to HTTP
//! statuses in one place and retry loops ask [`ErrorKind::is_retryable`].

/// The kind of a failure. Decides status codes and retries, never the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller sent something malformed; the same call never succeeds.
    Invalid,
    /// A request, or what it holds, is larger than its limit or than the memory of one request.
    TooLarge,
    /// A well-formed request that holds nothing of what it is for.
    Empty,
    /// The named thing does not exist.
    NotFound,
    /// A configured limit or budget was exceeded; the message names it.
    Limit,
    /// The server is at capacity now; the same call may succeed later.
    Busy,
    /// The caller has used up its own rate or its own places in a queue; the same call may succeed later.
    RateLimited,
    /// A dependency (store, peer) did not answer or refused; retrying may help.
    Unavailable,
    /// The caller's credentials are missing or not sufficient.
    Denied,
    /// Stored bytes fail their checksum or do not parse.
    Corrupt,
    /// The work was cancelled by its caller or by shutdown.
    Cancelled,
    /// The work did not finish within its deadline.
    Timeout,
    /// A defect of ours.
    Internal,
}

impl ErrorKind {
    /// Whether the same operation may succeed when it is tried again unchanged.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::RateLimited | Self::Unavailable | Self::Timeout)
    }
}
