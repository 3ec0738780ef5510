//! Errors that prevent the start of a server.

use std::io;
use std::path::PathBuf;

use sandur_base::ErrorKind;

use super::arguments::WrongArguments;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line is wrong.
    #[error(transparent)]
    Arguments(#[from] WrongArguments),
    /// The cache cannot be opened.
    #[error(transparent)]
    Cache(#[from] sandur_cache::Error),
    /// A file of users cannot be used.
    #[error("the user file {} cannot be used: {reason}", path.display())]
    UserFile {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The server cannot listen on an address.
    #[error("failed to listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// There is no such user.
    #[error("can't find the user {name} to switch to")]
    User {
        /// The user's name.
        name: String,
    },
    /// The process cannot change its own state.
    #[error("the process cannot {what}: {error}")]
    Process {
        /// The operation that failed.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("{} cannot be written: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cache(error) => error.kind(),
            Self::Process { .. } | Self::File { .. } => ErrorKind::Internal,
            _ => ErrorKind::Invalid,
        }
    }

    /// The exit code that memcached has for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(wrong) => wrong.code,
            Self::User { .. } => 67,
            Self::Listen { .. } | Self::Process { .. } => 71,
            _ => 1,
        }
    }
}
