//! The errors of a store.
//!
//! Every message names the store, the operation, the object and the remedy. There is no variant for
//! "already exists": the creator gets the existing contents ([`crate::Created`]). Messages never contain
//! credentials: query strings of URLs are removed.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::ErrorKind;

use crate::advice::Fault;
use crate::operation::Operation;

/// Where a failure happened: the operation, the object and the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The store's URL, without secrets.
    pub store: Arc<str>,
    /// The operation.
    pub operation: Operation,
    /// The object's path below the store's URL; empty for the complete store.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.what(), if self.path.is_empty() { "of" } else { "in" }, self.store)
    }
}

impl Place {
    /// The operation and the object, as text.
    fn what(&self) -> String {
        if self.path.is_empty() {
            return self.operation.to_string();
        }
        format!("{} of '{}'", self.operation, self.path)
    }
}

/// A failure of a store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The object does not exist.
    #[error("'{}' does not exist in {}", .at.path, .at.store)]
    NotFound {
        /// Where.
        at: Place,
    },
    /// The store could not be reached, or it failed; the effect of a write is unknown.
    #[error("{at} failed after {attempts} attempt(s): {reason}; {remedy}")]
    Unavailable {
        /// Where.
        at: Place,
        /// Number of requests that were sent.
        attempts: u32,
        /// Why the last attempt failed.
        reason: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// Too many requests are waiting for the store, or a tenant exceeds its rate.
    #[error("{at} was not sent: {reason}; request less at a time or raise the limit")]
    Busy {
        /// Where.
        at: Place,
        /// The limit that was exceeded.
        reason: String,
    },
    /// The store throttles requests.
    #[error(
        "{at} was throttled, {attempts} attempt(s): {reason}; lower the load or raise the store's limits"
    )]
    Throttled {
        /// Where.
        at: Place,
        /// Number of requests that were sent.
        attempts: u32,
        /// Why the last attempt failed.
        reason: String,
    },
    /// No response in time; the effect of a write is unknown.
    #[error(
        "{at} had no answer within {waited:?}, {attempts} attempt(s); check the network and the store's load"
    )]
    Timeout {
        /// Where.
        at: Place,
        /// Number of requests that were sent.
        attempts: u32,
        /// How long the last attempt waited.
        waited: Duration,
    },
    /// The store refuses our requests: the credentials are missing, wrong or not sufficient, or the
    /// network, the account or this machine's clock prevents access.
    #[error("{at} was denied: {reason}; {remedy}")]
    Denied {
        /// Where.
        at: Place,
        /// The store's message.
        reason: String,
        /// The remedy.
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
        /// The message of the store or the system.
        reason: String,
    },
    /// The process or the machine has no file descriptors or memory left at the moment.
    #[error(
        "{at} failed because open files or memory are short ({reason}); it is retried and succeeds when \
         other files are closed: raise the limit of open files (ulimit -n, LimitNOFILE) or add memory"
    )]
    Short {
        /// Where.
        at: Place,
        /// The system's message.
        reason: String,
    },
    /// The store does not accept writes.
    #[error("{} is read-only: {} refused; make it writable or give another --store", .at.store, .at.what())]
    ReadOnly {
        /// Where.
        at: Place,
    },
    /// The URL, path or request can never succeed.
    #[error("{reason}")]
    Invalid {
        /// What is wrong and how to correct it.
        reason: String,
    },
    /// The store returned more or fewer bytes than requested.
    #[error(
        "{at} returned {found} bytes instead of {expected}: the object is truncated or was overwritten; \
         run `sandur check`"
    )]
    Length {
        /// Where.
        at: Place,
        /// Number of bytes that were requested.
        expected: u64,
        /// Number of bytes that were received.
        found: u64,
    },
    /// The device of a local directory reported an error; there is no retry.
    #[error("{at} met a device error: {reason}; check the disk and its file system")]
    Device {
        /// Where.
        at: Place,
        /// The system's message.
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
    /// The store's directory was removed or replaced.
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
    /// Another process holds the lock of the directory.
    #[error(
        "directory {} is in use by process {process}; stop it or give another --store",
        .directory.display()
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process id in the lock file, or "unknown".
        process: String,
    },
    /// The store lacks a capability without which data would be lost.
    #[error("{store} cannot be used: {missing}; {remedy}")]
    Unsuitable {
        /// The store's URL, without secrets.
        store: Arc<str>,
        /// The missing capability.
        missing: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// An earlier write or fsync of this file failed, so it accepts no more appends.
    #[error("{at} refused: an earlier write failed ({reason}); write to a new file")]
    Poisoned {
        /// Where.
        at: Place,
        /// The earlier failure.
        reason: String,
    },
    /// There are more objects than one call may return.
    #[error("{at} found more than {limit} objects; use a narrower prefix")]
    TooMany {
        /// Where.
        at: Place,
        /// The limit.
        limit: usize,
    },
    /// A bug in Sandur.
    #[error("{at} failed because of a bug: {reason}; please report it")]
    Internal {
        /// Where.
        at: Place,
        /// Description of the failure.
        reason: String,
    },
}

impl Error {
    /// Adds the sources of credentials that were tried, if the credentials may be the cause.
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

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the failure concerns only this object, while the store itself works: the object is
    /// missing or too short, its path is not a file, this user may not read the file, or the disk has a
    /// bad sector there. Other objects may be readable.
    pub fn is_of_object(&self) -> bool {
        match self {
            Self::NotFound { .. } | Self::Length { .. } | Self::Invalid { .. } => true,
            // A bucket that denies access to one object denies access to all: the credentials are wrong.
            Self::Denied { at, .. } | Self::Device { at, .. } => at.store.starts_with("file:"),
            _ => false,
        }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }
}
