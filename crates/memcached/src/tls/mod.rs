//! TLS, if the crate is built with the feature `tls`. Without it, a server that is configured for TLS
//! does not start.

mod counts;
#[cfg(feature = "tls")]
mod reject_all;
#[cfg(feature = "tls")]
mod rustls;
#[cfg(feature = "tls")]
pub(super) use self::rustls::{Encryption, TlsStream};

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(not(feature = "tls"))]
pub(super) use absent::{Encryption, TlsStream};

pub(super) use counts::TlsCounts;
