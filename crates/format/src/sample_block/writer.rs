//! Writes one block: samples in, bytes out, with one page in memory.

use bytes::Bytes;
use sandur_model::{TenantId, TimeRange};

use super::footer::{LAYOUT, put_footer};
use super::page::{PageEntry, Run, SamplePage};
use super::{MILLISECOND_NS, PAGE_ROWS_MAX, SAMPLE_BYTES};
use crate::block::{BlockOrigin, BlockSummary, HEADER_LEN, SeriesList, SeriesStats};
use crate::codec::{Piece, compress};
use crate::error::Error;

/// What a block is and how it is written.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// Whose samples they are.
    pub tenant: TenantId,
    /// The time window that the block belongs to.
    pub window: TimeRange,
    /// How often its samples were compacted.
    pub level: u8,
    /// zstd level of all compressed parts.
    pub zstd_level: i32,
    /// A page is closed when it holds this many samples; at most [`PAGE_ROWS_MAX`].
    pub page_rows: u32,
    /// What it is made from.
    pub origin: BlockOrigin,
}

impl BlockOptions {
    /// The defaults: pages of 8,192 samples (128 KiB raw), so that one series is found without decoding much.
    pub fn new(tenant: TenantId, window: TimeRange, level: u8) -> Self {
        Self { tenant, window, level, zstd_level: 1, page_rows: 8_192, origin: BlockOrigin::default() }
    }
}

/// Writes one block.
pub struct BlockWriter {
    options: BlockOptions,
    series: SeriesList,
    stats: Vec<SeriesStats>,
    page: SamplePage,
    pages: Vec<PageEntry>,
    /// Series and time of the last sample.
    last: Option<(u32, i64)>,
    offset: u64,
    output: Vec<Bytes>,
}

impl BlockWriter {
    /// A writer of samples of these series.
    pub fn new(options: BlockOptions, series: SeriesList) -> Self {
        Self {
            stats: vec![SeriesStats::default(); series.len()],
            options,
            series,
            page: SamplePage::default(),
            pages: Vec::new(),
            last: None,
            offset: HEADER_LEN,
            output: vec![Bytes::from(LAYOUT.header())],
        }
    }

    /// Adds a sample: by rising series, and by rising time within a series.
    pub fn push(&mut self, series: u32, timestamp_ms: i64, value: f64) -> Result<(), Error> {
        if self.last.is_some_and(|last| last >= (series, timestamp_ms)) {
            return Err(Error::Misuse("the samples of a block must be sorted and distinct"));
        }
        let stats = self.stats.get_mut(series as usize);
        let stats = stats.ok_or(Error::Misuse("a sample names a series that the block does not have"))?;
        let timestamp = timestamp_ms.checked_mul(MILLISECOND_NS);
        let timestamp = timestamp.ok_or(Error::Misuse("the time of a sample is out of range"))?;
        stats.min_ts = stats.min_ts.min(timestamp);
        stats.max_ts = stats.max_ts.max(timestamp);
        stats.rows += 1;
        stats.bytes += SAMPLE_BYTES;
        if self.page.timestamps.len() as u32 >= self.options.page_rows.clamp(1, PAGE_ROWS_MAX) {
            self.cut_page();
        }
        let row = self.page.timestamps.len() as u32;
        match self.page.runs.last_mut() {
            Some(run) if run.series == series => run.end = row + 1,
            _ => self.page.runs.push(Run { series, start: row, end: row + 1 }),
        }
        self.page.timestamps.push(timestamp_ms);
        self.page.values.push(value);
        self.last = Some((series, timestamp_ms));
        Ok(())
    }

    fn cut_page(&mut self) {
        let page = std::mem::take(&mut self.page);
        let (Some(first), Some(last)) = (page.runs.first(), page.runs.last()) else { return };
        let times = page.timestamps.iter().copied();
        let (min, max) = times.fold((i64::MAX, i64::MIN), |(min, max), t| (min.min(t), max.max(t)));
        let mut plain = Vec::with_capacity(page.timestamps.len() * 12);
        page.put(&mut plain);
        let mut stored = vec![0];
        stored[0] = compress::put_smaller(&mut stored, &plain, self.options.zstd_level);
        let piece = Piece::of(self.offset, &stored);
        self.offset = piece.end();
        self.pages.push(PageEntry {
            piece,
            plain_len: plain.len() as u32,
            rows: page.timestamps.len() as u32,
            min_ts: min.saturating_mul(MILLISECOND_NS),
            max_ts: max.saturating_mul(MILLISECOND_NS),
            first_series: first.series,
            last_series: last.series,
        });
        self.output.push(Bytes::from(stored));
    }

    /// Moves what is ready to be stored to `out`, in order.
    pub fn take_output(&mut self, out: &mut Vec<Bytes>) {
        out.append(&mut self.output);
    }

    /// Bytes of the object so far, the current page not included.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Closes the block; `out` receives the rest of its bytes.
    pub fn finish(mut self, out: &mut Vec<Bytes>) -> Result<BlockSummary, Error> {
        self.cut_page();
        let table = self.series.finish(std::mem::take(&mut self.stats));
        let (summary, footer) = put_footer(&self.options, &table, &self.pages, self.offset)?;
        out.append(&mut self.output);
        out.push(footer);
        Ok(summary)
    }
}
