//! A batch: the entries or samples of one request of one tenant, on their way to the WAL and the head.
//!
//! All text of the entries is in one arena. A decoder that received the arena compressed also keeps the
//! compressed form, so that the WAL can store those bytes unchanged.

use std::sync::Arc;

use crate::arena::{Arena, Span};
use crate::labels::{Labels, StreamId};
use crate::level::Level;
use crate::samples::SampleBatch;
use crate::signal::{Dataset, Signal};
use crate::tenant::TenantId;

/// One log entry of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// The line, in the arena.
    pub line: Span,
    /// First structured-metadata pair of the entry in [`LogBatch::metadata`].
    pub metadata_start: u32,
    /// Number of structured-metadata pairs.
    pub metadata_len: u16,
    /// Detected level; [`Level::None`] when the metadata contains a level from the client.
    pub level: Level,
}

/// The entries of one stream of a batch, in the order of the request.
#[derive(Clone, Debug)]
pub struct StreamEntries {
    /// The id of the stream: `labels.stream_id()`.
    pub id: StreamId,
    /// The stream's labels.
    pub labels: Arc<Labels>,
    /// The entries of the stream; empty when all were refused.
    pub entries: Vec<Entry>,
}

/// The accepted entries of one request. A stream may appear more than once.
#[derive(Clone, Debug)]
pub struct LogBatch {
    /// The owner of the data.
    pub tenant: TenantId,
    /// Text of lines and metadata.
    pub arena: Arena,
    /// Structured-metadata pairs (name, value) of all entries. Contains `detected_level` only if the
    /// client sent it.
    pub metadata: Vec<(Span, Span)>,
    /// Entries by stream.
    pub streams: Vec<StreamEntries>,
}

impl LogBatch {
    /// The structured metadata of an entry as pairs of name and value.
    pub fn metadata_of<'a>(
        &'a self,
        entry: &Entry,
    ) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        let start = entry.metadata_start as usize;
        let pairs = &self.metadata[start..start + usize::from(entry.metadata_len)];
        let arena = &self.arena.bytes;
        pairs.iter().map(move |(name, value)| (name.of(arena), value.of(arena)))
    }

    /// The number of entries.
    pub fn rows(&self) -> usize {
        self.streams.iter().map(|s| s.entries.len()).sum()
    }

    /// Bytes of all lines together.
    pub fn line_bytes(&self) -> u64 {
        let entries = self.streams.iter().flat_map(|s| &s.entries);
        entries.map(|e| u64::from(e.line.len)).sum()
    }

    /// The first and last timestamp of the entries; `None` without entries.
    pub fn time_bounds(&self) -> Option<(i64, i64)> {
        let mut times = self.streams.iter().flat_map(|s| &s.entries).map(|e| e.timestamp);
        let first = times.next()?;
        Some(times.fold((first, first), |(lo, hi), t| (lo.min(t), hi.max(t))))
    }

    /// Bytes of memory that the batch uses, for budgets.
    pub fn memory_bytes(&self) -> u64 {
        let compressed = self.arena.compressed.as_ref().map_or(0, |(_, b)| b.len());
        let fixed = self.metadata.len() * size_of::<(Span, Span)>()
            + self.rows() * size_of::<Entry>()
            + self.streams.len() * size_of::<StreamEntries>();
        (self.arena.bytes.len() + compressed + fixed) as u64
    }
}

/// The data of one request of one tenant, of either signal.
#[derive(Clone, Debug)]
pub enum Batch {
    /// Entries of streams.
    Logs(LogBatch),
    /// Samples of series.
    Metrics(SampleBatch),
}

impl Batch {
    /// The tenant and the signal.
    pub fn dataset(&self) -> Dataset {
        Dataset { tenant: self.tenant().clone(), signal: self.signal() }
    }

    /// The owner of the data.
    pub fn tenant(&self) -> &TenantId {
        match self {
            Self::Logs(batch) => &batch.tenant,
            Self::Metrics(batch) => &batch.tenant,
        }
    }

    /// The signal of the data.
    pub fn signal(&self) -> Signal {
        match self {
            Self::Logs(_) => Signal::Logs,
            Self::Metrics(_) => Signal::Metrics,
        }
    }

    /// The number of entries or samples.
    pub fn rows(&self) -> usize {
        match self {
            Self::Logs(batch) => batch.rows(),
            Self::Metrics(batch) => batch.rows(),
        }
    }

    /// Whether the batch contains nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Logs(batch) => batch.rows() == 0,
            Self::Metrics(batch) => batch.is_empty(),
        }
    }

    /// Bytes of lines, or of timestamps and values.
    pub fn raw_bytes(&self) -> u64 {
        match self {
            Self::Logs(batch) => batch.line_bytes(),
            Self::Metrics(batch) => batch.raw_bytes(),
        }
    }

    /// The first and last timestamp in nanoseconds since the epoch; `None` without rows.
    pub fn time_bounds(&self) -> Option<(i64, i64)> {
        match self {
            Self::Logs(batch) => batch.time_bounds(),
            Self::Metrics(batch) => batch.time_bounds(),
        }
    }

    /// Bytes of memory that the batch uses, for budgets.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Logs(batch) => batch.memory_bytes(),
            Self::Metrics(batch) => batch.memory_bytes(),
        }
    }

    /// The entries, if these are logs.
    pub fn as_logs(&self) -> Option<&LogBatch> {
        match self {
            Self::Logs(batch) => Some(batch),
            Self::Metrics(_) => None,
        }
    }
}

impl From<LogBatch> for Batch {
    fn from(batch: LogBatch) -> Self {
        Self::Logs(batch)
    }
}

impl From<SampleBatch> for Batch {
    fn from(batch: SampleBatch) -> Self {
        Self::Metrics(batch)
    }
}
