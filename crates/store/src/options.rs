//! How a store is opened.

use crate::request_limits::RequestLimits;

/// What may be done with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// Everything; a local directory is locked.
    #[default]
    ReadWrite,
    /// Reads only, also while another process holds the directory.
    ReadOnly,
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What may be done with it. Default: everything.
    pub access: Access,
    /// Whether to check at start that conditional creates work. Default: true.
    pub probe: bool,
    /// How the client behaves towards a store that others use too.
    pub request_limits: RequestLimits,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { access: Access::ReadWrite, probe: true, request_limits: RequestLimits::default() }
    }
}
