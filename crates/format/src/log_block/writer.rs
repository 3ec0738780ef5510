//! Writes one block from rows, with about one group of pages in memory.
//!
//! Rows are sorted by stream ordinal, then timestamp. A row that is out of order starts a new page: the
//! block is still correct, but many such rows are expensive. Callers that write time slices one after the
//! other call [`BlockWriter::cut_page`] between them.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::{Labels, Level};

use crate::block::{BlockSummary, HEADER_LEN, SeriesStats, SeriesTable};
use crate::codec::Piece;
use crate::error::Error;
use crate::log_block::footer::{FooterParts, LAYOUT, put_footer};
use crate::log_block::limits::{
    BY_PLACE_SINCE, PART_LINES, PART_NARROW, ROWS_MAX, TEXT_BYTES_MAX, VERSION, VERSION_MIN,
};
use crate::log_block::metadata_keys::KeyCollector;
use crate::log_block::minutes::MinuteCounter;
use crate::log_block::narrow::{Wanted, with_runs};
use crate::log_block::options::BlockOptions;
use crate::log_block::order::{compare_streams, stream_sort_key};
use crate::log_block::page_builder::{EncodedPage, PageBuilder};
use crate::log_block::pages::PageEntry;
use crate::log_block::runs::Run;
use crate::needle::{FilterSegment, PAGES_MAX, PageFilter, SegmentBuilder};

/// A group is closed when its stored pages have this many bytes, even if it has few pages.
const GROUP_BYTES: usize = 16 << 20;

/// A row to be written.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Ordinal of its stream in the writer's list.
    pub stream: u32,
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// Detected level.
    pub level: Level,
    /// The line.
    pub line: &'a [u8],
}

/// A complete page of another block, moved without compressing its lines again.
pub struct PageCopy<'a> {
    /// Its entry in the other block.
    pub entry: &'a PageEntry,
    /// Its line column as stored.
    pub lines: Bytes,
    /// Its narrow columns as stored.
    pub narrow: Bytes,
    /// Its filter; `None` leaves the page without one.
    pub filter: Option<PageFilter>,
    /// For each stream ordinal of the other block the ordinal in this one; ascending.
    pub ordinals: &'a [u32],
}

/// Writes one block.
pub struct BlockWriter {
    options: BlockOptions,
    streams: Vec<Arc<Labels>>,
    /// Per stream a number that changes where the first sort key changes.
    services: Vec<u32>,
    stats: Vec<SeriesStats>,
    page: PageBuilder,
    counter: MinuteCounter,
    metadata_keys: KeyCollector,
    group: Vec<EncodedPage>,
    pages: Vec<PageEntry>,
    groups: u32,
    filters: SegmentBuilder,
    segments: Vec<FilterSegment>,
    offset: u64,
    output: Vec<Bytes>,
}

/// A page of at least 1/32 of the full size ends where the streams' sort keys change.
const PAGE_SHARE_MIN: usize = 32;

impl BlockWriter {
    /// Returns a writer of rows of these streams, which must be sorted by
    /// [`crate::log_block::sort_streams`]: a stream's index is its ordinal.
    pub fn new(options: BlockOptions, streams: Vec<Arc<Labels>>) -> Result<Self, Error> {
        if !streams.windows(2).all(|pair| compare_streams(&pair[0], &pair[1]).is_lt()) {
            return Err(Error::Misuse("the streams of a block must be sorted and distinct"));
        }
        if !(VERSION_MIN..=VERSION).contains(&options.version) {
            return Err(Error::Misuse("blocks are not written in this version"));
        }
        let mut services = Vec::with_capacity(streams.len());
        for (ordinal, labels) in streams.iter().enumerate() {
            let before = services.last().copied().unwrap_or(0);
            let changes = ordinal > 0 && stream_sort_key(&streams[ordinal - 1]) != stream_sort_key(labels);
            services.push(before + u32::from(changes));
        }
        let header = LAYOUT.of_version(options.version).header();
        let filters = SegmentBuilder::new(options.version >= BY_PLACE_SINCE);
        Ok(Self {
            stats: vec![SeriesStats::default(); streams.len()],
            options,
            streams,
            services,
            page: PageBuilder::default(),
            counter: MinuteCounter::default(),
            metadata_keys: KeyCollector::default(),
            group: Vec::new(),
            pages: Vec::new(),
            groups: 0,
            filters,
            segments: Vec::new(),
            offset: HEADER_LEN,
            output: vec![Bytes::from(header)],
        })
    }

