//! TLS counters.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// TLS counters.
#[derive(Debug, Default)]
pub(crate) struct TlsCounts {
    pub sessions: AtomicU64,
    pub handshake_errors: AtomicU64,
    pub protocol_errors: AtomicU64,
    /// When certificates were last loaded, in seconds since the epoch.
    pub refreshed: AtomicU32,
}
