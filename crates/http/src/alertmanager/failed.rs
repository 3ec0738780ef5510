//! Failures as Alertmanager answers them: a JSON text.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sandur_rules::stored::StoredError;

use crate::failed_request::Failure;
use crate::reply;

/// A failed request.
pub struct Failed(pub Failure);

impl From<StoredError> for Failed {
    fn from(error: StoredError) -> Self {
        Self(Failure::new(error.kind(), error.to_string()).with_outcome(error.may_be_done()))
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl Failed {
    /// The request is malformed.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self(Failure::invalid(message))
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let body = serde_json::Value::from(self.0.message.as_str()).to_string();
        let mut headers = HeaderMap::new();
        self.0.show_retry_after(&mut headers);
        let mut response = reply::json_with(self.0.status, body.into_bytes());
        response.headers_mut().extend(headers);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
