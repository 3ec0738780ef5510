//! Stores batches with points of delta temporality, one batch at a time for each series.

use std::sync::Arc;

use sandur_base::ErrorKind;
use sandur_ingest::DecodedSamples;
use sandur_model::MetricLimits;
use sandur_runtime::FairReservation;

use super::Writes;
use super::sample_push::Stored;
use crate::failure::Failure;

/// Waits until no other batch with one of these series is being stored, adds the deltas up, and stores
/// the batch. The cumulative states change only when the batch is stored.
pub(super) async fn store(
    writes: &Writes,
    limits: &MetricLimits,
    mut decoded: DecodedSamples,
    memory: Option<FairReservation>,
) -> Result<Stored, Failure> {
    let mut place = writes.deltas().queue(&decoded);
    place.wait().await;
    let (deltas, limits, now) = (Arc::clone(writes.deltas()), limits.clone(), writes.env().monotonic());
    let series = decoded.batch.series.len();
    let add_up = move || {
        let added = deltas.add_up(place, &limits, now, &mut decoded);
        (decoded, added)
    };
    let (decoded, added) = writes.compute(series, add_up).await;
    let mut added = added.map_err(|error| Failure::new(ErrorKind::Busy, error.to_string()))?;
    added.storing();
    // The request's memory covers the old and the new states until the outcome is known.
    let outcome = writes.store_batch(decoded.into_batch(), None).await;
    drop(memory);
    match &outcome {
        Ok(_) => added.stored(),
        Err(failure) if !failure.may_be_done => added.not_stored(),
        Err(_) => {}
    }
    outcome
}
