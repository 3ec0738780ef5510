//! Tells clients which parts of a push were refused, if they request it: `X-Sandur-Refused: entries` for
//! Loki's push, `X-Sandur-Refused: lines` for samples as text.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sandur_ingest::Run;

use super::marshal::json;
use super::reply;

/// The request header.
pub const HEADER: &str = "x-sandur-refused";

/// Whether the client requests the refused parts of this kind (`entries` or `lines`).
pub fn are_asked(headers: &HeaderMap, parts: &str) -> bool {
    headers.get(HEADER).is_some_and(|value| value.as_bytes() == parts.as_bytes())
}

/// The answer `400` with `{"message":"...","refused":[[first,count,"reason"],...]}`. Parts are counted
/// from 0 through the request; all parts that are not listed are stored.
pub fn answer(runs: &[Run], text: &str) -> Response {
    let mut body = b"{\"message\":".to_vec();
    json::utf8(&mut body, text);
    body.extend_from_slice(b",\"refused\":[");
    for (n, run) in runs.iter().enumerate() {
        let separator = if n == 0 { "" } else { "," };
        let (first, count, reason) = (run.first, run.count, run.reason.name());
        body.extend_from_slice(format!("{separator}[{first},{count},\"{reason}\"]").as_bytes());
    }
    body.extend_from_slice(b"]}");
    reply::json_with(StatusCode::BAD_REQUEST, body)
}
