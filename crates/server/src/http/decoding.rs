//! What pushes of all protocols share: admission, the body, and decoding in memory that is taken before it is
//! used.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use sandur_base::{Claim, ErrorKind, Lane, Short};
use sandur_ingest::{Memory, PushHeaders};
use sandur_model::TenantId;

use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::body::{BodyLimits, Received, memory_short, parties};

/// What a decoder makes of a body.
pub trait Decoded: Send + 'static {
    /// Bytes that it holds in memory.
    fn memory_bytes(&self) -> u64;
}

/// Reads the body of a push, unless nothing is acknowledged or the server is short of memory. One that is too
/// slow is 503, since agents repeat that and drop what a 408 refused.
pub async fn receive(app: &App, tenant: &TenantId, parts: &Parts, body: Body) -> Result<Received, Failure> {
    app.intake.admits_pushes()?;
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
    let received = limits.read(&parts.headers, body).await;
    received.map_err(|failure| match failure.status {
        StatusCode::REQUEST_TIMEOUT => failure.with_status(StatusCode::SERVICE_UNAVAILABLE),
        _ => failure,
    })
}

/// The headers that say how a body is to be read, owned.
#[derive(Clone, Debug)]
pub struct BodyHeaders {
    content_type: Option<String>,
    content_encoding: Option<String>,
}

impl BodyHeaders {
    /// Those of a request.
    pub fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        Self { content_type: text(header::CONTENT_TYPE), content_encoding: text(header::CONTENT_ENCODING) }
    }

    /// As decoders take them.
    pub fn borrowed(&self) -> PushHeaders<'_> {
        PushHeaders {
            content_type: self.content_type.as_deref(),
            content_encoding: self.content_encoding.as_deref(),
        }
    }
}

/// Why a push was refused as a whole, for the log.
pub fn reason_of(failure: &Failure) -> &'static str {
    match failure.status {
        StatusCode::PAYLOAD_TOO_LARGE => "too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limited",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "denied",
        status if status.is_server_error() => "failed",
        _ => "malformed",
    }
}

/// Why a body was not decoded.
pub enum NotDecoded {
    /// It, or what it holds, takes more memory than one request may have.
    TooLarge(Received, Failure),
    /// Anything else.
    Failed(Failure),
}

impl From<NotDecoded> for Failure {
    fn from(not: NotDecoded) -> Self {
        match not {
            NotDecoded::TooLarge(_, failure) | NotDecoded::Failed(failure) => failure,
        }
    }
}

/// Small bodies are decoded at once; larger ones would keep an I/O thread busy for too long.
const INLINE_BYTES_MAX: usize = 32 << 10;

/// Decodes in memory that is taken before it is used. The claim holds what the outcome takes.
pub async fn decode_in_memory<D: Decoded>(
    app: &App,
    received: Received,
    decode: impl Fn(bytes::Bytes, Rc<dyn Memory>) -> Result<D, sandur_ingest::Error> + Clone + Send + 'static,
) -> Result<(D, Claim), NotDecoded> {
    let (decoded, mut memory) = decode_beside(app, received, decode).await?;
    // What the batch does not hold of the body goes with it.
    memory.shrink(memory.bytes().saturating_sub(decoded.memory_bytes()));
    Ok((decoded, memory))
}

/// Decodes a body that stays, in memory beside that of the body. When it is short, waits until there is more
/// and decodes again: what a body holds is known only when it is open, and a decoder does not wait.
pub async fn decode_beside<D: Send + 'static>(
    app: &App,
    received: Received,
    decode: impl Fn(bytes::Bytes, Rc<dyn Memory>) -> Result<D, sandur_ingest::Error> + Clone + Send + 'static,
) -> Result<(D, Claim), NotDecoded> {
    let Received { bytes, mut memory } = received;
    let small = bytes.len() <= INLINE_BYTES_MAX;
    let of_body = memory.bytes();
    loop {
        let (body, decode) = (bytes.clone(), decode.clone());
        let job = move || decode_with(memory, of_body, |lent| decode(body, lent));
        let (claim, outcome) = if small { job() } else { app.env.run_cpu(Lane::Query, job).await };
        memory = claim;
        match outcome {
            Ok(decoded) => return Ok((decoded, memory)),
            Err(Undecoded::Refused(error)) => return Err(NotDecoded::Failed(refusal(error))),
            Err(Undecoded::Short { asked }) => {
                // As much again as it has, so that few rounds are needed.
                let room = app.request_memory.claim_max().saturating_sub(memory.bytes());
                let more = (memory.bytes() - of_body).min(room).max(asked);
                if let Err(short) = memory.grow(more).await {
                    let failure = memory_short(&short);
                    if !matches!(short, Short::TooLarge { .. }) {
                        return Err(NotDecoded::Failed(failure));
                    }
                    memory.shrink(memory.bytes().saturating_sub(of_body));
                    return Err(NotDecoded::TooLarge(Received { bytes, memory }, failure));
                }
            }
        }
    }
}

enum Undecoded {
    Refused(sandur_ingest::Error),
    Short { asked: u64 },
}

/// Runs a decoder on what the claim holds beyond the body, and on what it can be widened by at once.
fn decode_with<D>(
    claim: Claim,
    of_body: u64,
    decode: impl FnOnce(Rc<dyn Memory>) -> Result<D, sandur_ingest::Error>,
) -> (Claim, Result<D, Undecoded>) {
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
