//! Reasons why a cache cannot be opened.
//!
//! Invariant: an open cache never fails a call. A value that it cannot keep or read is a miss.

use sandur_base::ErrorKind;
use sandur_base::units::ByteSize;

use crate::flash::FlashError;
use crate::memory_file::files::MemoryFileError;

/// A cache cannot be opened, saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory limit is too small for a cache.
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
    /// The share of flash that a tenant may hold is not between 0 and 1.
    #[error("the share of flash that {} may hold must be from 0 to 1, not {part}", whose(*.tenant))]
    TenantCap {
        /// The tenant; `None` for the default of tenants without a cap of their own.
        tenant: Option<u32>,
        /// The configured share.
        part: f64,
    },
    /// The flash tier cannot be opened.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// The memory file cannot be written or read.
    #[error(transparent)]
    MemoryFile(#[from] MemoryFileError),
}

fn whose(tenant: Option<u32>) -> String {
    tenant.map_or_else(|| "a tenant".to_owned(), |number| format!("tenant {number}"))
}

impl Error {
    /// The class of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLittleMemory { .. } | Self::TenantCap { .. } => ErrorKind::Invalid,
            Self::MemoryFile(MemoryFileError::Foreign { .. }) => ErrorKind::Invalid,
            Self::Flash(_) | Self::MemoryFile(_) => ErrorKind::Unavailable,
        }
    }
}
