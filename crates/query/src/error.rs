//! Why a query failed.

use sandur_base::ErrorKind;
use sandur_memory::{OverBudget, Stopped};

/// Why a query failed. Clients see the message.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is malformed; the message names the position and the reason.
    #[error("{0}")]
    Invalid(String),
    /// A named limit was exceeded.
    #[error("{0}")]
    Limit(String),
    /// A memory budget is exhausted.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The store or a peer did not answer.
    #[error("storage unavailable: {0}")]
    Unavailable(String),
    /// The view of other processes' rows is older than the client accepts.
    #[error(
        "the view of the store is older than this request accepts (X-Sandur-Min-Freshness): {0}; repeat the \
         request, or accept an older view"
    )]
    StaleView(String),
    /// Stored data is damaged; the message names the object and the damage.
    #[error("{0}")]
    Corrupt(String),
    /// The client disconnected, or the server is shutting down.
    #[error("the request was cancelled by the client")]
    Cancelled,
    /// The process was short of memory, and this query held the most.
    #[error(
        "the query was ended because the server is short of memory and this query held most \
         (--memory-limit); narrow the request (time range, selector) or try again later"
    )]
    Starved,
    /// An operator ended the query.
    #[error("the query was ended by an operator (DELETE /sandur/queries/ID)")]
    Ended,
    /// The deadline passed.
    #[error(
        "request timed out, decrease the duration of the request or add more label matchers (prefer exact \
         match over regex match) to reduce the amount of data processed"
    )]
    Timeout(std::time::Duration),
    /// Too many queries are waiting.
    #[error("too many outstanding requests")]
    Busy,
    /// A bug in Sandur.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// The kind that decides the status code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::Limit(_) | Self::OverBudget(_) | Self::Ended => ErrorKind::Limit,
            Self::Unavailable(_) | Self::StaleView(_) | Self::Starved => ErrorKind::Unavailable,
            Self::Corrupt(_) => ErrorKind::Corrupt,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Timeout(_) => ErrorKind::Timeout,
            Self::Busy => ErrorKind::RateLimited,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

/// For code inside a stopped job; the caller of the job replaces this error with the actual reason.
impl From<Stopped> for Error {
    fn from(_: Stopped) -> Self {
        Self::Cancelled
    }
}
