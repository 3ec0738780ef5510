//! Batches for the tests of this crate.

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::{MemoryBudget, Reservation};
use sandur_model::{
    Arena, Entry, Labels, Level, LogBatch, LogPage, MatchOp, Matcher, Span, StreamEntries, TenantId,
};
use sandur_query::PageTask;

/// A batch under construction.
pub struct BatchBuilder {
    tenant: TenantId,
    arena: Vec<u8>,
    metadata: Vec<(Span, Span)>,
    streams: Vec<StreamEntries>,
}

impl BatchBuilder {
    pub fn new() -> Self {
        Self::of(TenantId::default_tenant())
    }

    pub fn of(tenant: TenantId) -> Self {
        Self { tenant, arena: Vec::new(), metadata: Vec::new(), streams: Vec::new() }
    }

    fn span(&mut self, bytes: &[u8]) -> Span {
        let start = self.arena.len() as u32;
        self.arena.extend_from_slice(bytes);
        Span { start, len: bytes.len() as u32 }
    }

    pub fn stream(mut self, app: &str) -> Self {
        let labels = Arc::new(Labels::from_pairs([("app", app)]));
        self.streams.push(StreamEntries { id: labels.stream_id(), labels, entries: Vec::new() });
        self
    }

    pub fn row(self, timestamp: i64, line: &str) -> Self {
        self.row_with(timestamp, line, &[])
    }

    pub fn row_with(mut self, timestamp: i64, line: &str, metadata: &[(&str, &str)]) -> Self {
        let metadata_start = self.metadata.len() as u32;
        for (name, value) in metadata {
            let pair = (self.span(name.as_bytes()), self.span(value.as_bytes()));
            self.metadata.push(pair);
        }
        let line = self.span(line.as_bytes());
        let metadata_len = metadata.len() as u16;
        let entry = Entry { timestamp, line, metadata_start, metadata_len, level: Level::Info };
        self.streams.last_mut().expect("a stream comes first").entries.push(entry);
        self
    }

    pub fn build(self) -> LogBatch {
        let arena = Arena { bytes: Bytes::from(self.arena), compressed: None };
        LogBatch { tenant: self.tenant, arena, metadata: self.metadata, streams: self.streams }
    }
}

/// Memory for a batch from a budget of its own.
pub fn reserved(batch: &LogBatch) -> Reservation {
    MemoryBudget::root("test", u64::MAX).reserve(crate::logs::head::push_bytes(batch)).unwrap()
}

pub fn app_is(value: &str) -> Vec<Matcher> {
    vec![Matcher::new("app", MatchOp::Equal, value).unwrap()]
}

/// Rows of a page as (app, timestamp, line).
pub fn rows_of(page: &LogPage) -> Vec<(String, i64, String)> {
    let mut rows = Vec::new();
    for run in &page.runs {
        for row in run.start as usize..run.end as usize {
            let line = page.lines.as_ref().map_or(&b""[..], |lines| lines.line(row));
            let line = String::from_utf8(line.to_vec()).unwrap();
            rows.push((run.labels.get("app").unwrap().to_owned(), page.timestamps[row], line));
        }
    }
    rows
}

/// All rows of decoded tasks, in the order of the tasks.
pub fn decode_all(tasks: Vec<Box<dyn PageTask>>) -> Vec<(String, i64, String)> {
    tasks.into_iter().flat_map(|task| rows_of(&decode(task))).collect()
}

pub fn decode(mut task: Box<dyn PageTask>) -> LogPage {
    let mut page = task.narrow().unwrap();
    page.lines = Some(task.lines().unwrap());
    page
}
