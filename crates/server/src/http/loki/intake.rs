//! What pushes of all protocols share: admission, decoding, storing. Acknowledged when the batch is
//! durable and can be queried.
//!
//! A push is applied in part: entries that break a limit are left out and named in a 4xx answer, the
//! others are stored. Agents drop what a 4xx refused and repeat what a 429 or 5xx refused.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use sandur_base::{Claim, ErrorKind, Lane};
use sandur_ingest::{Decoded, Memory, Push, PushHeaders, Refused};
use sandur_model::TenantId;

use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::body::{BodyLimits, Received, memory_short, parties};
use crate::http::call;

type Decoder = fn(Push<'_>, Bytes, Rc<dyn Memory>) -> Result<Decoded, sandur_ingest::Error>;

/// Reads, decodes and stores one push; what was refused of it.
pub async fn push(app: &App, parts: &Parts, body: Body, decode: Decoder) -> Result<Refused, Failure> {
    let tenant = call::tenant(app, &parts.headers)?;
    let outcome = store(app, &tenant, parts, body, decode).await;
    match &outcome {
        Ok(refused) => {
            let text = refused.text().unwrap_or_default();
            for (reason, entries, _) in refused.by_reason() {
                app.refusals.note(&tenant, reason.name(), entries, &text);
            }
        }
        Err(failure) => app.refusals.note(&tenant, reason_of(failure), 0, &failure.message),
    }
    outcome
}

/// Why a push was refused as a whole, for the log.
fn reason_of(failure: &Failure) -> &'static str {
    match failure.status {
        StatusCode::REQUEST_TIMEOUT => "too_slow",
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::TOO_MANY_REQUESTS => "busy_or_rate_limited",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "denied",
        status if status.is_server_error() => "failed",
        _ => "malformed",
    }
}

async fn store(
    app: &App,
    tenant: &TenantId,
    parts: &Parts,
    body: Body,
    decode: Decoder,
) -> Result<Refused, Failure> {
    let headers = &parts.headers;
    if app.pressure.is_high() {
        app.metrics.pressure_refusals.inc();
        let text = "the server is short of memory (memory_limit); try again";
        return Err(Failure::new(ErrorKind::Busy, text));
    }
    let limits = BodyLimits {
        env: &app.env,
        size_max: app.limits(tenant).max_body_size,
        size_limit: "max_body_size",
        idle: app.settings.http.body_idle_timeout,
        rate_min: app.settings.http.min_client_rate,
        memory: &app.request_memory,
        parties: parties(tenant.as_str(), parts.extensions.get().copied()),
    };
    let received = limits.read(headers, body).await?;
    let (decoded, memory) = decode_in_memory(app, tenant, headers, received, decode).await?;
    let Decoded { batch, refused, lines, bytes } = decoded;
    app.metrics.refused_entries.inc_by(refused.lines());
    if lines > 0 {
        let allowed = app.rates.take(tenant, &app.limits(tenant), app.env.monotonic(), (lines, bytes));
        allowed.map_err(|e| Failure::new(e.kind(), e.to_string()))?;
        app.intake.push(batch.into(), Some(memory)).await?;
        app.metrics.pushed_entries.inc_by(lines);
        app.metrics.pushed_bytes.inc_by(bytes);
    }
    Ok(refused)
}

/// Small bodies are decoded at once; larger ones would keep an I/O thread busy for too long.
const INLINE_BYTES_MAX: usize = 32 << 10;

/// Bytes of labels that a stream of a batch has in memory, about.
const STREAM_BYTES: u64 = 256;

