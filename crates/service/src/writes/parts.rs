//! A body whose samples and labels take more memory than one request may have: it is read and stored in
//! parts, and acknowledged when all of them are.
//!
//! How much a body holds is known only when it is read, so the first part has three quarters of the items
//! that there was memory for. A part that is refused ends the push; the parts before it stay, and a push that
//! is sent again finds them stored.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use sandur_ingest::{DecodedSamples, Items, Memory, Push, SamplePush, SeriesCache};
use sandur_model::{Limits, TenantId};

use super::Writes;
use super::decoding::{BodyHeaders, NotDecoded, Received, decode_beside};
use super::samples::{SampleDecoder, Stored};
use crate::failure::Failure;

/// A decoder with all that it needs beside a body.
#[derive(Clone)]
pub(super) struct ItemDecoder<D> {
    decode: D,
    tenant: TenantId,
    limits: Arc<Limits>,
    headers: BodyHeaders,
    series: Arc<SeriesCache>,
    now_ns: i64,
    /// Items that were met when the last body was read.
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

    /// Decodes some items.
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

/// Parts of a body: each costs reading all of it.
const PARTS_MAX: u64 = 64;
/// Items of the first part when not even one was met.
const FIRST_ITEMS: u64 = 4_096;

/// Items of a part when so many were too many; nothing when a single one was.
fn fewer(items: u64) -> Option<u64> {
    (items > 1).then(|| (items - items / 4 - 1).max(1))
}

/// Stores a body for which a decoder of everything found too little memory.
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
        // What stands before the items takes less when they are read in parts.
        0 => FIRST_ITEMS,
        met => fewer(met).ok_or_else(|| too_large.clone())?,
    };
    loop {
        let bytes = received.bytes.clone();
        let (mut decoded, mut memory) =
            match decode_beside(writes, received, decoder.of_some(first, most)).await {
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
        // Large items behind small ones make parts smaller, too.
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
