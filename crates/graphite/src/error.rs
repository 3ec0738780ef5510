//! Errors of a request.

use sandur_base::ErrorKind;
use sandur_base::nesting::TooNested;
use sandur_memory::{OverBudget, Stopped};
use sandur_query::Refusable;

/// A failed request of the language. The message is what the client reads.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is malformed; the message says where and how.
    #[error("{0}")]
    Invalid(String),
    /// A named limit was exceeded.
    #[error("{0}")]
    Limit(String),
    /// The target is nested too deeply.
    #[error(transparent)]
    TooNested(#[from] TooNested),
    /// The source failed, or a bound of the query was exceeded.
    #[error(transparent)]
    Query(#[from] sandur_query::Error),
    /// The job was cancelled; its owner knows the reason.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Refusable for Error {
    fn refusal(&self) -> Option<&OverBudget> {
        match self {
            Self::Query(error) => error.refusal(),
            _ => None,
        }
    }
}

impl Error {
    /// The error of a malformed request.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// The kind, which determines the status code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) => ErrorKind::Invalid,
            Self::Limit(_) => ErrorKind::Limit,
            Self::TooNested(error) => error.kind(),
            Self::Query(error) => error.kind(),
            Self::Stopped(_) => ErrorKind::Cancelled,
        }
    }
}

/// The result type of this crate.
pub(crate) type Result<T> = std::result::Result<T, Error>;
