//! What pushes of all protocols share: admission, decoding, storing. Acknowledged when the batch is
//! durable and can be queried.
//!
//! A push is applied in part: entries that break a limit are left out and named in a 4xx answer, the
//! others are stored. Agents drop what a 4xx refused and repeat what a 429 or 5xx refused.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use sandur_base::{ErrorKind, Lane};
use sandur_ingest::{Decoded, PushHeaders, Refused};
use sandur_model::{Limits, TenantId};

use crate::http::app::App;
use crate::http::body::{BodyLimits, Received, parties};
use crate::http::call;
use crate::http::failure::Failure;

type Decoder = fn(&TenantId, &Limits, i64, PushHeaders<'_>, Bytes) -> Result<Decoded, sandur_ingest::Error>;

/// Reads, decodes and stores one push. The text is what was refused of it.
pub async fn push(app: &App, parts: &Parts, body: Body, decode: Decoder) -> Result<Option<String>, Failure> {
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
    Ok(outcome?.text())
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
    let decoded = decode_on_pool(app, tenant, headers, received, decode).await?;
    let Decoded { batch, refused, lines, bytes } = decoded;
    app.metrics.refused_entries.inc_by(refused.lines());
    if lines > 0 {
        let allowed = app.rates.take(tenant, &app.limits(tenant), app.env.monotonic(), (lines, bytes));
        allowed.map_err(|e| Failure::new(e.kind(), e.to_string()))?;
        app.intake.push(batch).await?;
        app.metrics.pushed_entries.inc_by(lines);
        app.metrics.pushed_bytes.inc_by(bytes);
    }
    Ok(refused)
}

/// Small bodies are decoded at once; larger ones would keep an I/O thread busy for too long.
const INLINE_BYTES_MAX: usize = 32 << 10;

async fn decode_on_pool(
    app: &App,
    tenant: &TenantId,
    headers: &HeaderMap,
    received: Received,
    decode: Decoder,
) -> Result<Decoded, Failure> {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let (content_type, content_encoding) = (text(header::CONTENT_TYPE), text(header::CONTENT_ENCODING));
    let (limits, tenant, now_ns) = (app.limits(tenant).clone(), tenant.clone(), app.env.now_ns());
    let Received { bytes, memory } = received;
    let small = bytes.len() <= INLINE_BYTES_MAX;
    let job = move || {
        let headers = PushHeaders {
            content_type: content_type.as_deref(),
            content_encoding: content_encoding.as_deref(),
        };
        decode(&tenant, &limits, now_ns, headers, bytes)
    };
    let decoded = if small { job() } else { app.env.run_cpu(Lane::Query, job).await };
    drop(memory);
    decoded.map_err(refusal)
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
