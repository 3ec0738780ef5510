//! Builds a [`LogBatch`] row by row, from data that does not come from a request.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::arena::{Arena, Span};
use crate::batch::{Entry, LogBatch, StreamEntries};
use crate::labels::{Labels, StreamId};
use crate::level::Level;
use crate::tenant::TenantId;

/// A batch under construction. Each stream appears once, with its rows in the order of insertion.
#[derive(Debug)]
pub struct LogBatchBuilder {
    tenant: TenantId,
    arena: Vec<u8>,
    metadata: Vec<(Span, Span)>,
    streams: Vec<StreamEntries>,
    places: HashMap<StreamId, usize>,
}

impl LogBatchBuilder {
    /// An empty batch.
    pub fn new(tenant: TenantId) -> Self {
        let (arena, metadata, streams, places) = (Vec::new(), Vec::new(), Vec::new(), HashMap::new());
        Self { tenant, arena, metadata, streams, places }
    }

    /// Adds a row of level `info` without metadata.
    ///
    /// # Panics
    /// When the text of all rows exceeds 4 GiB.
    pub fn row(&mut self, labels: &Arc<Labels>, timestamp: i64, line: impl AsRef<[u8]>) {
        self.row_with(labels, timestamp, line, std::iter::empty::<(&str, &str)>(), Level::Info);
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When the text of all rows exceeds 4 GiB, or a row has more than 65,535 pairs of metadata.
    pub fn row_with<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        labels: &Arc<Labels>,
        timestamp: i64,
        line: impl AsRef<[u8]>,
        metadata: impl IntoIterator<Item = (N, V)>,
        level: Level,
    ) {
        let metadata_start = self.metadata.len() as u32;
        for (name, value) in metadata {
            let pair = (self.text(name.as_ref()), self.text(value.as_ref()));
            self.metadata.push(pair);
        }
        let pairs = self.metadata.len() - metadata_start as usize;
        let metadata_len = u16::try_from(pairs).expect("the caller adds at most 65,535 pairs per row");
        let line = self.text(line.as_ref());
        let entry = Entry { timestamp, line, metadata_start, metadata_len, level };
        self.stream(labels).entries.push(entry);
    }

    /// The stream with these labels; adds it to the batch, without rows, if it is new.
    pub fn stream(&mut self, labels: &Arc<Labels>) -> &mut StreamEntries {
        let id = labels.stream_id();
        let at = *self.places.entry(id).or_insert(self.streams.len());
        if at == self.streams.len() {
            self.streams.push(StreamEntries { id, labels: Arc::clone(labels), entries: Vec::new() });
        }
        &mut self.streams[at]
    }

    fn text(&mut self, text: &[u8]) -> Span {
        let start = self.arena.len();
        self.arena.extend_from_slice(text);
        assert!(u32::try_from(self.arena.len()).is_ok(), "the text of a batch must not exceed 4 GiB");
        Span { start: start as u32, len: text.len() as u32 }
    }

    /// The finished batch.
    pub fn build(self) -> LogBatch {
        let arena = Arena { bytes: Bytes::from(self.arena), compressed: None };
        LogBatch { tenant: self.tenant, arena, metadata: self.metadata, streams: self.streams }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_grouped_by_stream_with_their_text() {
        let labels = |app| Arc::new(Labels::from_pairs([("app", app)]));
        let mut builder = LogBatchBuilder::new(TenantId::default_tenant());
        builder.row(&labels("a"), 1, "first");
        builder.row_with(&labels("b"), 2, "second", [("trace", "x")], Level::Error);
        builder.row(&labels("a"), 3, "third");
        let batch = builder.build();
        let lines = |stream: &StreamEntries| -> Vec<(i64, Vec<u8>)> {
            let line = |entry: &Entry| (entry.timestamp, entry.line.of(&batch.arena.bytes).to_vec());
            stream.entries.iter().map(line).collect()
        };
        assert_eq!(lines(&batch.streams[0]), [(1, b"first".to_vec()), (3, b"third".to_vec())]);
        assert_eq!(lines(&batch.streams[1]), [(2, b"second".to_vec())]);
        let entry = batch.streams[1].entries[0];
        assert_eq!(batch.metadata_of(&entry).collect::<Vec<_>>(), [(&b"trace"[..], &b"x"[..])]);
        assert_eq!((batch.rows(), entry.level), (3, Level::Error));
    }
}
