//! What is counted about TLS.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// What is counted about TLS.
#[derive(Debug, Default)]
pub(crate) struct TlsCounts {
    pub sessions: AtomicU64,
    pub handshake_errors: AtomicU64,
    pub protocol_errors: AtomicU64,
    /// The second in which certificates were last read.
    pub refreshed: AtomicU32,
}
