//! Pushes of log entries: decodes, applies rates, stores. A push is acknowledged when the batch is
//! durable and can be queried.
//!
//! A push may be stored in part: entries that break a limit are left out and named in a 4xx answer, the
//! others are stored. Agents drop data after a 4xx, and retry after a 429 or 5xx.

use std::rc::Rc;

use bytes::Bytes;
use sandur_ingest::{Decoded, Memory, Push, Refused};
use sandur_model::TenantId;

use super::Writes;
use super::decoding::{self, BodyHeaders, Received, decode_in_memory};
use crate::failure::Failure;

/// The decoder of a protocol.
pub type LineDecoder = fn(Push<'_>, Bytes, Rc<dyn Memory>) -> Result<Decoded, sandur_ingest::Error>;

/// Estimated memory of the labels of a stream of a batch.
const STREAM_BYTES: u64 = 256;

impl decoding::Decoded for Decoded {
    fn memory_bytes(&self) -> u64 {
        self.batch.memory_bytes() + self.batch.streams.len() as u64 * STREAM_BYTES
    }
}

impl Writes {
    /// Decodes and stores one push of lines. Refused entries are counted and logged.
    pub async fn store_lines(
        &self,
        tenant: &TenantId,
        (received, headers): (Received, BodyHeaders),
        decode: LineDecoder,
    ) -> Result<Refused, Failure> {
        let outcome = self.decode_and_store_lines(tenant, (received, headers), decode).await;
        match &outcome {
            Ok(refused) => {
                let text = refused.text().unwrap_or_default();
                for (reason, entries, _) in refused.by_reason() {
                    self.refusals().note(tenant, reason.name(), entries, &text);
                }
            }
            Err(failure) => self.refusals().note(tenant, failure.reason(), 0, &failure.message),
        }
        outcome
    }

    async fn decode_and_store_lines(
        &self,
        tenant: &TenantId,
        (received, headers): (Received, BodyHeaders),
        decode: LineDecoder,
    ) -> Result<Refused, Failure> {
        let (limits, of_tenant, now_ns) = (self.limits(tenant), tenant.clone(), self.env().now_ns());
        let decode = move |body, lent| {
            let push = Push { tenant: &of_tenant, limits: &limits, now_ns, headers: headers.borrowed() };
            decode(push, body, lent)
        };
        let (decoded, memory) = decode_in_memory(self, received, decode).await?;
        let Decoded { batch, refused, lines, bytes } = decoded;
        self.metrics().refused_entries.inc_by(refused.lines());
        if lines > 0 {
            let now = self.env().monotonic();
            let allowed = self.rates().take(tenant, &self.limits(tenant), now, (lines, bytes));
            allowed.map_err(|e| Failure::new(e.kind(), e.to_string()))?;
            self.intake().push(batch.into(), Some(memory)).await?;
            self.metrics().entries.inc_by(lines);
            self.metrics().line_bytes.inc_by(bytes);
            self.totals().accept_lines(tenant, lines, bytes);
        }
        Ok(refused)
    }
}
