//! Why the query of a delete request cannot be applied.

use sandur_base::units::ByteSize;
use sandur_base::{ErrorKind, Id};
use sandur_memory::OverBudget;

/// Why the query of a delete request cannot be applied.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FilterError {
    /// The compiled query takes too much memory.
    #[error(
        "the query of a delete request takes more than {} of memory when it is compiled; use fewer and \
         smaller regular expressions (classes such as \\pL and repetitions take most), make several \
         requests, or raise --memory-limit",
        ByteSize(*.limit)
    )]
    TooLarge {
        /// The most bytes that it may take.
        limit: u64,
    },
    /// The queries of other requests use the memory.
    #[error(
        "the memory budget '{}' of {} is in use by other delete requests ({}); try again later, or raise \
         --memory-limit",
        .0.budget, ByteSize(.0.limit), ByteSize(.0.used)
    )]
    Full(OverBudget),
    /// The query is not valid.
    #[error("{reason}")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
    /// An existing request takes more memory than this process has for it.
    #[error("delete request {id} may hide rows of the answer and cannot be applied: {reason}; or cancel it")]
    Request {
        /// The id of the request.
        id: Id,
        /// The reason.
        reason: String,
    },
}

impl FilterError {
    /// The kind, which decides status codes.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge { .. } | Self::Request { .. } => ErrorKind::Limit,
            Self::Full(_) => ErrorKind::Busy,
            Self::Unreadable { .. } => ErrorKind::Invalid,
        }
    }
}

/// If the delete requests of a query cannot be applied, the query fails: it must not show what they hide.
impl From<FilterError> for sandur_query::Error {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::Full(refusal) => Self::OverBudget(refusal),
            error => Self::Limit(error.to_string()),
        }
    }
}
