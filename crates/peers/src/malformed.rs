//! The error of messages that cannot be decoded.

use sandur_protobuf::Malformed as BadWire;

/// A message that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is not protobuf.
    #[error("{0}")]
    Wire(#[from] BadWire),
    /// A value is not possible.
    #[error("{0}")]
    Value(&'static str),
}
