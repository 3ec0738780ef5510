//! A request to delete log lines or samples, and its progress.

use std::collections::BTreeMap;

use sandur_base::Id;
use sandur_model::{Dataset, MILLISECOND_NS, TimeRange};

use super::wire::{Sink, bounded};
use crate::codec::Reader;
use crate::error::Error;

/// Most bytes of the query of a delete request: every open request is in the memory of every process and
/// in every checkpoint.
pub const DELETE_QUERY_BYTES_MAX: usize = 16 << 10;

/// The log lines or samples of a tenant to delete: those within a time range that a query selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// Its id, never reused.
    pub id: Id,
    /// The tenant and the kind of its data.
    pub dataset: Dataset,
    /// A query in the tenant's query language; the catalog does not parse it.
    pub query: String,
    /// First timestamp, milliseconds since the epoch.
    pub start_ms: i64,
    /// Last timestamp, milliseconds since the epoch, inclusive.
    pub end_ms: i64,
    /// When it was made by its author's clock, in milliseconds since the epoch.
    pub created_ms: i64,
}

/// The progress of a delete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteProgress {
    /// Its lines are hidden; it can be cancelled.
    Received,
    /// Its lines are being removed from blocks.
    Started {
        /// Number of the entry that started it. A block whose `deletes_through` is at or above it holds
        /// none of its lines.
        at: u64,
        /// Blocks that could hold lines of it at that time, to display progress.
        blocks: u64,
    },
    /// No block holds lines of the request.
    Processed {
        /// When, by its finisher's clock, in milliseconds since the epoch, for display.
        at_ms: i64,
    },
}

/// A delete request in the catalog's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRecord {
    /// The request.
    pub request: DeleteRequest,
    /// The progress of the request.
    pub progress: DeleteProgress,
}

/// The delete requests of one dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantDeletes {
    /// Number of the last entry that changed any of the requests: grows with every change.
    pub generation: u64,
    /// The requests by id.
    pub requests: BTreeMap<Id, DeleteRecord>,
}

impl DeleteRequest {
    /// Returns the time range in nanoseconds.
    pub fn range(&self) -> TimeRange {
        TimeRange::inclusive(
            self.start_ms.saturating_mul(MILLISECOND_NS),
            self.end_ms.saturating_mul(MILLISECOND_NS),
        )
    }

    pub(super) fn encode(&self, out: &mut Sink) -> Result<(), Error> {
        bounded("delete request", "the length of its query", self.query.len(), DELETE_QUERY_BYTES_MAX)?;
        out.id(self.id);
        out.dataset(&self.dataset);
        self.encode_rest(out);
        Ok(())
    }

    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        let (id, dataset) = (from.id()?, from.dataset()?);
        Self::decode_rest(id, dataset, from)
    }

    fn encode_rest(&self, out: &mut Sink) {
        out.text(&self.query);
        for time in [self.start_ms, self.end_ms, self.created_ms] {
            out.i64(time);
        }
    }

    fn decode_rest(id: Id, dataset: Dataset, from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            id,
            dataset,
            query: from.text_within("query of a delete request", DELETE_QUERY_BYTES_MAX)?.to_owned(),
            start_ms: from.i64()?,
            end_ms: from.i64()?,
            created_ms: from.i64()?,
        })
    }
}

impl DeleteRecord {
    /// Whether its lines are hidden: it is not processed yet.
    pub fn is_open(&self) -> bool {
        !matches!(self.progress, DeleteProgress::Processed { .. })
    }

    /// Returns the number of the entry that started it, while it is being processed.
    pub fn started_at(&self) -> Option<u64> {
        match self.progress {
            DeleteProgress::Started { at, .. } => Some(at),
            _ => None,
        }
    }
}

impl TenantDeletes {
    pub(super) fn encode(&self, out: &mut Sink) {
        out.varint(self.generation);
        out.count(self.requests.len());
        for (id, record) in &self.requests {
            out.id(*id);
            record.request.encode_rest(out);
            match record.progress {
                DeleteProgress::Received => out.u8(0),
                DeleteProgress::Started { at, blocks } => {
                    out.u8(1);
                    out.varint(at);
                    out.varint(blocks);
                }
                DeleteProgress::Processed { at_ms } => {
                    out.u8(2);
                    out.i64(at_ms);
                }
            }
        }
    }

    pub(super) fn decode(dataset: &Dataset, from: &mut Reader<'_>) -> Result<Self, Error> {
        let generation = from.varint()?;
        let mut requests = BTreeMap::new();
        // A request takes at least id, empty query, three times and the state.
        for _ in 0..from.count_of(42)? {
            let id = from.id()?;
            let request = DeleteRequest::decode_rest(id, dataset.clone(), from)?;
            let progress = match from.u8()? {
                0 => DeleteProgress::Received,
                1 => DeleteProgress::Started { at: from.varint()?, blocks: from.varint()? },
                2 => DeleteProgress::Processed { at_ms: from.i64()? },
                tag => return Err(from.unknown("progress of a delete request", tag)),
            };
            requests.insert(id, DeleteRecord { request, progress });
        }
        Ok(Self { generation, requests })
    }
}
