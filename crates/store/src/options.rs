//! The options for opening a store.

use crate::request_limits::RequestLimits;

/// The permitted operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// Reads and writes; a local directory is locked.
    #[default]
    ReadWrite,
    /// Only reads, even while another process holds the lock of the directory.
    ReadOnly,
}

/// Options for opening a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The permitted operations. Default: reads and writes.
    pub access: Access,
    /// Whether to check at start that conditional creates work. Default: true.
    pub probe: bool,
    /// Limits of the client, since the store has other users too.
    pub request_limits: RequestLimits,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { access: Access::ReadWrite, probe: true, request_limits: RequestLimits::default() }
    }
}
