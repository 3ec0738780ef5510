//! Why a call has no answer.

use sandur_base::ErrorKind;

use crate::malformed::Malformed;

/// Why a call has no answer. The caller reads the bucket instead.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection.
    #[error("the peer {address} cannot be reached: {reason}")]
    Unreachable {
        /// The address that was called.
        address: String,
        /// What the system reported.
        reason: String,
    },
    /// The address failed a moment ago, so it was not called.
    #[error("the peer {address} failed a moment ago and is not called yet")]
    Quiet {
        /// The address.
        address: String,
    },
    /// All connections that may be open to this address are in use.
    #[error("all connections to the peer {address} are in use")]
    Busy {
        /// The address.
        address: String,
    },
    /// Nothing came in time.
    #[error("the peer did not answer in time")]
    Late,
    /// The connection ended.
    #[error("the connection to the peer ended: {0}")]
    Ended(String),
    /// The other side does not have the secret, or has another one.
    #[error("the peer does not have the secret of this cluster (cluster.secret_file)")]
    Stranger,
    /// A frame is not authentic.
    #[error("a frame of the connection is not authentic")]
    Forged,
    /// A message is longer than its bound.
    #[error("a message of the peer has more than {most} bytes")]
    Long {
        /// The bound.
        most: usize,
    },
    /// A message cannot be decoded.
    #[error("a message of the peer cannot be decoded: {0}")]
    Malformed(#[from] Malformed),
}

impl CallError {
    /// Whether the request was certainly not sent.
    pub fn is_before_request(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Quiet { .. } | Self::Busy { .. } | Self::Stranger)
    }

    /// The kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. } | Self::Quiet { .. } | Self::Ended(_) => ErrorKind::Unavailable,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Late => ErrorKind::Timeout,
            Self::Stranger | Self::Forged => ErrorKind::Denied,
            Self::Long { .. } => ErrorKind::TooLarge,
            Self::Malformed(_) => ErrorKind::Corrupt,
        }
    }
}

impl From<std::io::Error> for CallError {
    fn from(error: std::io::Error) -> Self {
        Self::Ended(error.to_string())
    }
}
