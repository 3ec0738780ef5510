//! The failure of a query or write.
//!
//! **Invariant.** The kind alone decides how a protocol reports the failure (an HTTP status, a gRPC code,
//! whether a sender retries); the message is for users.

use sandur_base::ErrorKind;
use sandur_runtime::Short;

/// A failed query or write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// What is wrong, which limit was exceeded, and what to do.
    pub message: String,
    /// Whether the request may have been carried out in spite of the failure, fully or in part.
    pub may_be_done: bool,
}

impl Failure {
    /// A failure of this kind; nothing was done.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), may_be_done: false }
    }

    /// The request is malformed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Sets [`may_be_done`](Self::may_be_done).
    pub fn with_outcome(mut self, may_be_done: bool) -> Self {
        self.may_be_done = may_be_done;
        self
    }

    /// Whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        self.kind.is_retryable() || matches!(self.kind, ErrorKind::Corrupt | ErrorKind::Internal)
    }

    /// Returns why a complete push was refused, as a label of the log of refusals.
    pub fn reason(&self) -> &'static str {
        reason_of(status_of(self.kind))
    }
}

/// Returns why a complete push was refused with this HTTP status, as a label of the log of refusals.
pub fn reason_of(status: u16) -> &'static str {
    match status {
        401 => "denied",
        413 => "too_large",
        429 => "rate_limited",
        503 => "unavailable",
        500.. => "failed",
        _ => "malformed",
    }
}

/// Returns the HTTP status of a kind: that of Loki and Mimir, because agents decide by it whether to retry.
/// Agents retry after a 5xx and not after a 4xx; some of them also retry after a 429. Prometheus drops the
/// data after a 429 unless `retry_on_http_429` is set. So 429 is returned only if a tenant exceeds its own
/// rate; a server that lacks a resource returns 503.
pub fn status_of(kind: ErrorKind) -> u16 {
    match kind {
        ErrorKind::Invalid | ErrorKind::Limit => 400,
        ErrorKind::Denied => 401,
        ErrorKind::NotFound => 404,
        ErrorKind::TooLarge => 413,
        ErrorKind::Empty => 422,
        ErrorKind::RateLimited => 429,
        ErrorKind::Cancelled => 499,
        ErrorKind::Corrupt | ErrorKind::Internal => 500,
        ErrorKind::Busy | ErrorKind::Unavailable => 503,
        ErrorKind::Timeout => 504,
    }
}

impl From<sandur_query::Error> for Failure {
    fn from(error: sandur_query::Error) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

/// A request that can never fit into the memory is too large; others may be retried.
impl From<&Short> for Failure {
    fn from(short: &Short) -> Self {
        match short {
            Short::TooLarge { .. } => {
                let text = format!(
                    "request too large for the memory of this server: {short}; send smaller batches, or \
                     raise --memory-limit"
                );
                Self::new(ErrorKind::TooLarge, text)
            }
            Short::Busy { .. } => {
                let text = format!("too many bytes are being received, try again: {short} (--memory-limit)");
                Self::new(ErrorKind::Busy, text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_retries_follow_the_kind() {
        let of = |kind| {
            let failure = Failure::new(kind, "x");
            (failure.reason(), failure.may_pass())
        };
        assert_eq!(of(ErrorKind::TooLarge), ("too_large", false));
        assert_eq!(of(ErrorKind::RateLimited), ("rate_limited", true));
        assert_eq!(of(ErrorKind::Unavailable), ("unavailable", true));
        assert_eq!(of(ErrorKind::Internal), ("failed", true));
        assert_eq!(of(ErrorKind::Limit), ("malformed", false));
    }
}
