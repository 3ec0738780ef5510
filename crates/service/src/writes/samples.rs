//! Pushes of samples: decodes, applies rates, stores. A push is acknowledged when the batch is durable
//! and can be queried.
//!
//! A push may be stored in part: samples that break a limit are left out and named in a 4xx answer, the
//! others are stored. Senders drop data after a 4xx and retry after a 5xx; Prometheus retries after a 429
//! if configured to.

use sandur_base::{BoxFuture, Id};
use sandur_ingest::{Accepted, CarbonBatches, DecodedSamples, DeltaStreams};
use sandur_model::{SampleBatch, SampleConflicts, TenantId};
use sandur_runtime::{FairReservation, Lane};

use super::decoding::{self, BodyHeaders, NotDecoded, Received, decode_in_memory};
use super::parts::{ItemDecoder, store_in_parts};
use super::sample_push::{SampleDecoder, Stored};
use super::{Writes, delta};
use crate::failure::Failure;

/// Estimated memory of the labels of a series, once the cache of series has evicted it.
const SERIES_BYTES: u64 = 64;

impl decoding::Decoded for DecodedSamples {
    fn memory_bytes(&self) -> u64 {
        self.batch.memory_bytes() + self.batch.series.len() as u64 * SERIES_BYTES + self.adding_bytes()
    }
}

impl decoding::Decoded for CarbonBatches {
    fn memory_bytes(&self) -> u64 {
        self.batches.iter().map(decoding::Decoded::memory_bytes).sum()
    }
}

/// Work on batches with more series than this runs on the CPU pool.
const INLINE_SERIES_MAX: usize = 1_000;

