//! A refused request in Prometheus's format: JSON with the type of the error.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sandur_base::ErrorKind;
use sandur_query::Error;
use sandur_service::promql::Failed;
use sandur_service::query_log::Outcome;

use crate::failed_request::Failure;
use crate::marshal::json;
use crate::reply;

/// The type of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is invalid.
    BadData,
    /// The query failed, or a limit was exceeded.
    Execution,
    /// The query took too long.
    Timeout,
    /// The client disconnected.
    Canceled,
    /// A defect or damaged data.
    Internal,
    /// Temporarily unavailable, or not supported.
    Unavailable,
    /// Not found.
    NotFound,
    /// The queue is full.
    TooManyRequests,
}

impl Kind {
    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadData => "bad_data",
            Self::Execution => "execution",
            Self::Timeout => "timeout",
            Self::Canceled => "canceled",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::NotFound => "not_found",
            Self::TooManyRequests => "too_many_requests",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::BadData => StatusCode::BAD_REQUEST,
            Self::Execution => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Timeout | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Canceled => StatusCode::from_u16(499).expect("499 is within the range of statuses"),
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The type of the error.
    pub kind: Kind,
    /// The text of the error.
    pub message: String,
}

impl Refused {
    /// A refusal of this type.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A parameter that is invalid.
    pub fn parameter(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::new(Kind::BadData, format!("invalid parameter \"{name}\": {reason}"))
    }

    /// An error while parsing a parameter: an invalid query is `bad_data` with the text that `say` makes;
    /// other errors keep their type.
    pub fn reading(error: Error, say: impl FnOnce(&str) -> String) -> Self {
        match error {
            Error::Invalid(reason) => Self::new(Kind::BadData, say(&reason)),
            other => other.into(),
        }
    }

    /// The HTTP status of the answer.
    pub fn status(&self) -> u16 {
        self.kind.status().as_u16()
    }
}

impl From<&Refused> for Outcome {
    fn from(refused: &Refused) -> Self {
        Self::failed(refused.status(), &refused.message)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Timeout(_) => {
                let text = "query timed out in expression evaluation: ask for a shorter range, a longer step \
                            or fewer series, or raise query.timeout on the server";
                return Self::new(Kind::Timeout, text);
            }
            Error::Cancelled => {
                return Self::new(Kind::Canceled, "query was canceled in expression evaluation");
            }
            Error::Unavailable(_) | Error::StaleView(_) | Error::Starved => Kind::Unavailable,
            Error::Busy => Kind::TooManyRequests,
            Error::Corrupt(_) | Error::Internal(_) => Kind::Internal,
            _ => Kind::Execution,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<Failed> for Refused {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Reading(error) => {
                Self::reading(error, |reason| format!("invalid parameter \"query\": {reason}"))
            }
            Failed::Running(error) => error.into(),
        }
    }
}

impl From<sandur_service::Failure> for Refused {
    fn from(failure: sandur_service::Failure) -> Self {
        Failure::from(failure).into()
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        let kind = match failure.status.as_u16() {
            404 => Kind::NotFound,
            429 => Kind::TooManyRequests,
            499 => Kind::Canceled,
            500 => Kind::Internal,
            503 => Kind::Unavailable,
            504 => Kind::Timeout,
            _ => Kind::BadData,
        };
        Self::new(kind, failure.message.trim_end())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut body = b"{\"status\":\"error\",\"errorType\":\"".to_vec();
        body.extend_from_slice(self.kind.name().as_bytes());
        body.extend_from_slice(b"\",\"error\":");
        json::utf8(&mut body, &self.message);
        body.push(b'}');
        let mut response = reply::with_type(HeaderValue::from_static("application/json"), body.into());
        *response.status_mut() = self.kind.status();
        if self.kind == Kind::Unavailable {
            Failure::new(ErrorKind::Unavailable, "").show_retry_after(response.headers_mut());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_prometheus_types_and_statuses() {
        let of = |error: Error| {
            let refused = Refused::from(error);
            (refused.kind.name(), refused.status())
        };
        assert_eq!(of(Error::Limit("x".into())), ("execution", 422));
        assert_eq!(of(Error::Invalid("x".into())), ("execution", 422));
        assert_eq!(of(Error::Timeout(std::time::Duration::ZERO)), ("timeout", 503));
        assert_eq!(of(Error::Cancelled), ("canceled", 499));
        assert_eq!(of(Error::Busy), ("too_many_requests", 429));
        assert_eq!(of(Error::Unavailable("x".into())), ("unavailable", 503));
        assert_eq!(of(Error::StaleView("x".into())), ("unavailable", 503));
        assert_eq!(of(Error::Internal("x".into())), ("internal", 500));
    }
}
