//! gRPC over HTTP/2 for calls with one request message; the answer has one message or several, and its
//! status in trailers.
//!
//! A message follows a prefix of 5 bytes: a flag (compressed or not) and its length. Everything else is
//! HTTP: heads, bodies, credentials, TLS and their bounds are the same as for other routes.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, Stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use sandur_ingest::Refused;
use sandur_memory::Reservation;
use sandur_protobuf::Writer as _;
use sandur_runtime::Env;

use crate::failed_request::Failure;

/// Compression flag (1 byte) and length (4 bytes).
const PREFIX_BYTES: usize = 5;
/// Supported compressions of messages.
const ENCODINGS: [&str; 4] = ["gzip", "zstd", "snappy", "deflate"];
const ENCODINGS_SHOWN: HeaderValue = HeaderValue::from_static("identity,gzip,zstd,snappy,deflate");
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// Maximum length of the text of a failure: it is a header, and clients bound the size of headers.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// The status codes that we answer with (`google.rpc.Code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request is wrong.
    InvalidArgument = 3,
    /// The credential has no permission.
    PermissionDenied = 7,
    /// The request is too large, or a rate is exceeded.
    ResourceExhausted = 8,
    /// No such method, or an unknown compression.
    Unimplemented = 12,
    /// Temporarily unavailable.
    Unavailable = 14,
    /// No valid credential.
    Unauthenticated = 16,
}

impl Code {
    /// The code of a failure, and whether the client may retry. OTLP exporters retry after `UNAVAILABLE`,
    /// and after `RESOURCE_EXHAUSTED` only with a `RetryInfo`.
    fn of(failure: &Failure) -> (Self, bool) {
        match failure.status {
            StatusCode::UNAUTHORIZED => (Self::Unauthenticated, false),
            StatusCode::FORBIDDEN => (Self::PermissionDenied, false),
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => (Self::Unimplemented, false),
            StatusCode::PAYLOAD_TOO_LARGE => (Self::ResourceExhausted, false),
            StatusCode::TOO_MANY_REQUESTS => (Self::ResourceExhausted, true),
            StatusCode::REQUEST_TIMEOUT => (Self::Unavailable, true),
            status if status.is_server_error() => (Self::Unavailable, true),
            _ => (Self::InvalidArgument, false),
        }
    }
}

