//! Why rules could not be stored or read.

use sandur_base::ErrorKind;
use sandur_memory::OverBudget;

use crate::file::FileErrors;

/// Why a call failed. Nothing changed, except where [`StoredError::may_be_done`] says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoredError {
    /// The group is invalid.
    #[error("{0}")]
    Refused(String),
    /// A limit would be exceeded.
    #[error("{found} {what}, and the limit is {limit} ({name})")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there would be.
        found: usize,
        /// The limit.
        limit: u64,
        /// The option that sets the limit.
        name: &'static str,
    },
    /// The other API has a group with this name.
    #[error(
        "group '{group}' of namespace '{namespace}' has rules of the other language: choose another name, or \
         delete that group through its API"
    )]
    OtherApi {
        /// The namespace.
        namespace: String,
        /// The group.
        group: String,
    },
    /// There is no such group or namespace.
    #[error("{0}")]
    NotFound(&'static str),
    /// Stored rules are damaged.
    #[error("the stored rules cannot be read: {object}: {reason}; {remedy}")]
    Broken {
        /// The object.
        object: String,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Other processes changed the rules each time.
    #[error("other processes changed rules at the same time, {0} times in a row; try again")]
    Contention(u32),
    /// The server stopped.
    #[error("the server stops, and the change may be stored or not")]
    Interrupted,
    /// The store failed.
    #[error("{error}")]
    Store {
        /// The failure.
        error: sandur_store::Error,
        /// Whether the change may be stored nevertheless.
        may_be_done: bool,
    },
    /// There is not enough memory.
    #[error("{0}; raise memory_limit, or reduce the rules")]
    Memory(#[from] OverBudget),
}

impl StoredError {
    /// A limit that would be exceeded.
    pub fn limit(what: &'static str, found: usize, limit: u64, name: &'static str) -> Self {
        Self::Limit { what, found, limit, name }
    }

    /// The kind, which determines the status of an answer.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_) | Self::OtherApi { .. } => ErrorKind::Invalid,
            Self::Limit { .. } => ErrorKind::Limit,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Broken { .. } => ErrorKind::Corrupt,
            Self::Contention(_) | Self::Memory(_) => ErrorKind::Busy,
            Self::Interrupted => ErrorKind::Unavailable,
            Self::Store { error, .. } => error.kind(),
        }
    }

    /// Whether the change may have happened nevertheless.
    pub fn may_be_done(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Store { may_be_done: true, .. })
    }
}

impl From<sandur_store::Error> for StoredError {
    fn from(error: sandur_store::Error) -> Self {
        Self::Store { error, may_be_done: false }
    }
}

impl From<FileErrors> for StoredError {
    fn from(errors: FileErrors) -> Self {
        let all: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        Self::Refused(all.join(", "))
    }
}
