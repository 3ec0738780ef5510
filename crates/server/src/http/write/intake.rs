//! Pushes of samples: decoding, rates, storing. Acknowledged when the batch is durable and can be queried.
//!
//! A push is applied in part: samples that break a limit are left out and named in a 4xx answer, the others
//! are stored. Senders drop what a 4xx refused and repeat what a 5xx refused; what a 429 refused,
//! Prometheus repeats if it is told to.

use std::rc::Rc;

use axum::body::Body;
use axum::http::request::Parts;
use bytes::Bytes;
use sandur_base::{Claim, Lane};
use sandur_ingest::{Accepted, DecodedSamples, DeltaStreams, Memory, Refused, SamplePush, Written};
use sandur_model::{SampleBatch, TenantId};

use super::delta;
use super::parts::{ItemDecoder, store_in_parts};
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::call;
use crate::http::decoding::{self, NotDecoded, decode_in_memory, reason_of, receive};

/// What became of a push.
#[derive(Default)]
pub struct Stored {
    /// What was stored.
    pub written: Written,
    /// What was left out.
    pub refused: Refused,
}

/// A decoder of a protocol.
pub trait SampleDecoder:
    Fn(SamplePush<'_>, Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, sandur_ingest::Error>
    + Clone
    + Send
    + 'static
{
}

impl<D> SampleDecoder for D where
    D: Fn(SamplePush<'_>, Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, sandur_ingest::Error>
        + Clone
        + Send
        + 'static
{
}

/// Memory of the labels of a series of a batch, about, when the cache of series has let go of it.
const SERIES_BYTES: u64 = 64;

impl decoding::Decoded for DecodedSamples {
    fn memory_bytes(&self) -> u64 {
        self.batch.memory_bytes() + self.batch.series.len() as u64 * SERIES_BYTES + self.adding_bytes()
    }
}

/// Series of a batch from which work on it leaves the I/O threads.
const INLINE_SERIES_MAX: usize = 1_000;

/// Does work on so many series of a batch: at once when they are few, else on the CPU pool.
pub(super) async fn compute<T: Send + 'static>(
    app: &App,
    series: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if series <= INLINE_SERIES_MAX { work() } else { app.env.run_cpu(Lane::Query, work).await }
}

/// Reads, decodes and stores one push.
pub async fn push(
    app: &App,
    parts: &Parts,
    body: Body,
    decode: impl SampleDecoder,
) -> Result<Stored, Failure> {
    let tenant = call::tenant(app, &parts.headers)?;
    let outcome = read_and_store(app, &tenant, parts, body, decode).await;
    note(app, &tenant, &outcome);
    outcome
}

async fn read_and_store(
    app: &App,
    tenant: &TenantId,
    parts: &Parts,
    body: Body,
    decode: impl SampleDecoder,
) -> Result<Stored, Failure> {
    let received = receive(app, tenant, parts, body).await?;
    let decoder = ItemDecoder::new(app, tenant, parts, decode);
    match decode_in_memory(app, received, decoder.of_all()).await {
        Ok((mut decoded, memory)) => {
            admit_decoded(app, tenant, &mut decoded)?;
            store(app, tenant, decoded, Some(memory)).await
        }
        Err(NotDecoded::TooLarge(received, failure)) => {
            store_in_parts(app, tenant, received, &decoder, failure).await
        }
        Err(NotDecoded::Failed(failure)) => Err(failure),
    }
}

/// Reads and decodes one push, within the tenant's series and rates.
pub(super) async fn admit(
    app: &App,
    tenant: &TenantId,
    parts: &Parts,
    body: Body,
    decode: impl SampleDecoder,
) -> Result<(DecodedSamples, Claim), Failure> {
    let received = receive(app, tenant, parts, body).await?;
    let decoder = ItemDecoder::new(app, tenant, parts, decode);
    let (mut decoded, memory) = decode_in_memory(app, received, decoder.of_all()).await?;
    admit_decoded(app, tenant, &mut decoded)?;
    Ok((decoded, memory))
}

/// Keeps samples within the tenant's series and rates.
pub(super) fn admit_decoded(
    app: &App,
    tenant: &TenantId,
    decoded: &mut DecodedSamples,
) -> Result<(), Failure> {
    let limits = app.limits(tenant);
    let most = limits.metrics.max_global_series_per_user;
    if most > 0 {
        let beyond = app.intake.series_beyond(&decoded.batch, most);
        decoded.refuse_series(&beyond, most);
    }
    let items = decoded.written.items();
    if items > 0 {
        let allowed = app.rates.take_samples(tenant, &limits.metrics, app.env.monotonic(), items);
        allowed.map_err(|e| Failure::new(e.kind(), e.to_string()))?;
    }
    Ok(())
}

/// Stores what a scrape found, under the limits of its tenant: what breaks one is left out, counted and
/// logged as that of a push.
pub async fn store_scraped(app: &App, batch: SampleBatch) -> Result<(), Failure> {
    app.intake.admits_pushes()?;
    let tenant = batch.tenant.clone();
    let limits = app.limits(&tenant);
    let check = move || DecodedSamples::within(batch, &limits.metrics);
    let mut decoded = app.env.run_cpu(Lane::Background, check).await;
    let outcome = match admit_decoded(app, &tenant, &mut decoded) {
        Ok(()) if decoded.batch.is_empty() => {
            Ok(Stored { written: decoded.written, refused: decoded.refused })
        }
        Ok(()) => store_batch(app, decoded.into_batch(), None).await,
        Err(failure) => Err(failure),
    };
    note(app, &tenant, &outcome);
    outcome.map(drop)
}

/// Stores a push that was admitted.
pub(super) async fn store(
    app: &App,
    tenant: &TenantId,
    decoded: DecodedSamples,
    memory: Option<Claim>,
) -> Result<Stored, Failure> {
    if decoded.batch.is_empty() {
        return Ok(Stored { written: decoded.written, refused: decoded.refused });
    }
    if DeltaStreams::concern(&decoded) {
        return delta::store(app, &app.limits(tenant).metrics, decoded, memory).await;
    }
    store_batch(app, decoded.into_batch(), memory).await
}

/// Stores a batch and counts it. Samples that were not stored for another value of their instant are refused.
pub(super) async fn store_batch(
    app: &App,
    (batch, mut accepted): (SampleBatch, Accepted),
    memory: Option<Claim>,
) -> Result<Stored, Failure> {
    accepted.refuse_conflicts(&app.intake.push(batch.into(), memory).await?);
    let Accepted { refused, written, .. } = accepted;
    app.metrics.pushed_samples.inc_by(written.samples);
    app.metrics.pushed_histograms.inc_by(written.histograms);
    app.metrics.pushed_exemplars.inc_by(written.exemplars);
    Ok(Stored { written, refused })
}

/// Counts what was refused, for the metrics and for the log.
pub(super) fn note(app: &App, tenant: &TenantId, outcome: &Result<Stored, Failure>) {
    match outcome {
        Ok(Stored { refused, .. }) => {
            let text = refused.text().unwrap_or_default();
            for (reason, samples, _) in refused.by_reason() {
                app.metrics.refused_samples(reason.name(), samples);
                app.refusals.note(tenant, reason.name(), samples, &text);
            }
        }
        Err(failure) => app.refusals.note(tenant, reason_of(failure), 0, &failure.message),
    }
}
