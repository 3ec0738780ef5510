//! What can go wrong with a store, as types.
//!
//! Every message names the store, the operation and the object, and what to do. No variant says
//! "already exists": the creator learns what exists ([`crate::Created`]). Messages never carry
//! credentials: query strings of URLs are cut off before a reason is kept.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::ErrorKind;

use crate::advice::Fault;
use crate::operation::Operation;

/// Where a failure happened: which operation on which object of which store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The store's URL, without secrets.
    pub store: Arc<str>,
    /// What was being done.
    pub operation: Operation,
    /// The object's path below the store's URL; empty for the store as a whole.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.what(), if self.path.is_empty() { "of" } else { "in" }, self.store)
    }
}

impl Place {
    /// The operation and the object, without the store.
    fn what(&self) -> String {
        if self.path.is_empty() {
            return self.operation.to_string();
        }
        format!("{} of '{}'", self.operation, self.path)
    }
}

/// A store's failure.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object does not exist.
    #[error("'{}' does not exist in {}", .at.path, .at.store)]
    NotFound {
        /// Where.
        at: Place,
    },
    /// The store could not be reached or failed; the effect of a write is unknown.
    #[error("{at} failed after {attempts} attempt(s): {reason}; {remedy}")]
    Unavailable {
        /// Where.
        at: Place,
        /// Requests that were sent.
        attempts: u32,
        /// What the last attempt met.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Too many requests wait for the store already, or a tenant asks for too much of it.
    #[error("{at} was not sent: {reason}; ask for less at a time or raise the limit")]
    Busy {
        /// Where.
        at: Place,
        /// Which limit.
        reason: String,
    },
    /// The store asks for fewer requests.
    #[error(
        "{at} was throttled, {attempts} attempt(s): {reason}; lower the load or raise the store's limits"
    )]
    Throttled {
        /// Where.
        at: Place,
        /// Requests that were sent.
        attempts: u32,
        /// What the last attempt met.
        reason: String,
    },
    /// No answer in time; the effect of a write is unknown.
    #[error(
        "{at} had no answer within {waited:?}, {attempts} attempt(s); check the network and the store's load"
    )]
    Timeout {
        /// Where.
        at: Place,
        /// Requests that were sent.
        attempts: u32,
        /// How long the last attempt waited.
        waited: Duration,
    },
    /// The store refuses requests of ours: the credentials are missing, wrong or not sufficient, or its
    /// place, its account or this machine's clock is not as it must be.
    #[error("{at} was denied: {reason}; {remedy}")]
    Denied {
        /// Where.
        at: Place,
        /// What the store said.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The device or the quota is full.
    #[error(
        "no space left in {}: {} failed ({reason}); free space or lower the retention",
        .at.store, .at.what()
    )]
    Full {
        /// Where.
        at: Place,
        /// What the store said.
        reason: String,
    },
    /// The process or its machine has no file descriptor or no memory left for now.
    #[error(
        "{at} failed because open files or memory are short ({reason}); it is tried again, and goes on when \
         others are closed: raise the limit of open files (ulimit -n, LimitNOFILE) or add memory"
    )]
    Short {
        /// Where.
        at: Place,
        /// What the system said.
        reason: String,
    },
    /// The store takes no writes.
    #[error("{} is read-only: {} refused; make it writable or give another --store", .at.store, .at.what())]
    ReadOnly {
        /// Where.
        at: Place,
    },
    /// A URL, a path or a request that can never succeed.
    #[error("{reason}")]
    Invalid {
        /// What is wrong and how to write it.
        reason: String,
    },
    /// The store answered with another number of bytes than was asked for.
    #[error(
        "{at} gave {found} bytes instead of {expected}: the object is truncated or was overwritten; \
         run `sandur check`"
    )]
    Length {
        /// Where.
        at: Place,
        /// Bytes that were asked for.
        expected: u64,
        /// Bytes that came.
        found: u64,
    },
    /// The device below a local directory reported an error; it is not tried again.
    #[error("{at} met a device error: {reason}; check the disk and its file system")]
    Device {
        /// Where.
        at: Place,
        /// What the system said.
        reason: String,
    },
    /// A file that is being written was removed or replaced.
    #[error(
        "{at} is lost: {reason}; something removes files of the store while it is in use, find and stop it"
    )]
    Vanished {
        /// Where.
        at: Place,
        /// What was found in its place.
        reason: String,
    },
    /// The store's directory is not in its place any more.
    #[error(
        "{at} refused: the store's directory was removed or replaced while it was in use ({reason}); put it \
         back and restart this process"
    )]
    Replaced {
        /// Where.
        at: Place,
        /// What was found in its place.
        reason: String,
    },
    /// Another process holds the directory.
    #[error(
        "directory {} is in use by process {process}; stop it or give another --store",
        .directory.display()
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process id as it wrote it down, or "unknown".
        process: String,
    },
    /// The store lacks a capability without which data would be lost.
    #[error("{store} cannot be used: {missing}; {remedy}")]
    Unsuitable {
        /// The store's URL, without secrets.
        store: Arc<str>,
        /// The capability that is missing.
        missing: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An earlier write or fsync of this file failed, so nothing may be appended any more.
    #[error("{at} refused: an earlier write failed ({reason}); the file must be left and a new one begun")]
    Poisoned {
        /// Where.
        at: Place,
        /// The earlier failure.
        reason: String,
    },
    /// More objects than one call may return.
    #[error("{at} found more than {limit} objects; ask for a narrower prefix")]
    TooMany {
        /// Where.
        at: Place,
        /// The bound.
        limit: usize,
    },
    /// A defect of ours.
    #[error("{at} failed by a defect: {reason}; please report it")]
    Internal {
        /// Where.
        at: Place,
        /// What happened.
        reason: String,
    },
}

impl Error {
    /// The same, where it may be the credentials: with what became of each place that they could come from.
    pub(crate) fn with_credentials(mut self, tried: &str) -> Self {
        if let Self::Denied { reason, .. } | Self::Unavailable { reason, .. } = &mut self
            && Fault::named_in(reason).is_none_or(Fault::is_of_credentials)
        {
            *reason = format!("{reason} (credentials: {tried})");
        }
        self
    }

    /// The kind of failure, for statuses and retries.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Unavailable { .. } | Self::Full { .. } | Self::Device { .. } => ErrorKind::Unavailable,
            Self::Short { .. } => ErrorKind::Unavailable,
            Self::InUse { .. } | Self::Poisoned { .. } => ErrorKind::Unavailable,
            Self::Vanished { .. } | Self::Replaced { .. } => ErrorKind::Unavailable,
            Self::Throttled { .. } | Self::Busy { .. } => ErrorKind::Busy,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Denied { .. } | Self::ReadOnly { .. } => ErrorKind::Denied,
            Self::Invalid { .. } | Self::Unsuitable { .. } => ErrorKind::Invalid,
            Self::Length { .. } => ErrorKind::Corrupt,
            Self::TooMany { .. } => ErrorKind::Limit,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// Whether the object simply does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether it is this object that cannot be read, while the store answers: it is missing or shorter than
    /// it should be, something else bears its name, this user may not read the file, or the disk has a bad
    /// place there. Other objects may well be read.
    pub fn is_of_object(&self) -> bool {
        match self {
            Self::NotFound { .. } | Self::Length { .. } | Self::Invalid { .. } => true,
            // A bucket that denies an object denies them all: the credentials are wrong.
            Self::Denied { at, .. } | Self::Device { at, .. } => at.store.starts_with("file:"),
            _ => false,
        }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }
}
