//! Pushes of lines: decoding, rates, storing. Acknowledged when the batch is durable and can be queried.
//!
//! A push is applied in part: entries that break a limit are left out and named in a 4xx answer, the
//! others are stored. Agents drop what a 4xx refused and repeat what a 429 or 5xx refused.

use std::rc::Rc;

use axum::body::Body;
use axum::http::request::Parts;
use bytes::Bytes;
use sandur_ingest::{Decoded, Memory, Push, Refused};
use sandur_model::TenantId;

use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::call;
use crate::http::decoding::{self, BodyHeaders, decode_in_memory, reason_of, receive};

/// A decoder of a protocol.
pub type Decoder = fn(Push<'_>, Bytes, Rc<dyn Memory>) -> Result<Decoded, sandur_ingest::Error>;

/// Bytes of labels that a stream of a batch has in memory, about.
const STREAM_BYTES: u64 = 256;

impl decoding::Decoded for Decoded {
    fn memory_bytes(&self) -> u64 {
        self.batch.memory_bytes() + self.batch.streams.len() as u64 * STREAM_BYTES
    }
}

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

async fn store(
    app: &App,
    tenant: &TenantId,
    parts: &Parts,
    body: Body,
    decode: Decoder,
) -> Result<Refused, Failure> {
    let received = receive(app, tenant, parts, body).await?;
    let (headers, limits) = (BodyHeaders::of(&parts.headers), app.limits(tenant));
    let (of_tenant, now_ns) = (tenant.clone(), app.env.now_ns());
    let decode = move |body, lent| {
        let push = Push { tenant: &of_tenant, limits: &limits, now_ns, headers: headers.borrowed() };
        decode(push, body, lent)
    };
    let (decoded, memory) = decode_in_memory(app, received, decode).await?;
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
