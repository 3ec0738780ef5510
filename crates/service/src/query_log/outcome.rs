//! The outcome of a query, as its line in the log shows it.

use crate::failure::{Failure, status_of};

/// The outcome of a query.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// HTTP status of the answer.
    pub status: u16,
    /// Number of lines in the answer of a log query.
    pub returned_lines: u64,
    /// Bytes of the answer.
    pub result_bytes: u64,
    /// The error that the client got instead of an answer, or that ended an answer that had begun; empty
    /// on success.
    pub failure: String,
}

impl Outcome {
    /// An answer of this size.
    pub fn answered(result_bytes: u64) -> Self {
        Self { status: 200, result_bytes, ..Self::default() }
    }

    /// A failure with its reason.
    pub fn failed(status: u16, why: &str) -> Self {
        Self { status, failure: why.chars().take(FAILURE_CHARS).collect(), ..Self::default() }
    }

    /// Whether the query failed, or its answer ended early.
    pub(super) fn is_failure(&self) -> bool {
        self.status >= 400 || !self.failure.is_empty()
    }
}

/// Maximum characters of a failure that are logged: messages quote parts of a query, which may be long.
const FAILURE_CHARS: usize = 500;

impl From<&Failure> for Outcome {
    fn from(failure: &Failure) -> Self {
        Self::failed(status_of(failure.kind), &failure.message)
    }
}
