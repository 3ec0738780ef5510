//! Collects the rows of one page and encodes them.

use bytes::Bytes;
use sandur_model::Level;

use crate::log_block::limits::TEXT_BYTES_MAX;
use crate::log_block::lines::{Lines, put_lines};
use crate::log_block::metadata::MetadataBuilder;
use crate::log_block::metadata_keys::KeyCollector;
use crate::log_block::narrow::{NarrowColumns, put_narrow};
use crate::log_block::runs::Run;
use crate::needle::{FilterBuilder, PageFilter};
use crate::shapes::ShapeScratch;

/// Pages with less text have no filter: reading the page costs as little as reading a filter.
const FILTER_TEXT_MIN: usize = 8 << 10;

/// Rows of a page, in columns.
#[derive(Default)]
pub(crate) struct PageBuilder {
    text: Vec<u8>,
    ends: Vec<u32>,
    timestamps: Vec<i64>,
    levels: Vec<Level>,
    runs: Vec<Run>,
    metadata: MetadataBuilder,
    filter: FilterBuilder,
    shapes: ShapeScratch,
    scratch: Vec<u8>,
}

/// An encoded page that can be placed in a block.
pub(crate) struct EncodedPage {
    pub(crate) lines: Bytes,
    pub(crate) narrow: Bytes,
    pub(crate) filter: PageFilter,
    pub(crate) line_codec: u8,
    pub(crate) raw_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) rows: u32,
    pub(crate) min_ts: i64,
    pub(crate) max_ts: i64,
    pub(crate) first_stream: u32,
    pub(crate) last_stream: u32,
}

impl PageBuilder {
    pub(crate) fn rows(&self) -> u32 {
        self.timestamps.len() as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.timestamps.is_empty()
    }

    /// Returns the bytes that count toward the size of the page.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.metadata.bytes()
    }

    /// Returns the bytes held in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let columns = self.ends.capacity() * 4 + self.timestamps.capacity() * 9;
        let keys = self.filter.keys().len() * 4;
        (self.text.capacity() + self.scratch.capacity() + columns + self.metadata.bytes() + keys) as u64
    }

    /// Returns the stream and timestamp of the last row.
    pub(crate) fn last(&self) -> Option<(u32, i64)> {
        Some((self.runs.last()?.stream, *self.timestamps.last()?))
    }

    /// Whether another row of `line` bytes and `pairs` metadata pairs would exceed a bound of the format.
    pub(crate) fn would_overflow(&self, line: usize, pairs: usize) -> bool {
        self.bytes() + line >= TEXT_BYTES_MAX as usize || self.metadata.would_overflow(self.rows() + 1, pairs)
    }

    #[inline]
    pub(crate) fn push<'m>(
        &mut self,
        (stream, timestamp, level): (u32, i64, Level),
        metadata: impl Iterator<Item = (&'m [u8], &'m [u8])>,
        line: &[u8],
    ) {
        let row = self.rows();
        match self.runs.last_mut() {
            Some(run) if run.stream == stream => run.end = row + 1,
            _ => self.runs.push(Run { stream, start: row, end: row + 1 }),
        }
        self.timestamps.push(timestamp);
        self.levels.push(level);
        self.text.extend_from_slice(line);
        self.ends.push(self.text.len() as u32);
        self.text.push(b'\n');
        self.metadata.push(row, metadata);
    }

    /// Records which streams have which metadata key.
    pub(crate) fn note_keys(&self, keys: &mut KeyCollector) {
        self.metadata.visit_keys(&self.runs, |key, streams| keys.note(key, streams));
    }

    /// Returns the runs with the timestamps of their first and last row.
    pub(crate) fn run_bounds(&self) -> impl Iterator<Item = (u32, i64, i64)> {
        let bounds = |run: &Run| {
            let (first, last) = (run.start as usize, run.end as usize - 1);
            (run.stream, self.timestamps[first], self.timestamps[last])
        };
        self.runs.iter().map(bounds)
    }

    /// Encodes the rows, at least one, and starts a new page.
    pub(crate) fn finish(&mut self, zstd_level: i32) -> EncodedPage {
        let rows = self.rows();
        self.scratch.clear();
        let column = Lines { text: &self.text, ends: &self.ends, timestamps: &self.timestamps };
        let line_codec = put_lines(&mut self.scratch, &column, &mut self.shapes, zstd_level);
        let lines = Bytes::copy_from_slice(&self.scratch);
        let filter = if self.text.len() >= FILTER_TEXT_MIN {
            self.filter.add_text(&self.text);
            self.filter.finish()
        } else {
            PageFilter::default()
        };
        let (mut metadata, mut metadata_bytes) = (Vec::new(), 0);
        if self.metadata.bytes() > 0 {
            metadata_bytes = self.metadata.finish(rows, &mut metadata);
        }
        let columns = NarrowColumns {
            runs: &self.runs,
            timestamps: &self.timestamps,
            levels: &self.levels,
            metadata: &metadata,
        };
        self.scratch.clear();
        put_narrow(&mut self.scratch, &columns, zstd_level);
        let page = EncodedPage {
            lines,
            narrow: Bytes::copy_from_slice(&self.scratch),
            filter,
            line_codec,
            raw_bytes: self.text.len() as u64 - u64::from(rows),
            metadata_bytes,
            rows,
            min_ts: self.run_bounds().map(|(_, first, _)| first).min().unwrap_or(0),
            max_ts: self.run_bounds().map(|(_, _, last)| last).max().unwrap_or(0),
            first_stream: self.runs.first().map_or(0, |run| run.stream),
            last_stream: self.runs.last().map_or(0, |run| run.stream),
        };
        self.text.clear();
        self.ends.clear();
        self.timestamps.clear();
        self.levels.clear();
        self.runs.clear();
        page
    }
}
