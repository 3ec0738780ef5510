//! The errors of the engine, as types.
//!
//! A failed WAL frame fails every push in it, so the errors are cheap to clone.

mod filter;
mod read;

use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::{ByteSize, format_duration};
use sandur_base::{ErrorKind, Id};
use sandur_catalog::{Catalog, CommitError};
use sandur_memory::OverBudget;

pub use filter::FilterError;
pub use read::ReadError;
pub(crate) use read::or_warn;

/// A failure of the engine.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The heads use their full memory budget, because flushing lags behind.
    #[error(
        "the heads are full: {} more would exceed the memory budget '{}' of {} ({} in use by rows that \
         wait for a flush); send again later, or raise --memory-limit",
        ByteSize(.0.asked), .0.budget, ByteSize(.0.limit), ByteSize(.0.used)
    )]
    HeadsFull(OverBudget),
    /// The heads use their full memory budget, because flushes fail. The reason names other tenants'
    /// blocks, so the client does not get it.
    #[error(
        "the heads are full ({} in use of the memory budget '{}' of {}), and flushes, which make room, fail: \
         the server's log says why; pushes are accepted again once a flush succeeds",
        ByteSize(.0.used), .0.budget, ByteSize(.0.limit)
    )]
    FlushesFail(OverBudget),
    /// A merge or the rewriting of a block needs more memory than its budget.
    #[error(
        "merging or rewriting blocks takes {} more than the {} of the memory budget '{}' ({} in use); raise \
         --memory-limit",
        ByteSize(.0.asked), ByteSize(.0.limit), .0.budget, ByteSize(.0.used)
    )]
    MergeTooLarge(OverBudget),
    /// The queue of pushes that wait for the WAL is full.
    #[error("{limit} pushes wait for the WAL already (push_queue); send again later")]
    QueueFull {
        /// The most pushes in the queue.
        limit: usize,
    },
    /// A batch that would not fit even into empty heads.
    #[error(
        "a batch of {} is larger than the {} that one push may take of the write budget; send smaller \
         requests, or raise --memory-limit",
        ByteSize(*.bytes), ByteSize(*.limit)
    )]
    BatchTooLarge {
        /// Bytes that the batch takes in memory.
        bytes: u64,
        /// Bytes that one batch may take.
        limit: u64,
    },
    /// A part of a large push is not stored, and other parts are or may be.
    #[error("a part of the push is not stored, others may be; sending all of it again is safe: {reason}")]
    InPart {
        /// Why the part is not stored.
        reason: String,
        /// The kind of that failure.
        kind: ErrorKind,
    },
    /// A timestamp that is outside of the range of windows.
    #[error("timestamp {timestamp} is out of range: the years 1678 to 2261 can be stored")]
    Timestamp {
        /// Nanoseconds since the epoch.
        timestamp: i64,
    },
    /// The WAL's device is full. Nothing of the push was applied.
    #[error(
        "no space left for the WAL: {reason}; the push was not applied, free space or lower the retention"
    )]
    NoSpace {
        /// The store's error.
        reason: String,
    },
    /// The process or its machine is short of file descriptors or memory. Nothing of the push was applied.
    #[error("the WAL cannot be written for now: {reason}; the push was not applied, send it again")]
    Short {
        /// The store's error.
        reason: String,
    },
    /// The store accepts no writes now.
    #[error(
        "the store is read-only now: {reason}; the push was not applied, writing resumes without a restart \
         when the store accepts writes again"
    )]
    ReadOnly {
        /// The store's error.
        reason: String,
    },
    /// The WAL file that the push was written to was removed or replaced.
    #[error(
        "the WAL file was lost while it was written: {reason}; the push is not acknowledged, send it again"
    )]
    WalLost {
        /// The store's error.
        reason: String,
    },
    /// A WAL write or fsync failed in a way after which no later success can be trusted.
    #[error(
        "the WAL cannot be written any more: {reason}; the push was not acknowledged, nothing will be \
         until the process is restarted on a sound disk"
    )]
    Poisoned {
        /// The store's error.
        reason: String,
    },
    /// Another process has sealed this incarnation, because it sent no heartbeat.
    #[error(
        "incarnation {incarnation} was fenced by another process that found it silent; the push was not \
         acknowledged, send it again"
    )]
    Fenced {
        /// The incarnation that was fenced.
        incarnation: Id,
    },
    /// The catalog's log was emptied, shortened or replaced while this process ran.
    #[error("nothing is acknowledged any more: {reason}")]
    CatalogLost {
        /// The evidence, and the remedy.
        reason: String,
    },
    /// A flush found that another process has sealed the incarnation whose rows it wrote.
    #[error(
        "incarnation {incarnation} was fenced by another process that found it silent; that process puts its \
         rows into blocks, nothing acknowledged is lost"
    )]
    Overtaken {
        /// The incarnation that was fenced.
        incarnation: Id,
    },
    /// The store makes no WAL frame durable in time, so no push can be acknowledged.
    #[error(
        "nothing was acknowledged for {}: {reason}; {}",
        format_duration(whole_seconds(*.waited)),
        if *.is_under_way {
            "the push may still be stored, sending it again is safe"
        } else {
            "the push was not applied, send it again later"
        }
    )]
    Stalled {
        /// How long nothing was acknowledged.
        waited: Duration,
        /// The store's latest error.
        reason: String,
        /// Whether the push may be stored nonetheless.
        is_under_way: bool,
    },
    /// The view of other processes' rows is too old.
    #[error(
        "rows that other processes stored in the last {} are unknown: {reason}; the view of the store may \
         be {} old (query.max_view_age)",
        format_duration(whole_seconds(*.age)), format_duration(*.bound)
    )]
    StaleView {
        /// Age of the view of the store.
        age: Duration,
        /// The largest age without this error.
        bound: Duration,
        /// The store's latest error.
        reason: String,
    },
    /// The store did not make the WAL segment durable in time. It may still do so.
    #[error(
        "the WAL was not durable within {waited:?} ({reason}); the push is not acknowledged, sending it \
         again is safe"
    )]
    AckTimeout {
        /// How long the push waited.
        waited: Duration,
        /// The latest failure of the WAL.
        reason: String,
    },
    /// The engine is shutting down.
    #[error("the server is shutting down; send again to another one or later")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(Arc<sandur_store::Error>),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(Arc<sandur_catalog::Error>),
    /// A commit failed.
    #[error("{what} could not be committed: {reason}")]
    Refused {
        /// What was being committed.
        what: &'static str,
        /// The catalog's error.
        reason: String,
        /// The kind of the catalog's failure.
        kind: ErrorKind,
    },
    /// A delete request cannot be cancelled.
    #[error(transparent)]
    Cancel(#[from] CancelRefusal),
    /// The query of a delete request cannot be applied.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A stored object is damaged.
    #[error("'{path}' is damaged: {reason}; run `sandur check`")]
    Damaged {
        /// The path of the object.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A WAL file of an earlier process cannot be read, so the acknowledged rows in it are unknown.
    #[error(
        "'{path}' holds acknowledged rows of an earlier process and cannot be read: {reason}; the server \
         does not start without them and deletes nothing. Let the server's user read the file; if its disk \
         has bad sectors, replace it with a copy of what can be read, whose undamaged rows are recovered; if \
         it is lost, move it out of the store, and its rows are lost with it"
    )]
    WalUnreadable {
        /// The path of the file.
        path: String,
        /// The store's error.
        reason: String,
    },
    /// A defect of the engine.
    #[error("internal error of the engine: {0}; please report it")]
    Internal(String),
}

