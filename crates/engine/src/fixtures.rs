//! Batches and entries of blocks for the tests of this crate.

use std::sync::Arc;

use sandur_base::Id;
use sandur_format::catalog_entry::BlockMeta;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{
    Dataset, Labels, Level, LogBatch, LogBatchBuilder, LogPage, MatchOp, Matcher, Signal, TenantId, TimeRange,
};
use sandur_query::PageTask;

/// The catalog entry of a small block with these first and last timestamps.
pub fn block_meta(signal: Signal, id: Id, (first, last): (i64, i64)) -> BlockMeta {
    BlockMeta {
        id,
        writer: Id::default(),
        dataset: Dataset { tenant: TenantId::default_tenant(), signal },
        level: 0,
        window: TimeRange::new(first, last + 1),
        min_ts: first,
        max_ts: last,
        rows: 1,
        raw_bytes: 1,
        size: 1,
        streams: 1,
        pages: 1,
        footer_offset: 0,
        footer_len: 0,
        deletes_through: 0,
        place: 0,
    }
}

/// A batch under construction, of streams that are named by a label `app`.
pub struct BatchBuilder {
    rows: LogBatchBuilder,
    stream: Option<Arc<Labels>>,
}

impl BatchBuilder {
    pub fn new() -> Self {
        Self::of(TenantId::default_tenant())
    }

    pub fn of(tenant: TenantId) -> Self {
        Self { rows: LogBatchBuilder::new(tenant), stream: None }
    }

    pub fn stream(mut self, app: &str) -> Self {
        let labels = Arc::new(Labels::from_pairs([("app", app)]));
        self.rows.stream(&labels);
        Self { stream: Some(labels), ..self }
    }

    pub fn row(self, timestamp: i64, line: &str) -> Self {
        self.row_with(timestamp, line, &[])
    }

    pub fn row_with(mut self, timestamp: i64, line: &str, metadata: &[(&str, &str)]) -> Self {
        let stream = self.stream.as_ref().expect("a stream comes first");
        self.rows.row_with(stream, timestamp, line, metadata.iter().copied(), Level::Info);
        self
    }

    pub fn build(self) -> LogBatch {
        self.rows.build()
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