impl Writes {
    /// Runs work on a batch of this many series: on the current thread if they are few, otherwise on
    /// the CPU pool.
    pub async fn compute<T: Send + 'static>(
        &self,
        series: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if series <= INLINE_SERIES_MAX { work() } else { self.env().run_cpu(Lane::Query, work).await }
    }

    /// Decodes and stores one push of samples. Refused samples are counted and logged.
    pub async fn store_samples(
        &self,
        tenant: &TenantId,
        (received, headers): (Received, BodyHeaders),
        decode: impl SampleDecoder,
    ) -> Result<Stored, Failure> {
        let outcome = self.decode_and_store(tenant, (received, headers), decode).await;
        self.note_samples(tenant, &outcome);
        outcome
    }

    async fn decode_and_store(
        &self,
        tenant: &TenantId,
        (received, headers): (Received, BodyHeaders),
        decode: impl SampleDecoder,
    ) -> Result<Stored, Failure> {
        let decoder = ItemDecoder::new(self, tenant, headers, decode);
        match decode_in_memory(self, received, decoder.of_all()).await {
            Ok((mut decoded, memory)) => {
                self.admit_decoded(tenant, &mut decoded)?;
                self.store_decoded(tenant, decoded, Some(memory)).await
            }
            Err(NotDecoded::TooLarge(received, failure)) => {
                store_in_parts(self, tenant, received, &decoder, failure).await
            }
            Err(NotDecoded::Failed(failure)) => Err(failure),
        }
    }

    /// Decodes one push of samples, within the tenant's series and rates.
    pub async fn admit_samples(
        &self,
        tenant: &TenantId,
        (received, headers): (Received, BodyHeaders),
        decode: impl SampleDecoder,
    ) -> Result<(DecodedSamples, FairReservation), Failure> {
        let decoder = ItemDecoder::new(self, tenant, headers, decode);
        let (mut decoded, memory) = decode_in_memory(self, received, decoder.of_all()).await?;
        self.admit_decoded(tenant, &mut decoded)?;
        Ok((decoded, memory))
    }

    /// Applies the tenant's series limit and rates to decoded samples.
    pub(super) fn admit_decoded(
        &self,
        tenant: &TenantId,
        decoded: &mut DecodedSamples,
    ) -> Result<(), Failure> {
        let limits = self.limits(tenant);
        let most = limits.metrics.max_global_series_per_user;
        if most > 0 {
            let beyond = self.intake().series_beyond(&decoded.batch, most);
            decoded.refuse_series(&beyond, most);
        }
        let items = decoded.written.items();
        if items > 0 {
            let allowed = self.rates().take_samples(tenant, &limits.metrics, self.env().monotonic(), items);
            allowed.map_err(|e| Failure::new(e.kind(), e.to_string()))?;
        }
        Ok(())
    }

    /// Stores samples that this process made (scrapes, rules) under the limits of their tenant. Samples that
    /// break a limit are left out, counted and logged as for a push.
    pub async fn store_made(&self, batch: SampleBatch) -> Result<Stored, Failure> {
        self.store_made_under(batch, None).await
    }

    /// Does the same, but only under this incarnation of the process, if one is given.
    pub async fn store_made_under(&self, batch: SampleBatch, under: Option<Id>) -> Result<Stored, Failure> {
        self.admits()?;
        let tenant = batch.tenant.clone();
        let limits = self.limits(&tenant);
        let check = move || DecodedSamples::within(batch, &limits.metrics);
        let mut decoded = self.env().run_cpu(Lane::Background, check).await;
        let outcome = match self.admit_decoded(&tenant, &mut decoded) {
            Ok(()) if decoded.batch.is_empty() => {
                Ok(Stored { written: decoded.written, refused: decoded.refused })
            }
            Ok(()) => {
                self.store_batch_in(decoded.into_batch(), |batch| match under {
                    Some(incarnation) => self.intake().push_under(batch.into(), incarnation),
                    None => self.intake().push(batch.into(), None),
                })
                .await
            }
            Err(failure) => Err(failure),
        };
        self.note_samples(&tenant, &outcome);
        outcome
    }

    /// Stores a push that was admitted.
    pub async fn store_decoded(
        &self,
        tenant: &TenantId,
        decoded: DecodedSamples,
        memory: Option<FairReservation>,
    ) -> Result<Stored, Failure> {
        if decoded.batch.is_empty() {
            return Ok(Stored { written: decoded.written, refused: decoded.refused });
        }
        if DeltaStreams::concern(&decoded) {
            return delta::store(self, &self.limits(tenant).metrics, decoded, memory).await;
        }
        self.store_batch(decoded.into_batch(), memory).await
    }

    /// Stores a batch and counts it. Samples whose series has another value for the same instant are
    /// refused.
    pub(super) async fn store_batch(
        &self,
        accepted: (SampleBatch, Accepted),
        memory: Option<FairReservation>,
    ) -> Result<Stored, Failure> {
        self.store_batch_in(accepted, |batch| self.intake().push(batch.into(), memory)).await
    }

    async fn store_batch_in<'a>(
        &'a self,
        (batch, mut accepted): (SampleBatch, Accepted),
        push: impl FnOnce(SampleBatch) -> BoxFuture<'a, Result<SampleConflicts, Failure>>,
    ) -> Result<Stored, Failure> {
        let tenant = batch.tenant.clone();
        accepted.refuse_conflicts(&push(batch).await?);
        let Accepted { refused, written, .. } = accepted;
        self.metrics().samples.inc_by(written.samples);
        self.metrics().histograms.inc_by(written.histograms);
        self.metrics().exemplars.inc_by(written.exemplars);
        self.totals().accept_samples(&tenant, [written.samples, written.histograms, written.exemplars]);
        Ok(Stored { written, refused })
    }

    /// Counts refused samples in the metrics and the log.
    pub fn note_samples(&self, tenant: &TenantId, outcome: &Result<Stored, Failure>) {
        match outcome {
            Ok(Stored { refused, .. }) => {
                let text = refused.text().unwrap_or_default();
                for (reason, samples, _) in refused.by_reason() {
                    self.metrics().refused_samples(reason.name(), samples);
                    self.refusals().note(tenant, reason.name(), samples, &text);
                }
            }
            Err(failure) => self.refusals().note(tenant, failure.reason(), 0, &failure.message),
        }
    }
}