impl Error {
    /// Whether a push that failed with this error may be stored nonetheless, now or later.
    pub fn may_be_stored(&self) -> bool {
        let full = matches!(self, Self::HeadsFull(_) | Self::FlushesFail(_) | Self::QueueFull { .. });
        let refused = full || matches!(self, Self::BatchTooLarge { .. });
        let passing = matches!(self, Self::NoSpace { .. } | Self::ReadOnly { .. } | Self::Short { .. });
        let not_written = passing || matches!(self, Self::Timestamp { .. });
        let not_queued = matches!(self, Self::Stalled { is_under_way: false, .. });
        !refused && !not_written && !not_queued
    }

    /// Converts the error for upkeep, which no push waits for.
    pub(crate) fn of_upkeep(self) -> Self {
        match self {
            Self::HeadsFull(refusal) => Self::MergeTooLarge(refusal),
            other => other,
        }
    }

    /// The kind, which decides status codes and retries.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::HeadsFull(_) | Self::QueueFull { .. } => ErrorKind::Busy,
            Self::BatchTooLarge { .. } | Self::MergeTooLarge(_) => ErrorKind::Limit,
            Self::Timestamp { .. } => ErrorKind::Invalid,
            Self::ReadOnly { .. } | Self::WalLost { .. } | Self::FlushesFail(_) => ErrorKind::Unavailable,
            Self::Short { .. } => ErrorKind::Unavailable,
            Self::NoSpace { .. } | Self::Poisoned { .. } | Self::Fenced { .. } | Self::Overtaken { .. } => {
                ErrorKind::Unavailable
            }
            Self::ShuttingDown | Self::CatalogLost { .. } => ErrorKind::Unavailable,
            Self::Stalled { .. } | Self::AckTimeout { .. } | Self::StaleView { .. } => ErrorKind::Unavailable,
            Self::Refused { kind, .. } | Self::InPart { kind, .. } => *kind,
            Self::Store(error) => error.kind(),
            Self::Catalog(error) => error.kind(),
            Self::Cancel(CancelRefusal::Unknown) => ErrorKind::NotFound,
            Self::Cancel(_) => ErrorKind::Invalid,
            Self::Filter(error) => error.kind(),
            Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::WalUnreadable { .. } => ErrorKind::Corrupt,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }
}