    /// Adds a row. `metadata` yields its structured-metadata pairs; of equal names the first counts.
    #[inline]
    pub fn push_row<'m>(
        &mut self,
        row: Row<'_>,
        metadata: impl Iterator<Item = (&'m [u8], &'m [u8])> + Clone,
    ) -> Result<(), Error> {
        if row.stream as usize >= self.streams.len() {
            return Err(Error::Misuse("a row names a stream that the block does not have"));
        }
        if row.line.len() >= TEXT_BYTES_MAX as usize {
            let (found, limit) = (row.line.len() as u64, u64::from(TEXT_BYTES_MAX));
            return Err(Error::TooLarge { part: PART_LINES, what: "a line", found, limit });
        }
        if self.must_cut_before(&row, metadata.clone()) {
            self.cut_page();
        }
        self.counter.add(row.stream, row.timestamp, row.level, row.line.len());
        self.page.push((row.stream, row.timestamp, row.level), metadata, row.line);
        Ok(())
    }

    #[inline]
    fn must_cut_before<'m>(
        &self,
        row: &Row<'_>,
        metadata: impl Iterator<Item = (&'m [u8], &'m [u8])>,
    ) -> bool {
        let Some((stream, timestamp)) = self.page.last() else { return false };
        let limit = self.options.page_bytes as usize;
        let bytes = self.page.bytes();
        if bytes >= limit || self.page.rows() >= self.options.page_rows.min(ROWS_MAX) {
            return true;
        }
        let in_order = (stream, timestamp) <= (row.stream, row.timestamp);
        let other_service = || self.services[stream as usize] != self.services[row.stream as usize];
        // Lines of one service and level compress well together and are searched together: a page that is
        // large enough for its entry in the footer ends with them.
        !in_order
            || self.page.would_overflow(row.line.len(), metadata.count())
            || (bytes >= limit / PAGE_SHARE_MIN && stream != row.stream && other_service())
    }

    /// Closes the current page, if it has rows.
    pub fn cut_page(&mut self) {
        if self.page.is_empty() {
            return;
        }
        for (stream, first, last) in self.page.run_bounds() {
            let stats = &mut self.stats[stream as usize];
            stats.min_ts = stats.min_ts.min(first);
            stats.max_ts = stats.max_ts.max(last);
        }
        self.page.note_keys(&mut self.metadata_keys);
        let page = self.page.finish(self.options.zstd_level);
        self.add_page(page);
    }

    /// Moves a page of another block to this one. Only its stream ordinals change. Its lines are
    /// decompressed to count their bytes, but not compressed again, and its filter is reused.
    pub fn push_page(&mut self, copy: PageCopy<'_>) -> Result<(), Error> {
        self.cut_page();
        let entry = copy.entry;
        let mut narrow = entry.decode_narrow(&copy.narrow, Wanted { metadata: true })?;
        let lines = entry.decode_lines(&copy.lines, &narrow.timestamps)?;
        for run in &mut narrow.runs {
            let ordinal = copy.ordinals.get(run.stream as usize).copied();
            let known = ordinal.filter(|&ordinal| (ordinal as usize) < self.streams.len());
            run.stream =
                known.ok_or(Error::Misuse("a copied page has a stream that the block does not have"))?;
        }
        if !narrow.runs.windows(2).all(|pair| pair[0].stream < pair[1].stream) {
            return Err(Error::Misuse("the ordinals of a copied page must keep their order"));
        }
        for Run { stream, start, end } in narrow.runs.iter().copied() {
            let (first, last) = (start as usize, end as usize - 1);
            let stats = &mut self.stats[stream as usize];
            stats.min_ts = stats.min_ts.min(narrow.timestamps[first]);
            stats.max_ts = stats.max_ts.max(narrow.timestamps[last]);
            for row in first..=last {
                let length = lines.ends[row] as usize - lines.start(row);
                self.counter.add(stream, narrow.timestamps[row], narrow.level(row), length);
            }
        }
        for column in &narrow.metadata {
            let has = |run: &&Run| (run.start..run.end).any(|row| column.get(row as usize).is_some());
            self.metadata_keys.note(&column.name, narrow.runs.iter().filter(has).map(|run| run.stream));
        }
        let (offset, level) = (entry.narrow.offset, self.options.zstd_level);
        let page = EncodedPage {
            narrow: Bytes::from(with_runs(&copy.narrow, &narrow.runs, offset, level)?),
            lines: copy.lines,
            filter: copy.filter.unwrap_or_default(),
            line_codec: entry.line_codec,
            raw_bytes: entry.raw_bytes,
            metadata_bytes: entry.metadata_bytes,
            rows: entry.rows,
            min_ts: entry.min_ts,
            max_ts: entry.max_ts,
            first_stream: narrow.runs.first().map_or(0, |run| run.stream),
            last_stream: narrow.runs.last().map_or(0, |run| run.stream),
        };
        self.add_page(page);
        Ok(())
    }

    fn add_page(&mut self, page: EncodedPage) {
        self.group.push(page);
        let stored: usize = self.group.iter().map(|page| page.lines.len() + page.narrow.len()).sum();
        if self.group.len() >= self.options.group_pages as usize || stored >= GROUP_BYTES {
            self.close_group();
        }
    }

    fn close_group(&mut self) {
        if self.group.is_empty() {
            return;
        }
        let first = self.pages.len();
        for page in &self.group {
            let lines = Piece::of(self.offset, &page.lines);
            self.offset = lines.end();
            self.pages.push(PageEntry {
                index: self.pages.len() as u32,
                group: self.groups,
                lines,
                narrow: Piece::default(),
                line_codec: page.line_codec,
                raw_bytes: page.raw_bytes,
                metadata_bytes: page.metadata_bytes,
                rows: page.rows,
                min_ts: page.min_ts,
                max_ts: page.max_ts,
                first_stream: page.first_stream,
                last_stream: page.last_stream,
            });
            self.output.push(page.lines.clone());
        }
        for (page, entry) in self.group.drain(..).zip(&mut self.pages[first..]) {
            entry.narrow = Piece::of(self.offset, &page.narrow);
            self.offset = entry.narrow.end();
            self.output.push(page.narrow);
            self.filters.push(page.filter);
        }
        self.groups += 1;
        if self.filters.pages() + self.options.group_pages as usize > PAGES_MAX {
            self.close_segment();
        }
    }

    fn close_segment(&mut self) {
        let count = self.filters.pages();
        if count == 0 {
            return;
        }
        let first_page = (self.pages.len() - count) as u32;
        let (segment, pieces) = self.filters.finish(first_page, self.offset);
        self.offset = segment.range().end;
        self.output.extend(pieces);
        self.segments.push(segment);
    }

    /// Moves finished bytes to `out`, in order.
    pub fn take_output(&mut self, out: &mut Vec<Bytes>) {
        out.append(&mut self.output);
    }

    /// Returns the bytes of the object so far, without the current page and group.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Returns the bytes held in memory: output that was not taken, the current page and group, filters,
    /// counts.
    pub fn memory_bytes(&self) -> u64 {
        let output: usize = self.output.iter().map(Bytes::len).sum();
        let of_page = |p: &EncodedPage| p.lines.len() + p.narrow.len() + p.filter.len();
        let group: usize = self.group.iter().map(of_page).sum();
        let tables = self.streams.len() * (size_of::<SeriesStats>() + 12) + self.pages.len() * 100;
        let parts = self.page.memory_bytes()
            + self.counter.memory_bytes()
            + self.filters.memory_bytes()
            + self.metadata_keys.memory_bytes();
        (output + group + tables) as u64 + parts
    }

    /// Closes the block; `out` receives the rest of its bytes.
    pub fn finish(mut self, out: &mut Vec<Bytes>) -> Result<BlockSummary, Error> {
        self.cut_page();
        self.close_group();
        self.close_segment();
        let counts = self.counter.finish();
        counts.add_to(&mut self.stats);
        let streams = SeriesTable::build(&self.streams, std::mem::take(&mut self.stats));
        let parts = FooterParts {
            options: &self.options,
            streams: &streams,
            pages: &self.pages,
            segments: &self.segments,
            counts: &counts,
            metadata_keys: &self.metadata_keys,
        };
        let (summary, footer) = put_footer(&parts, self.offset)?;
        self.output.push(footer);
        self.take_output(out);
        Ok(summary)
    }
}

/// Verifies that a narrow and a line piece match the directory, for checking tools.
pub fn check_page(entry: &PageEntry, lines: &[u8], narrow: &[u8]) -> Result<(), Error> {
    entry.lines.check(PART_LINES, lines)?;
    entry.narrow.check(PART_NARROW, narrow)
}
