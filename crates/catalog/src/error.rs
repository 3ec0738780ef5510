//! Errors of the catalog, with the object and the remedy.
//!
//! [`CommitError`] distinguishes two cases that callers must not confuse: a commit that certainly did not
//! happen, and one whose outcome is unknown ([`CommitError::Uncertain`]).

use std::time::Duration;

use sandur_base::ErrorKind;
use sandur_format::Error as FormatError;
use sandur_format::catalog_entry::{BlockForms, Edit, Precondition};

/// A failure of the catalog.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed or refused the request.
    #[error("catalog: {0}")]
    Store(#[from] sandur_store::Error),
    /// An object of the catalog cannot be read.
    #[error(
        "catalog object '{path}' cannot be used: {reason}; `sandur check` shows all damage, \
         `sandur repair --dry-run` what can be done"
    )]
    Corrupt {
        /// The object.
        path: String,
        /// Why it cannot be decoded.
        #[source]
        reason: FormatError,
    },
    /// An object holds another number than its name.
    #[error(
        "catalog object '{path}' holds number {found}: it was copied or renamed; `sandur check` shows all \
         damage, `sandur repair --dry-run` what can be done"
    )]
    Misplaced {
        /// The object.
        path: String,
        /// The number in the object.
        found: u64,
    },
    /// An entry does not hold the checksum of the entry before it.
    #[error(
        "catalog object '{path}' does not follow '{before}': it names {found:016x} as the checksum of the \
         entry before, which has {expected:016x}: one of them was swapped, edited or restored from another \
         time; `sandur check` shows all damage, `sandur repair --dry-run` what can be done"
    )]
    Broken {
        /// The later object.
        path: String,
        /// The earlier one.
        before: String,
        /// The checksum of the earlier one.
        expected: u64,
        /// The checksum that the later one holds.
        found: u64,
    },
    /// The log is incomplete.
    #[error(
        "the catalog of this store is incomplete: {evidence}. Nothing was changed. Restore the missing \
         objects of 'catalog/' from a backup, or run `sandur repair --store URL --dry-run` to see what can \
         be rebuilt from blocks and WAL"
    )]
    Lost {
        /// The evidence.
        evidence: String,
    },
    /// The log was truncated faster than it could be read, or its checkpoints are gone.
    #[error(
        "catalog could not be loaded in {attempts} attempts: entries up to {boundary} are gone and no \
         complete checkpoint at or above that number was found; `sandur check` shows all damage, \
         `sandur repair --dry-run` what can be done"
    )]
    Unloadable {
        /// Number of attempts.
        attempts: u32,
        /// The boundary at the last attempt.
        boundary: u64,
    },
    /// Processes of this store may write blocks that this program does not read.
    #[error(
        "this store has blocks of newer versions ({active}) than this program reads ({reads}): start a newer \
         version of the program. Nothing was changed"
    )]
    NewerForms {
        /// The versions that processes may write.
        active: BlockForms,
        /// The versions that this program reads.
        reads: BlockForms,
    },
    /// The log may have edits that this program does not read.
    #[error(
        "the catalog has edits of version {written}, this program reads up to version {reads}: start a newer \
         version of the program"
    )]
    NewerEdits {
        /// The version of the edits in the log.
        written: u16,
        /// The version that this program reads.
        reads: u16,
    },
    /// A value does not fit the format and was not written.
    #[error("catalog: {0}")]
    Format(#[from] FormatError),
    /// A commit on behalf of housekeeping failed.
    #[error("catalog: {0}")]
    Commit(Box<CommitError>),
}

impl Error {
    /// Whether a newer version of the program wrote the object. Then it is not damaged.
    pub(crate) fn is_of_newer_program(&self) -> bool {
        let Self::Corrupt { reason, .. } = self else { return self.asks_for_a_newer_program() };
        matches!(reason, FormatError::Version { .. } | FormatError::UnknownTag { .. })
    }

    fn asks_for_a_newer_program(&self) -> bool {
        matches!(self, Self::NewerForms { .. } | Self::NewerEdits { .. })
    }

    /// Returns the kind of failure, for statuses and retries.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Corrupt { .. } | Self::Misplaced { .. } => ErrorKind::Corrupt,
            Self::Broken { .. } | Self::Lost { .. } => ErrorKind::Corrupt,
            Self::NewerForms { .. } | Self::NewerEdits { .. } => ErrorKind::Corrupt,
            Self::Unloadable { .. } => ErrorKind::Unavailable,
            Self::Format(error) => error.kind(),
            Self::Commit(error) => error.kind(),
        }
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        Self::Commit(Box::new(error))
    }
}