/// Drops the fraction of a second, which means nothing to users.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

impl From<sandur_store::Error> for Error {
    fn from(error: sandur_store::Error) -> Self {
        Self::Store(Arc::new(error))
    }
}

/// Converts the error of reading a block. Only a block that is missing or has wrong bytes is damaged. A
/// store that does not answer says nothing about the block.
impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store { reason, .. } => Self::Store(reason),
            ReadError::Missing { path } => {
                Self::Damaged { path, reason: "it is missing from the store".to_owned() }
            }
            ReadError::Damaged { path, reason } => Self::Damaged { path, reason },
            ReadError::Filter(error) => Self::Filter(error),
            ReadError::Memory(refusal) => refusal.into(),
        }
    }
}

impl From<sandur_catalog::Error> for Error {
    fn from(error: sandur_catalog::Error) -> Self {
        Self::Catalog(Arc::new(error))
    }
}

impl From<OverBudget> for Error {
    fn from(refusal: OverBudget) -> Self {
        Self::HeadsFull(refusal)
    }
}

/// Why a delete request cannot be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CancelRefusal {
    /// The tenant has no such request.
    #[error("there is no delete request with this id")]
    Unknown,
    /// The request was processed, so its lines are removed.
    #[error("the delete request was processed; its lines cannot be brought back")]
    Processed,
    /// Lines may be removed already, and the caller did not force the cancellation.
    #[error(
        "the delete request was started or is older than {period:?}, in which it could be cancelled; force \
         it to keep the lines that are left"
    )]
    Late {
        /// How long a request can be cancelled.
        period: Duration,
    },
}

/// Fails once the catalog is lost.
pub(crate) fn expect_catalog(catalog: &Catalog) -> Result<(), Error> {
    match catalog.lost() {
        Some(lost) => Err(Error::CatalogLost { reason: lost.to_string() }),
        None => Ok(()),
    }
}

/// Converts the error of a commit that is not retried.
pub(crate) fn refused(what: &'static str, error: &CommitError) -> Error {
    Error::Refused { what, reason: error.to_string(), kind: error.kind() }
}
