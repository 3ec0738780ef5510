//! Stores a body whose decoded samples and labels need more memory than one request may have: decodes and
//! stores it in parts, and acknowledges it when all of them are stored.
//!
//! The decoded size is known only after decoding, so the first part has three quarters of the items that
//! fitted into the memory. A refused part ends the push. The parts before it stay stored, and a retry of
//! the push finds them there.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sandur_ingest::{DecodedSamples, Items, Memory, Push, SamplePush, SeriesCache};
use sandur_model::{Limits, TenantId};

use super::Writes;
use super::decoding::{BodyHeaders, NotDecoded, Received, decode_kept};
use super::sample_push::{SampleDecoder, Stored};
use crate::failure::Failure;

/// A decoder with everything that it needs except the body.
#[derive(Clone)]
pub(super) struct ItemDecoder<D> {
    decode: D,
    tenant: TenantId,
    limits: Arc<Limits>,
    headers: BodyHeaders,
    series: Arc<SeriesCache>,
    now_ns: i64,
    /// Number of items seen when the body was decoded last.
    met: Arc<AtomicU64>,
}

impl<D: SampleDecoder> ItemDecoder<D> {
    /// The decoder of a request.
    pub(super) fn new(writes: &Writes, tenant: &TenantId, headers: BodyHeaders, decode: D) -> Self {
        Self {
            decode,
            tenant: tenant.clone(),
            limits: writes.limits(tenant),
            headers,
            series: Arc::clone(writes.series()),
            now_ns: writes.env().now_ns(),
            met: Arc::default(),
        }
    }

    /// Decodes all items.
    pub(super) fn of_all(
        &self,
    ) -> impl Fn(Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, sandur_ingest::Error>
    + Clone
    + Send
    + 'static
    + use<D> {
        self.of_some(Items::ALL.first, Items::ALL.most)
    }

    /// Decodes `most` items from the item `first` on.
    fn of_some(
        &self,
        first: u64,
        most: u64,
    ) -> impl Fn(Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, sandur_ingest::Error>
    + Clone
    + Send
    + 'static
    + use<D> {
        let own = self.clone();
        move |body, lent| {
            let ItemDecoder { tenant, limits, now_ns, series, .. } = &own;
            let push = Push { tenant, limits, now_ns: *now_ns, headers: own.headers.borrowed() };
            let met = Cell::new(0);
            let items = Items { first, most, met: Some(&met) };
            let decoded = (own.decode)(SamplePush { push, series, items }, body, lent);
            own.met.store(met.get(), Ordering::Relaxed);
            decoded
        }
    }

    fn met(&self) -> u64 {
        self.met.load(Ordering::Relaxed)
    }
}

/// Maximum number of parts of a body: each costs a pass over the complete body.
const PARTS_MAX: u64 = 64;
/// Items of the first part if the memory did not suffice for a single one.
const FIRST_ITEMS: u64 = 4_096;

/// A smaller number of items after `items` did not fit; `None` if that was a single one.
fn fewer(items: u64) -> Option<u64> {
    (items > 1).then(|| (items - items / 4 - 1).max(1))
}

/// Stores a body in parts, after there was too little memory to decode all of it.
pub(super) async fn store_in_parts<D: SampleDecoder>(
    writes: &Writes,
    tenant: &TenantId,
    mut received: Received,
    decoder: &ItemDecoder<D>,
    too_large: Failure,
) -> Result<Stored, Failure> {
    let of_body = received.memory.bytes();
    let (mut stored, mut first) = (Stored::default(), 0);
    let mut most = match decoder.met() {
        // What precedes the items needs less memory when fewer items are decoded.
        0 => FIRST_ITEMS,
        met => fewer(met).ok_or_else(|| too_large.clone())?,
    };
    loop {
        let bytes = received.bytes.clone();
        let (mut decoded, mut memory) =
            match decode_kept(writes, received, decoder.of_some(first, most)).await {
                Ok(decoded) => decoded,
                Err(NotDecoded::TooLarge(back, failure)) => {
                    let taken = decoder.met().saturating_sub(first).min(most);
                    most = fewer(taken).ok_or_else(|| failure.with_outcome(first > 0))?;
                    received = back;
                    continue;
                }
                Err(NotDecoded::Failed(failure)) => return Err(failure.with_outcome(first > 0)),
            };
        let met = decoder.met();
        // Large items after small ones make parts smaller; the number of parts is checked each time.
        if met.saturating_sub(first).div_ceil(most) > PARTS_MAX {
            return Err(too_large.with_outcome(first > 0));
        }
        let outcome = match writes.admit_decoded(tenant, &mut decoded) {
            Ok(()) => writes.store_decoded(tenant, decoded, None).await,
            Err(failure) => Err(failure),
        };
        let Stored { written, refused } = outcome.map_err(|failure| {
            let may_be_done = failure.may_be_done || first > 0;
            failure.with_outcome(may_be_done)
        })?;
        stored.written.add(written);
        stored.refused.add(refused);
        first += most;
        if met <= first {
            return Ok(stored);
        }
        memory.shrink(memory.bytes().saturating_sub(of_body));
        received = Received { bytes, memory };
    }
}