/// Why a commit has no successful outcome.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The state does not allow the commit. It did not happen and never will.
    #[error("commit rejected: {why}")]
    Rejected {
        /// The condition that does not hold.
        why: Box<Rejection>,
    },
    /// The commit may have happened, or may still happen. Retry only under a precondition that the first
    /// commit would have made false.
    #[error(
        "outcome of the commit is unknown after {waited:?}: {reason}; it is safe to retry under \
         the same preconditions"
    )]
    Uncertain {
        /// How long the commit was tried.
        waited: Duration,
        /// The last failure.
        reason: String,
    },
    /// The commit did not happen: every number was taken by others, or there was no answer, within the
    /// deadline.
    #[error("commit did not happen within {waited:?} ({conflicts} numbers were taken by others); retry")]
    Deadline {
        /// How long the commit was tried.
        waited: Duration,
        /// How many numbers other processes had taken.
        conflicts: u32,
    },
    /// The commit did not happen: the catalog could not be read or written.
    #[error("commit did not happen: {0}")]
    Failed(#[from] Error),
    /// The commit did not happen: the transaction is larger than an entry.
    #[error("commit did not happen: {0}: split it")]
    TooLarge(FormatError),
    /// The commit did not happen: the catalog is being closed.
    #[error("commit did not happen: the catalog is closed")]
    Closed,
}

impl CommitError {
    /// Whether the commit may have happened despite the error.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Uncertain { .. })
    }

    /// Returns the kind of failure, for statuses and retries.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Rejected { .. } => ErrorKind::Invalid,
            Self::Uncertain { .. } => ErrorKind::Unavailable,
            Self::Deadline { .. } => ErrorKind::Timeout,
            Self::Failed(error) => error.kind(),
            Self::TooLarge(_) => ErrorKind::Limit,
            Self::Closed => ErrorKind::Cancelled,
        }
    }
}

/// The part of a transaction that the state does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A precondition does not hold.
    #[error("precondition {0:?} does not hold")]
    Precondition(Precondition),
    /// An edit contradicts the state.
    #[error("{fault} ({edit:?})")]
    Edit {
        /// The edit.
        edit: Edit,
        /// The contradiction.
        fault: EditFault,
    },
}

/// Why an edit contradicts the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditFault {
    /// The incarnation never registered or was forgotten.
    #[error("the incarnation is not registered")]
    Unregistered,
    /// A writer that is not sealed does not read the versions of blocks.
    #[error("a registered writer does not read these versions of blocks: upgrade it, or stop it")]
    UnreadForms,
    /// A writer that is not sealed does not read the edit.
    #[error("a registered writer does not read this edit: upgrade it, or stop it")]
    UnreadEdits,
    /// Another process evaluates the rules of one of the shards.
    #[error("another process owns a shard of the rules")]
    Owned,
    /// The new writer does not read the versions of blocks that may be written.
    #[error("the store has blocks of newer versions than the process reads: start a newer version of it")]
    NewerForms,
    /// The incarnation is registered with other properties.
    #[error("the incarnation is registered already")]
    Registered,
    /// The incarnation is sealed at another number.
    #[error("the incarnation is sealed already")]
    Sealed,
    /// The incarnation is still live, or not all of its WAL is in blocks.
    #[error("the incarnation is not sealed and drained")]
    NotDrained,
    /// `from` is not the current floor, or `to` is below `from` or above the fence.
    #[error("the floor does not follow from the current one")]
    Floor,
    /// The fence would be below the floor.
    #[error("the fence is below the floor")]
    Fence,
    /// The block's id is at or below the orphan floor of its writer: its object may be gone.
    #[error("the block is void: its id is not above the orphan floor of its writer")]
    Orphan,
    /// The block was removed already.
    #[error("the block was removed already")]
    Removed,
    /// Another block has this id.
    #[error("another block has this id")]
    Duplicate,
    /// There is no such delete request.
    #[error("there is no such delete request")]
    NoDelete,
    /// Blocks are already being rewritten.
    #[error("the delete request is being processed")]
    DeleteStarted,
    /// The request has nothing left to do or to cancel.
    #[error("the delete request was processed")]
    DeleteProcessed,
    /// The request can still be cancelled.
    #[error("the delete request was not started")]
    DeleteNotStarted,
    /// A block may hold lines of the request.
    #[error("blocks may hold lines of the delete request")]
    DeleteUnfinished,
    /// The tenant has reached the limit of open delete requests.
    #[error("the tenant has {max} open delete requests, the most it may have", max = crate::OPEN_DELETES_MAX)]
    DeletesFull,
    /// The tenant's open delete requests have reached the limit on the size of their queries.
    #[error(
        "queries of the tenant's open delete requests would take more than the maximum of {max} bytes",
        max = crate::DELETE_QUERIES_BYTES_MAX
    )]
    DeleteQueriesFull,
    /// The edit refers to entries that do not exist yet.
    #[error("the number is above that of the last entry")]
    Future,
    /// The rejection was read from the log, which does not keep the reason.
    #[error("the edit contradicts the state")]
    Recorded,
}
