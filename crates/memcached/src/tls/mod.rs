//! TLS, when the crate is built with the feature `tls`; without it a server that is asked for TLS
//! refuses to start.

#[cfg(feature = "tls")]
mod nobody;
#[cfg(feature = "tls")]
mod rustls;
#[cfg(feature = "tls")]
pub(super) use self::rustls::{Encryption, TlsStream};

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(not(feature = "tls"))]
pub(super) use absent::{Encryption, TlsStream};

use std::sync::atomic::{AtomicU32, AtomicU64};

/// What is counted about TLS.
#[derive(Debug, Default)]
pub(super) struct TlsCounts {
    pub sessions: AtomicU64,
    pub handshake_errors: AtomicU64,
    pub protocol_errors: AtomicU64,
    /// The second in which certificates were last read.
    pub refreshed: AtomicU32,
}
