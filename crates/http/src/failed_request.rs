//! A failed request: its status and the plain text that the client reads.
//!
//! The status follows from the kind of the failure ([`sandur_service::status_of`]), unless a protocol wants
//! another. A 503 says with `Retry-After` when to ask again.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sandur_base::ErrorKind;
use sandur_service::query_log::Outcome;

/// The response to a failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Status of the answer.
    pub status: StatusCode,
    /// The body.
    pub message: String,
    /// Whether the requested operation may have been done nevertheless.
    pub may_be_done: bool,
    /// Seconds after which a retry is reasonable, if the response contains it.
    pub retry_after_s: u8,
}

/// `Retry-After` if the server was too busy: memory and slots soon become free.
const BUSY_RETRY_S: u8 = 1;
/// `Retry-After` if a dependency is unavailable: the server retries an unreachable store at least as
/// often, and refuses every request before that.
const UNAVAILABLE_RETRY_S: u8 = 5;

impl Failure {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retry_after_s = if kind == ErrorKind::Unavailable { UNAVAILABLE_RETRY_S } else { BUSY_RETRY_S };
        Self { status: status_of(kind), message: message.into(), may_be_done: false, retry_after_s }
    }

    /// The request is malformed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Sets whether the requested operation may have been done nevertheless.
    pub fn with_outcome(mut self, may_be_done: bool) -> Self {
        self.may_be_done = may_be_done;
        self
    }

    /// Adds `Retry-After` to a 503.
    pub fn show_retry_after(&self, headers: &mut HeaderMap) {
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(u16::from(self.retry_after_s)));
        }
    }

    /// Replaces the status of the kind.
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }
}

/// The status of a kind of error.
fn status_of(kind: ErrorKind) -> StatusCode {
    StatusCode::from_u16(sandur_service::status_of(kind)).expect("kinds have statuses of HTTP")
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        // The message may quote the query: browsers must not interpret it as HTML.
        let plain = HeaderValue::from_static("nosniff");
        let mut headers =
            HeaderMap::from_iter([(header::CONTENT_TYPE, text), (header::X_CONTENT_TYPE_OPTIONS, plain)]);
        self.show_retry_after(&mut headers);
        (self.status, headers, self.message).into_response()
    }
}

impl From<sandur_service::Failure> for Failure {
    fn from(failure: sandur_service::Failure) -> Self {
        Self::new(failure.kind, failure.message).with_outcome(failure.may_be_done)
    }
}

impl From<&Failure> for Outcome {
    fn from(failure: &Failure) -> Self {
        Self::failed(failure.status.as_u16(), &failure.message)
    }
}

impl From<sandur_query::Error> for Failure {
    fn from(error: sandur_query::Error) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_that_agents_expect() {
        let status = |kind| status_of(kind).as_u16();
        assert_eq!(status(ErrorKind::Limit), 400);
        assert_eq!((status(ErrorKind::Busy), status(ErrorKind::RateLimited)), (503, 429));
        assert_eq!(status(ErrorKind::Cancelled), 499);
        assert_eq!(status(ErrorKind::Timeout), 504);
        assert_eq!(Failure::from(sandur_query::Error::Busy).message, "too many outstanding requests");
    }

    #[test]
    fn only_a_503_has_retry_after() {
        let retry_after = |failure: Failure| {
            let response = failure.into_response();
            response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(retry_after(Failure::new(ErrorKind::Unavailable, "x")).as_deref(), Some("5"));
        assert_eq!(retry_after(Failure::new(ErrorKind::Busy, "x")).as_deref(), Some("1"));
        let slow = Failure::invalid("x").with_status(StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(retry_after(slow).as_deref(), Some("1"));
        for kind in [ErrorKind::Invalid, ErrorKind::RateLimited, ErrorKind::Timeout, ErrorKind::Internal] {
            assert_eq!(retry_after(Failure::new(kind, "x")), None);
        }
    }
}