/// Converts a gRPC call to an HTTP request: the message becomes the body, and headers name its
/// compression.
pub async fn open(env: &Env, idle: Duration, request: Request<Body>) -> Result<Request<Body>, Failure> {
    let (mut parts, mut body) = request.into_parts();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    if parts.version != Version::HTTP_2 || !kind.starts_with("application/grpc") {
        let text = "this path speaks gRPC: HTTP/2 with the content type application/grpc";
        return Err(Failure::invalid(text).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let mut start = BytesMut::new();
    while start.len() < PREFIX_BYTES {
        let slow = || Failure::invalid("no message arrived").with_status(StatusCode::REQUEST_TIMEOUT);
        match env.timeout(idle, body.frame()).await.ok_or_else(slow)? {
            Some(Ok(frame)) => frame.into_data().into_iter().for_each(|data| start.extend_from_slice(&data)),
            _ => return Err(Failure::invalid("the call ended before its message")),
        }
    }
    let (compressed, length) = (start.get_u8(), start.get_u32());
    let encoding = parts.headers.remove(ENCODING);
    parts.headers.remove(header::CONTENT_ENCODING);
    match (compressed, encoding) {
        (0, _) => {}
        (1, Some(name)) if ENCODINGS.iter().any(|known| *known == name) => {
            parts.headers.insert(header::CONTENT_ENCODING, name);
        }
        (1, _) => {
            let text = "the message's compression is none of gzip, zstd, snappy and deflate (grpc-encoding)";
            return Err(Failure::invalid(text).with_status(StatusCode::NOT_IMPLEMENTED));
        }
        _ => return Err(Failure::invalid("the message has an unknown flag")),
    }
    let protobuf = HeaderValue::from_static("application/x-protobuf");
    parts.headers.insert(header::CONTENT_TYPE, protobuf);
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Ok(Request::from_parts(parts, message(start.freeze(), u64::from(length), body)))
}

/// A body of exactly `length` bytes: `start` and what follows. Fails on a truncated message and on more
/// than one message, so that neither is taken for one complete message.
fn message(start: Bytes, length: u64, body: Body) -> Body {
    let wrong = |text: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, text.to_owned());
    let pieces = stream::try_unfold((Some(start), length, body), move |(start, left, mut body)| async move {
        let data = match start {
            Some(start) => start,
            None => match body.frame().await {
                None if left > 0 => return Err(wrong("the message is shorter than it says")),
                None => return Ok(None),
                Some(frame) => frame.map_err(std::io::Error::other)?.into_data().unwrap_or_default(),
            },
        };
        let left = left.checked_sub(data.len() as u64);
        let left =
            left.ok_or_else(|| wrong("the call has more than one message, or one longer than it says"))?;
        Ok(Some((data, (None, left, body))))
    });
    Body::from_stream(pieces)
}

/// A successful answer with this message.
pub fn answer(message: &[u8]) -> Response {
    messages(vec![Bytes::copy_from_slice(message)], None)
}

/// An `ExportLogsServiceResponse` or `ExportMetricsServiceResponse`, which have the same fields.
pub fn export_response(refused: &Refused) -> Vec<u8> {
    let mut response = Vec::new();
    if let Some(text) = refused.text() {
        response.message(1, |partial| {
            partial.varint(1, refused.lines()); // rejected_log_records or rejected_data_points
            partial.bytes(2, text.as_bytes());
        });
    }
    response
}

/// A successful answer with these messages. Their memory is held until the last one was sent.
pub fn messages(all: Vec<Bytes>, memory: Option<Reservation>) -> Response {
    let frames = all.into_iter().flat_map(move |message| {
        let _held = &memory;
        [Frame::data(Bytes::copy_from_slice(&prefix(message.len()))), Frame::data(message)]
    });
    let frames = frames.chain([Frame::trailers(good())]);
    streamed(stream::iter(frames.map(Ok)))
}

/// The prefix of an uncompressed message of this length.
pub fn prefix(length: usize) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    prefix[1..].copy_from_slice(&(length as u32).to_be_bytes());
    prefix
}

/// An answer of these frames, which must end with trailers.
pub fn streamed(frames: impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static) -> Response {
    let headers = [(header::CONTENT_TYPE, GRPC), (ACCEPT_ENCODING, ENCODINGS_SHOWN)];
    (headers, Body::new(StreamBody::new(frames))).into_response()
}

/// The trailers of a successful answer.
pub fn good() -> HeaderMap {
    HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))])
}

/// The trailers of a failed answer.
pub fn failed(failure: &Failure) -> HeaderMap {
    let (code, retry) = Code::of(failure);
    let text = &failure.message[..failure.message.floor_char_boundary(MESSAGE_BYTES_MAX)];
    let details = status(code, text, retry.then_some(failure.retry_after_s));
    let value = |text: String| HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""));
    HeaderMap::from_iter([
        (STATUS, HeaderValue::from(code as u16)),
        (MESSAGE, value(percent_encoded(text.trim_end()))),
        (DETAILS, value(STANDARD_NO_PAD.encode(details))),
    ])
}

/// The answer of a failed call: trailers only, without a message.
pub fn failure(failure: &Failure) -> Response {
    let headers = [(header::CONTENT_TYPE, GRPC), (ACCEPT_ENCODING, ENCODINGS_SHOWN)];
    (headers, failed(failure), Body::empty()).into_response()
}

/// Encodes a `google.rpc.Status` with this code and text, with a `RetryInfo` if the client may retry
/// after this time.
fn status(code: Code, text: &str, retry_after_s: Option<u8>) -> Vec<u8> {
    let mut status = Vec::new();
    status.varint(1, code as u64);
    status.bytes(2, text.trim_end().as_bytes());
    if let Some(seconds) = retry_after_s {
        status.message(3, |any| {
            any.text(1, "type.googleapis.com/google.rpc.RetryInfo");
            // retry_delay: a Duration with its field `seconds`
            any.message(2, |info| info.message(1, |delay| delay.varint(1, seconds.into())));
        });
    }
    status
}

/// Percent-encodes a text for `grpc-message`: everything but printable ASCII, and `%` itself.
fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
