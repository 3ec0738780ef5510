//! Why a cache cannot be opened.
//!
//! Invariant: once open, a cache never fails a call: what it cannot keep or read is a miss.

use sandur_base::ErrorKind;
use sandur_base::units::ByteSize;

use crate::flash::FlashError;
use crate::memory_file::MemoryFileError;

/// A cache could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory limit is too small for a cache to work in.
    #[error(
        "a cache needs at least {} of memory, its limit is {}: raise it",
        ByteSize(*.least), ByteSize(*.limit)
    )]
    TooLittleMemory {
        /// The limit in bytes.
        limit: u64,
        /// The least limit in bytes.
        least: u64,
    },
    /// The flash tier cannot be opened.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// The memory file cannot be kept.
    #[error(transparent)]
    MemoryFile(#[from] MemoryFileError),
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLittleMemory { .. } => ErrorKind::Invalid,
            Self::MemoryFile(MemoryFileError::Foreign { .. }) => ErrorKind::Invalid,
            Self::Flash(_) | Self::MemoryFile(_) => ErrorKind::Unavailable,
        }
    }
}
