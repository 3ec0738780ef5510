//! Answers that list queries: a JSON object with one list.
//!
//! Invariant: the memory of an answer is reserved before it is written.

use std::time::Duration;

use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_service::Queries;
use serde_json::Value;

use crate::call::Call;
use crate::failed_request::Failure;
use crate::reply;

/// Bytes that a byte of text needs in JSON, at most: `\u0000`.
const BYTES_OF_BYTE: usize = 6;

/// A query in a list.
pub(super) trait Listed {
    /// The name of the list.
    const LIST: &str;
    /// The most bytes of a query in the list without its texts.
    const BYTES: usize;

    /// Bytes of its texts.
    fn text_bytes(&self) -> usize;

    /// The query as JSON.
    fn shown(&self) -> Value;
}

/// Bytes of a further member without its value.
const MEMBER_BYTES: usize = 64;

/// Returns the answer that lists these queries.
pub(super) async fn answer<Q: Listed>(
    queries: &Queries,
    call: &Call,
    found: Vec<Q>,
) -> Result<Response, Failure> {
    answer_with(queries, call, found, &[]).await
}

/// Returns the answer that lists these queries and has these further members.
pub(super) async fn answer_with<Q: Listed>(
    queries: &Queries,
    call: &Call,
    found: Vec<Q>,
    more: &[(&str, Value)],
) -> Result<Response, Failure> {
    let more: Vec<String> = more.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
    let listed: usize = found.iter().map(|query| Q::BYTES + query.text_bytes() * BYTES_OF_BYTE).sum();
    let bytes = listed + more.iter().map(|member| MEMBER_BYTES + member.len()).sum::<usize>();
    let mut memory = queries
        .memory()
        .reserve(bytes as u64)
        .map_err(|short| Failure::new(ErrorKind::Busy, format!("no memory for the answer: {short}")))?;
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(format!("{{\"{}\":[", Q::LIST).as_bytes());
    for (n, query) in found.iter().enumerate() {
        if n > 0 {
            body.push(b',');
        }
        serde_json::to_writer(&mut body, &query.shown()).expect("writing to a Vec does not fail");
    }
    body.push(b']');
    more.iter().for_each(|member| body.extend_from_slice(member.as_bytes()));
    body.push(b'}');
    body.shrink_to_fit();
    memory.shrink(memory.bytes().saturating_sub(body.len() as u64));
    Ok(reply::large_json(queries.env(), call, body, Some(memory)).await)
}

/// Milliseconds with three digits.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}
