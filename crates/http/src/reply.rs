//! Successful answers: JSON, plain text, and compression of large ones.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use sandur_memory::Reservation;
use sandur_runtime::{Env, Lane};

use super::call::Call;

/// Minimum size of an answer that is compressed for clients that accept it.
const COMPRESSED_FROM_BYTES: usize = 16 << 10;

/// Content type of Loki's JSON answers.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// Bytes of an answer with their reservation, until they are sent.
pub(crate) struct HeldBytes {
    bytes: Vec<u8>,
    _memory: Option<Reservation>,
}

impl HeldBytes {
    /// Bytes that release `memory` when they are dropped.
    pub(crate) fn of(bytes: Vec<u8>, memory: Option<Reservation>) -> Bytes {
        Bytes::from_owner(Self { bytes, _memory: memory })
    }
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A JSON answer with status 200.
pub fn json(body: Vec<u8>) -> Response {
    with_type(JSON, Bytes::from(body))
}

/// A JSON answer with this status.
pub fn json_with(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = json(body);
    *response.status_mut() = status;
    response
}

/// A JSON answer that may be large.
pub async fn large_json(env: &Env, call: &Call, body: Vec<u8>, memory: Option<Reservation>) -> Response {
    large(env, call, JSON, body, memory).await
}

/// An answer that may be large: compressed if the client accepts it; its reservation is held until it is
/// sent.
pub async fn large(
    env: &Env,
    call: &Call,
    kind: HeaderValue,
    body: Vec<u8>,
    memory: Option<Reservation>,
) -> Response {
    if body.len() >= COMPRESSED_FROM_BYTES && call.wants_gzip() {
        let packed = env.run_cpu(Lane::Query, move || gzip(&body)).await;
        let mut response = with_type(kind, HeldBytes::of(packed, memory));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        return response;
    }
    with_type(kind, HeldBytes::of(body, memory))
}

/// Plain text with status 200.
pub fn text(body: impl Into<String>) -> Response {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    with_type(kind, Bytes::from(body.into()))
}

/// An answer without content, status 204.
pub fn empty() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// An answer with any body and status 200. Clients influence bodies, so browsers must not guess another
/// type.
pub fn with_type(kind: HeaderValue, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let packed = Vec::with_capacity(body.len() / 4);
    let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    written.expect("writing to a Vec does not fail")
}
