//! Why a cache cannot be opened.
//!
//! Invariant: once open, a cache never fails a call: what it cannot keep or read is a miss.

use sandur_base::ErrorKind;
use sandur_base::units::ByteSize;

use crate::flash::FlashError;
use crate::memory_file::files::MemoryFileError;

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
    /// The part of flash that a tenant may hold is no part.
    #[error("{} may hold a part of flash between 0 and 1, not {part}", whose(*.tenant))]
    TenantCap {
        /// The tenant; `None` for all without a cap of their own.
        tenant: Option<u32>,
        /// The part that was given.
        part: f64,
    },
    /// The flash tier cannot be opened.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// The memory file cannot be kept.
    #[error(transparent)]
    MemoryFile(#[from] MemoryFileError),
}

fn whose(tenant: Option<u32>) -> String {
    tenant.map_or_else(|| "a tenant".to_owned(), |number| format!("tenant {number}"))
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLittleMemory { .. } | Self::TenantCap { .. } => ErrorKind::Invalid,
            Self::MemoryFile(MemoryFileError::Foreign { .. }) => ErrorKind::Invalid,
            Self::Flash(_) | Self::MemoryFile(_) => ErrorKind::Unavailable,
        }
    }
}