/// Decodes in memory that is taken before it is used. When it is short, waits until there is more and decodes
/// again: what a body holds is known only when it is open, and a decoder does not wait.
async fn decode_in_memory(
    app: &App,
    tenant: &TenantId,
    headers: &HeaderMap,
    received: Received,
    decode: Decoder,
) -> Result<(Decoded, Claim), Failure> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let (content_type, content_encoding) = (text(header::CONTENT_TYPE), text(header::CONTENT_ENCODING));
    let (limits, now_ns) = (app.limits(tenant), app.env.now_ns());
    let Received { bytes, mut memory } = received;
    let small = bytes.len() <= INLINE_BYTES_MAX;
    let of_body = memory.bytes();
    loop {
        let (body, limits, tenant) = (bytes.clone(), Arc::clone(&limits), tenant.clone());
        let (content_type, content_encoding) = (content_type.clone(), content_encoding.clone());
        let job = move || {
            let headers = PushHeaders {
                content_type: content_type.as_deref(),
                content_encoding: content_encoding.as_deref(),
            };
            let push = Push { tenant: &tenant, limits: &limits, now_ns, headers };
            decode_with(memory, of_body, |lent| decode(push, body, lent))
        };
        let (claim, outcome) = if small { job() } else { app.env.run_cpu(Lane::Query, job).await };
        memory = claim;
        match outcome {
            Ok(decoded) => {
                // What the batch does not hold of the body goes with it.
                let needed = decoded.batch.memory_bytes() + decoded.batch.streams.len() as u64 * STREAM_BYTES;
                memory.shrink(memory.bytes().saturating_sub(needed));
                return Ok((decoded, memory));
            }
            Err(Undecoded::Refused(error)) => return Err(refusal(error)),
            Err(Undecoded::Short { asked }) => {
                // As much again as it has, so that few rounds are needed.
                let room = app.request_memory.claim_max().saturating_sub(memory.bytes());
                let more = (memory.bytes() - of_body).min(room).max(asked);
                memory.grow(more).await.map_err(|short| memory_short(&short))?;
            }
        }
    }
}

enum Undecoded {
    Refused(sandur_ingest::Error),
    Short { asked: u64 },
}

/// Runs a decoder on what the claim holds beyond the body, and on what it can be widened by at once.
fn decode_with(
    claim: Claim,
    of_body: u64,
    decode: impl FnOnce(Rc<dyn Memory>) -> Result<Decoded, sandur_ingest::Error>,
) -> (Claim, Result<Decoded, Undecoded>) {
    let (left, asked) = (Cell::new(claim.bytes() - of_body), Cell::new(None));
    let lent = Rc::new(Lent { claim: RefCell::new(claim), left, asked });
    let outcome = decode(Rc::clone(&lent) as Rc<dyn Memory>);
    let asked = lent.asked.get();
    let lent = Rc::into_inner(lent).expect("a decoder that has returned asks for no memory");
    let mut claim = lent.claim.into_inner();
    let outcome = match (outcome, asked) {
        (Ok(decoded), _) => {
            claim.shrink(lent.left.get());
            Ok(decoded)
        }
        (Err(_), Some(asked)) => Err(Undecoded::Short { asked }),
        (Err(error), None) => Err(Undecoded::Refused(error)),
    };
    (claim, outcome)
}

/// A claim as decoders see it.
struct Lent {
    claim: RefCell<Claim>,
    /// Bytes of the claim that are not taken.
    left: Cell<u64>,
    /// What could not be given.
    asked: Cell<Option<u64>>,
}

impl Memory for Lent {
    fn take(&self, bytes: u64) -> bool {
        let Some(missing) = bytes.checked_sub(self.left.get()) else {
            self.left.set(self.left.get() - bytes);
            return true;
        };
        if self.claim.borrow_mut().try_grow(missing).is_err() {
            self.asked.set(Some(missing));
            return false;
        }
        self.left.set(0);
        true
    }

    fn give(&self, bytes: u64) {
        self.left.set(self.left.get() + bytes);
    }
}

/// A body that cannot be decoded: too large is 413, no stream is 422, all else 400.
fn refusal(error: sandur_ingest::Error) -> Failure {
    let failure = Failure::new(error.kind(), error.to_string());
    match error {
        sandur_ingest::Error::NoStreams => failure.with_status(StatusCode::UNPROCESSABLE_ENTITY),
        _ if error.kind() == ErrorKind::Limit => failure.with_status(StatusCode::PAYLOAD_TOO_LARGE),
        _ => failure,
    }
}
