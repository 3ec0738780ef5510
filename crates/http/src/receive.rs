//! Receiving the body of a push, before it is handed to the service of writes.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use sandur_ingest::Refused;
use sandur_model::TenantId;
use sandur_service::reason_of;
use sandur_service::writes::{BodyHeaders, LineDecoder, Received, SampleDecoder, Stored, parties};

use super::app::App;
use super::body::BodyLimits;
use super::call;
use crate::failed_request::Failure;

/// Reads the body of a push. Refuses it when pushes cannot be acknowledged or the process is short of memory.
/// A body that is too slow gets 503 and not 408, since agents retry after 503 and drop data after 408. A
/// refusal is logged.
pub async fn receive(
    app: &App,
    tenant: &TenantId,
    parts: &Parts,
    body: Body,
) -> Result<(Received, BodyHeaders), Failure> {
    let received = read(app, tenant, parts, body).await;
    if let Err(failure) = &received {
        app.writes.refusals().note(tenant, reason_of(failure.status.as_u16()), 0, &failure.message);
    }
    Ok((received?, headers_of(&parts.headers)))
}

async fn read(app: &App, tenant: &TenantId, parts: &Parts, body: Body) -> Result<Received, Failure> {
    app.writes.admits()?;
    let limits = BodyLimits {
        env: &app.env,
        size_max: app.writes.limits(tenant).max_body_size,
        size_limit: "max_body_size",
        idle: app.settings.http.body_idle_timeout,
        rate_min: app.settings.http.min_client_rate,
        memory: app.writes.memory(),
        parties: parties(tenant.as_str(), parts.extensions.get().copied()),
    };
    let received = limits.read(&parts.headers, body).await;
    received.map_err(|failure| match failure.status {
        StatusCode::REQUEST_TIMEOUT => failure.with_status(StatusCode::SERVICE_UNAVAILABLE),
        _ => failure,
    })
}

/// The headers that say how a body is to be read.
pub fn headers_of(headers: &HeaderMap) -> BodyHeaders {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    BodyHeaders::new(text(header::CONTENT_TYPE), text(header::CONTENT_ENCODING))
}

/// Receives, decodes and stores one push of lines; what was refused of it.
pub async fn push_lines(
    app: &App,
    parts: &Parts,
    body: Body,
    decode: LineDecoder,
) -> Result<Refused, Failure> {
    let tenant = call::tenant(app, &parts.headers)?;
    let received = receive(app, &tenant, parts, body).await?;
    Ok(app.writes.store_lines(&tenant, received, decode).await?)
}

/// Receives, decodes and stores one push of samples.
pub async fn push_samples(
    app: &App,
    parts: &Parts,
    body: Body,
    decode: impl SampleDecoder,
) -> Result<Stored, Failure> {
    let tenant = call::tenant(app, &parts.headers)?;
    let received = receive(app, &tenant, parts, body).await?;
    Ok(app.writes.store_samples(&tenant, received, decode).await?)
}
