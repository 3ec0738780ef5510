//! Push: Loki's protocol and OTLP logs. Acknowledged when the batch is durable and can be queried.
//!
//! A push is applied in part: entries that break a limit are left out and named in a 4xx answer, the
//! others are stored. Agents drop what a 4xx refused and repeat what a 429 or 5xx refused.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use sandur_base::{ErrorKind, Lane};
use sandur_ingest::{Decoded, PushHeaders};
use sandur_model::{Limits, TenantId};

use crate::http::app::App;
use crate::http::body::{BodyLimits, Received};
use crate::http::call;
use crate::http::failure::Failure;
use crate::http::reply;

type Decoder = fn(&TenantId, &Limits, i64, PushHeaders<'_>, Bytes) -> Result<Decoded, sandur_ingest::Error>;

/// `POST /loki/api/v1/push`.
pub async fn loki(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let refused = push(&app, &parts.headers, body, sandur_ingest::loki_push).await?;
    match refused {
        None => Ok(reply::empty()),
        Some(text) => Err(Failure::invalid(text)),
    }
}

/// `POST /otlp/v1/logs`.
pub async fn otlp(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let json = is_json(&parts.headers);
    let outcome = match push(&app, &parts.headers, body, sandur_ingest::otlp_logs).await {
        Ok(None) => return otlp_accepted(json),
        Ok(Some(text)) => Failure::invalid(text),
        Err(failure) => failure,
    };
    otlp_failure(json, outcome)
}

/// Reads, decodes and stores one push. The text is what was refused of it.
async fn push(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    decode: Decoder,
) -> Result<Option<String>, Failure> {
    let tenant = call::tenant(app, headers)?;
    if app.pressure.is_high() {
        app.metrics.pressure_refusals.inc();
        let text = "the server is short of memory (memory_limit); try again";
        return Err(Failure::new(ErrorKind::Busy, text));
    }
    let limits = BodyLimits {
        env: &app.env,
        size_max: app.limits(&tenant).max_body_size,
        size_limit: "max_body_size",
        idle: app.settings.http.body_idle_timeout,
        budget: &app.request_memory,
    };
    let received = limits.read(headers, body).await?;
    let decoded = decode_on_pool(app, &tenant, headers, received, decode).await?;
    let Decoded { batch, refused, lines, bytes } = decoded;
    app.metrics.refused_entries.inc_by(refused.lines());
    if lines > 0 {
        let allowed = app.rates.take(&tenant, app.limits(&tenant), app.env.monotonic(), (lines, bytes));
        allowed.map_err(|e| Failure::new(e.kind(), e.to_string()))?;
        app.intake.push(batch).await?;
        app.metrics.pushed_entries.inc_by(lines);
        app.metrics.pushed_bytes.inc_by(bytes);
    }
    Ok(refused.text())
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

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    kind.is_some_and(|k| k.trim_start().to_ascii_lowercase().starts_with("application/json"))
}

/// An empty `ExportLogsServiceResponse`: no bytes in protobuf.
fn otlp_accepted(json: bool) -> Response {
    match json {
        true => reply::with_type(HeaderValue::from_static("application/json"), Bytes::from_static(b"{}")),
        false => reply::with_type(HeaderValue::from_static("application/x-protobuf"), Bytes::new()),
    }
}

/// A `google.rpc.Status` in the client's format. Exporters retry 429, 502, 503 and 504 only, so that
/// a failure on our side must be 503.
fn otlp_failure(json: bool, failure: Failure) -> Response {
    let status = match failure.status {
        StatusCode::INTERNAL_SERVER_ERROR => StatusCode::SERVICE_UNAVAILABLE,
        other => other,
    };
    let (kind, body) = match json {
        true => {
            let mut body = b"{\"message\":".to_vec();
            crate::http::marshal::json::string(&mut body, failure.message.as_bytes());
            body.push(b'}');
            ("application/json", Bytes::from(body))
        }
        false => ("application/x-protobuf", sandur_ingest::otlp_status(&failure.message)),
    };
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
}
