//! Writes one block from the samples of series, with one group of pages in memory.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::{FloatHistogram, MILLISECOND_NS, MetricMetadata};

use super::exemplars::{ExemplarWriter, SeriesExemplars};
use super::footer::{Parts, layout_of, put_footer};
use super::group::{GroupDraft, GroupEntry};
use super::index::{Area, IndexWriter, SeriesSpan, WrittenArea};
use super::metadata::MetadataWriter;
use super::options::BlockOptions;
use super::page::{Draft, DraftRun};
use super::scaling::has_few_places;
use super::times::{TimeLists, TimePageEntry};
use super::{GROUP_PAGES_MAX, PAGE_ROWS_MAX};
use crate::block::{BlockSummary, HEADER_LEN};
use crate::codec::Piece;
use crate::error::Error;
use crate::stamp::{Stamp, StampSpan};

/// Short runs share a page until it has this many samples: its head and checksum take about thirty bytes.
const PAGE_ROWS_MIN: u32 = 512;
/// A page of fewer samples may mix decimals with other values.
const MIXED_ROWS: u32 = 64;
/// Most samples of the buckets of one histogram that are gathered together: half a MiB of values.
const BUNDLE_ROWS: usize = 1 << 16;
/// Fewest samples of a series in a page that buckets of one histogram share.
const CHAIN_ROWS_MIN: usize = 16;
/// Numbers at which a page of histograms is closed.
const HISTOGRAM_NUMBERS: usize = 1 << 15;

/// Float samples of one series, in ascending order of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floats<'a> {
    /// Milliseconds since the epoch.
    pub times: &'a [i64],
    /// Values, one per time.
    pub values: &'a [f64],
    /// Start times in milliseconds, one per time, 0 where it is not known; empty when none is known.
    pub starts: &'a [i64],
    /// Stamps, one per time; empty when no sample has one. Only in blocks with [`BlockOptions::stamped`].
    pub stamps: &'a [Stamp],
}

/// Histogram samples of one series, in ascending order of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Histograms<'a> {
    /// Milliseconds since the epoch.
    pub times: &'a [i64],
    /// Histograms, one per time.
    pub histograms: &'a [Arc<FloatHistogram>],
    /// Whether each was sent with integer counts; empty when none was.
    pub integers: &'a [bool],
    /// Start times in milliseconds, as in [`Floats::starts`].
    pub starts: &'a [i64],
    /// Stamps, as in [`Floats::stamps`].
    pub stamps: &'a [Stamp],
}

/// Float samples of a series that wait for the next buckets of its histogram.
#[derive(Debug, Default)]
struct Pending {
    series: u32,
    times: Vec<i64>,
    values: Vec<f64>,
    starts: Vec<i64>,
    stamps: Vec<Stamp>,
}

/// A page that is being filled, with values or with histograms.
#[derive(Debug)]
struct Filling<T> {
    runs: Vec<DraftRun>,
    rows: u32,
    values: Vec<T>,
    starts: Vec<i64>,
    /// Whether histograms were sent with integer counts.
    integers: Vec<bool>,
    /// Number of numbers of the samples.
    numbers: usize,
    /// Whether the values of the first run are decimals.
    decimals: bool,
}

impl<T> Default for Filling<T> {
    fn default() -> Self {
        let (runs, values, starts) = (Vec::new(), Vec::new(), Vec::new());
        Self { runs, rows: 0, values, starts, integers: Vec::new(), numbers: 0, decimals: false }
    }
}

impl<T: Clone> Filling<T> {
    fn push(&mut self, run: DraftRun, values: &[T], starts: &[i64]) {
        append_column(&mut self.starts, self.values.len(), starts, values.len());
        self.rows += run.rows;
        self.runs.push(run);
        self.values.extend_from_slice(values);
    }

    fn ends_with(&self, series: u32) -> bool {
        self.runs.last().is_some_and(|run| run.series == series)
    }
}

/// Appends start times or stamps of `more` samples after those of `rows`; either part may have none.
fn append_column<T: Copy + Default>(all: &mut Vec<T>, rows: usize, starts: &[T], more: usize) {
    if !starts.is_empty() || !all.is_empty() {
        all.resize(rows, T::default());
        all.extend_from_slice(starts);
        all.resize(rows + more, T::default());
    }
}

/// Writes one block.
pub struct BlockWriter {
    options: BlockOptions,
    index: IndexWriter,
    bundle: Vec<Pending>,
    bundle_rows: usize,
    floats: Filling<f64>,
    histograms: Filling<Arc<FloatHistogram>>,
    group: GroupDraft,
    lists: TimeLists,
    groups: Vec<GroupEntry>,
    time_pages: Vec<TimePageEntry>,
    exemplars: ExemplarWriter,
    metadata: MetadataWriter,
    /// The stamps of the samples so far.
    stamps: Option<StampSpan>,
    /// Series and time of the last float and of the last histogram.
    last: [Option<(u32, i64)>; 2],
    offset: u64,
    output: Vec<Bytes>,
}

impl BlockWriter {
    /// Returns a writer of a block without series.
    pub fn new(mut options: BlockOptions) -> Self {
        options.page_rows = options.page_rows.clamp(1, PAGE_ROWS_MAX);
        options.run_rows = options.run_rows.clamp(1, options.page_rows);
        options.group_rows = options.group_rows.clamp(1, 1 << 20);
        Self {
            index: IndexWriter::new(options.zstd_level),
            output: vec![Bytes::from(layout_of(options.stamped).header())],
            options,
            bundle: Vec::new(),
            bundle_rows: 0,
            floats: Filling::default(),
            histograms: Filling::default(),
            group: GroupDraft::default(),
            lists: TimeLists::default(),
            groups: Vec::new(),
            time_pages: Vec::new(),
            exemplars: ExemplarWriter::default(),
            metadata: MetadataWriter::default(),
            last: [None, None],
            stamps: None,
            offset: HEADER_LEN,
        }
    }

    /// Adds a series and returns its ordinal. Its labels are sorted by name, and it must come after the
    /// series before in the order of [`crate::block::compare_series`].
    pub fn push_series<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Result<u32, Error> {
        self.index.push(labels)
    }

    /// Adds float samples, in ascending order of series, and of time within a series.
    pub fn push_floats(&mut self, series: u32, floats: Floats<'_>) -> Result<(), Error> {
        let Floats { times, values, starts, stamps } = floats;
        if values.len() != times.len() || (!starts.is_empty() && starts.len() != times.len()) {
            return Err(Error::Misuse("the columns of samples have different lengths"));
        }
        if times.is_empty() {
            return Ok(());
        }
        self.account_stamps(times, stamps)?;
        self.account(series, times, 0)?;
        let waiting = self.bundle.last().map(|pending| pending.series);
        let goes_on = waiting.is_some_and(|last| {
            last == series || (last + 1 == series && self.index.continues_histogram(series))
        });
        if !goes_on || self.bundle_rows >= BUNDLE_ROWS {
            self.end_bundle()?;
        }
        match self.bundle.last_mut() {
            Some(pending) if pending.series == series => {
                append_column(&mut pending.starts, pending.times.len(), starts, times.len());
                append_column(&mut pending.stamps, pending.times.len(), stamps, times.len());
                pending.times.extend_from_slice(times);
                pending.values.extend_from_slice(values);
            }
            _ => self.bundle.push(Pending {
                series,
                times: times.to_vec(),
                values: values.to_vec(),
                starts: starts.to_vec(),
                stamps: stamps.to_vec(),
            }),
        }
        self.bundle_rows += times.len();
        Ok(())
    }

    /// Adds histogram samples, in ascending order of series, and of time within a series. The series must
    /// not be before the last one with floats.
    pub fn push_histograms(&mut self, series: u32, samples: Histograms<'_>) -> Result<(), Error> {
        let Histograms { times, histograms, integers, starts, stamps } = samples;
        if histograms.len() != times.len() || (!starts.is_empty() && starts.len() != times.len()) {
            return Err(Error::Misuse("the columns of samples have different lengths"));
        }
        if times.is_empty() {
            return Ok(());
        }
        self.account_stamps(times, stamps)?;
        self.account(series, times, 1)?;
        self.end_bundle()?;
        let mut row = 0;
        while row < times.len() {
            let mut end = row;
            let mut numbers = self.histograms.numbers;
            if self.histograms.ends_with(series) || numbers >= HISTOGRAM_NUMBERS {
                numbers = 0;
                self.end_histograms()?;
            }
            let room = (self.options.page_rows - self.histograms.rows) as usize;
            while end < times.len() && end - row < room && (end == row || numbers < HISTOGRAM_NUMBERS) {
                let histogram = &histograms[end];
                numbers += 3 + histogram.positive.len() + histogram.negative.len();
                end += 1;
            }
            if end > row {
                let run = self.run(series, &times[row..end], stamps.get(row..end).unwrap_or_default())?;
                let starts = starts.get(row..end).unwrap_or_default();
                let flags = &mut self.histograms.integers;
                flags.extend((row..end).map(|row| integers.get(row).copied().unwrap_or(false)));
                self.histograms.push(run, &histograms[row..end], starts);
                self.histograms.numbers = numbers;
            }
            if self.histograms.rows >= self.options.page_rows || end < times.len() {
                self.end_histograms()?;
            }
            row = end;
        }
        self.end_full_group()
    }

    /// Adds the exemplars of a series, which need not be a series of the block. Series must ascend; the
    /// exemplars of a series may have any order. The newest exemplars are kept, up to the bounds of a
    /// block.
    pub fn push_exemplars(&mut self, series: SeriesExemplars) -> Result<(), Error> {
        let out_of_range = |ms: i64| ms.checked_mul(MILLISECOND_NS).is_none();
        if series.exemplars.iter().any(|one| out_of_range(one.timestamp)) {
            return Err(Error::Misuse("the time of an exemplar is out of range"));
        }
        match self.exemplars.push(series)? {
            true => self.end_exemplars(),
            false => Ok(()),
        }
    }

    /// Adds the description of a metric family. Descriptions must be sorted and distinct.
    pub fn push_metadata(&mut self, metadata: &MetricMetadata) -> Result<(), Error> {
        match self.metadata.push(metadata)? {
            true => self.end_metadata(),
            false => Ok(()),
        }
    }

    /// Returns the number of exemplars that were added and kept.
    pub fn exemplars(&self) -> u64 {
        self.exemplars.exemplars()
    }

    /// Returns the number of exemplars and descriptions that were added and kept.
    pub fn annotations(&self) -> u64 {
        self.exemplars.exemplars() + self.metadata.metadata()
    }

    fn end_exemplars(&mut self) -> Result<(), Error> {
        let page = self.exemplars.take_page(self.options.zstd_level, self.offset)?;
        self.put(page);
        Ok(())
    }

    fn end_metadata(&mut self) -> Result<(), Error> {
        let page = self.metadata.take_page(self.options.zstd_level, self.offset)?;
        self.put(page);
        Ok(())
    }

    fn put(&mut self, page: Option<Bytes>) {
        if let Some(bytes) = page {
            self.offset += bytes.len() as u64;
            self.output.push(bytes);
        }
    }

    /// Counts samples; refuses those that are out of order.
    fn account(&mut self, series: u32, times: &[i64], kind: usize) -> Result<(), Error> {
        let (first, last) = (times[0], times[times.len() - 1]);
        let rises = times.windows(2).all(|pair| pair[0] < pair[1]);
        let others = self.last[1 - kind].is_none_or(|(other, _)| other <= series);
        if !rises || !others || self.last[kind].is_some_and(|last| last >= (series, first)) {
            return Err(Error::Misuse("the samples of a block must be sorted and distinct"));
        }
        if first.checked_mul(MILLISECOND_NS).is_none() || last.checked_mul(MILLISECOND_NS).is_none() {
            return Err(Error::Misuse("the time of a sample is out of range"));
        }
        let span = SeriesSpan { rows: times.len() as u64, min_ms: first, max_ms: last };
        self.index.count(series, span)?;
        if let Some(area) = self.index.full_area() {
            let area = store_area(&mut self.offset, &mut self.output, area);
            self.index.stored(area);
        }
        self.last[kind] = Some((series, last));
        Ok(())
    }

    fn account_stamps(&mut self, times: &[i64], stamps: &[Stamp]) -> Result<(), Error> {
        if !stamps.is_empty() && (stamps.len() != times.len() || !self.options.stamped) {
            return Err(Error::Misuse("samples of a block without stamps have stamps, or too few"));
        }
        StampSpan::widen(&mut self.stamps, stamps);
        Ok(())
    }

    fn run(&mut self, series: u32, times: &[i64], stamps: &[Stamp]) -> Result<DraftRun, Error> {
        // A merge clears the stamps of single samples. If all stamps are empty, the list is stored without.
        let has_stamps = stamps.iter().any(|stamp| stamp.is_some());
        let list = self.lists.number(times, if has_stamps { stamps } else { &[] });
        if self.lists.is_full() {
            self.put_lists()?;
        }
        let (min_ms, max_ms) = (times[0], times[times.len() - 1]);
        Ok(DraftRun { series, rows: times.len() as u32, list, min_ms, max_ms })
    }

    fn put_lists(&mut self) -> Result<(), Error> {
        if let Some((entry, bytes)) = self.lists.take_page(self.offset)? {
            self.offset = entry.piece.end();
            self.time_pages.push(entry);
            self.output.push(Bytes::from(bytes));
        }
        Ok(())
    }

    /// Puts the waiting series into pages.
    fn end_bundle(&mut self) -> Result<(), Error> {
        let bundle = std::mem::take(&mut self.bundle);
        let rows = std::mem::take(&mut self.bundle_rows);
        let Some(first) = bundle.first() else { return Ok(()) };
        let alike = |pending: &Pending| pending.times == first.times && pending.starts.is_empty();
        let width = (self.options.page_rows as usize / bundle.len()).min(self.options.run_rows as usize);
        if bundle.len() > 1
            && rows >= MIXED_ROWS as usize
            && width >= CHAIN_ROWS_MIN
            && bundle.iter().all(alike)
        {
            self.chain(&bundle, width)?;
            return self.end_full_group();
        }
        for pending in &bundle {
            self.single(pending)?;
            self.end_full_group()?;
        }
        Ok(())
    }

    /// Writes buckets of one histogram with the same times: pages of all of them, of at most `width`
    /// times each.
    fn chain(&mut self, bundle: &[Pending], width: usize) -> Result<(), Error> {
        // The current page may hold earlier samples of one of these series, so it is closed first.
        self.end_floats();
        let times = &bundle[0].times;
        let even = times.len().div_ceil(times.len().div_ceil(width));
        for start in (0..times.len()).step_by(even) {
            let rows = start..times.len().min(start + even);
            let (mut runs, mut values) = (Vec::with_capacity(bundle.len()), Vec::new());
            for pending in bundle {
                let stamps = pending.stamps.get(rows.clone()).unwrap_or_default();
                runs.push(self.run(pending.series, &times[rows.clone()], stamps)?);
                values.extend_from_slice(&pending.values[rows.clone()]);
            }
            self.group.push(Draft::of_floats(&runs, &values, &[], true));
        }
        Ok(())
    }

    fn single(&mut self, pending: &Pending) -> Result<(), Error> {
        let (all, page_rows) = (pending.times.len(), self.options.page_rows as usize);
        let even = all.div_ceil(all.div_ceil(self.options.run_rows as usize));
        if all > even {
            return self.pieces(pending, even);
        }
        let values = &pending.values[..];
        let is_short = all < PAGE_ROWS_MIN as usize;
        let decimals = is_short && has_few_places(values);
        let is_full = self.floats.rows as usize + all > page_rows;
        let differs = is_short && self.floats.decimals != decimals && self.floats.rows >= MIXED_ROWS;
        if is_full || differs || self.floats.ends_with(pending.series) {
            self.end_floats();
        }
        if self.floats.runs.is_empty() {
            self.floats.decimals = decimals;
        }
        let run = self.run(pending.series, &pending.times, &pending.stamps)?;
        self.floats.push(run, values, &pending.starts);
        if self.floats.rows >= PAGE_ROWS_MIN.min(self.options.page_rows) {
            self.end_floats();
        }
        Ok(())
    }

    /// Writes the samples of a series in several pages without other series: if two long series shared a
    /// page, reading one would decode both.
    fn pieces(&mut self, pending: &Pending, rows: usize) -> Result<(), Error> {
        let (times, values) = (pending.times.chunks(rows), pending.values.chunks(rows));
        for (n, (times, values)) in times.zip(values).enumerate() {
            self.end_floats();
            let stamps = pending.stamps.chunks(rows).nth(n).unwrap_or_default();
            let run = self.run(pending.series, times, stamps)?;
            let starts = pending.starts.chunks(rows).nth(n).unwrap_or_default();
            self.floats.push(run, values, starts);
        }
        self.end_floats();
        Ok(())
    }

    fn end_floats(&mut self) {
        let page = std::mem::take(&mut self.floats);
        if !page.runs.is_empty() {
            self.group.push(Draft::of_floats(&page.runs, &page.values, &page.starts, false));
        }
    }

    fn end_histograms(&mut self) -> Result<(), Error> {
        let page = std::mem::take(&mut self.histograms);
        if !page.runs.is_empty() {
            self.group.push(Draft::of_histograms(&page.runs, &page.values, &page.integers, &page.starts)?);
        }
        Ok(())
    }

    fn end_full_group(&mut self) -> Result<(), Error> {
        // A bundle adds at most some hundred pages.
        match self.group.rows() >= self.options.group_rows || self.group.pages() >= GROUP_PAGES_MAX / 2 {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    fn end_group(&mut self) -> Result<(), Error> {
        self.end_floats();
        self.end_histograms()?;
        let group = std::mem::take(&mut self.group);
        if let Some((entry, bytes)) = group.finish(self.offset, self.options.value_level)? {
            self.offset = entry.piece.end();
            self.groups.push(entry);
            self.output.push(bytes);
        }
        Ok(())
    }

    /// Moves finished bytes to `out`, in order.
    pub fn take_output(&mut self, out: &mut Vec<Bytes>) {
        out.append(&mut self.output);
    }

    /// Returns the bytes of distinct label values and lists of series, which are held until the block is
    /// closed.
    pub fn index_memory_bytes(&self) -> u64 {
        self.index.memory_bytes()
    }

    /// Returns the number of series so far.
    pub fn series(&self) -> u32 {
        self.index.len()
    }

    /// Returns the bytes of the object so far, without the bytes that are still in memory.
    pub fn written_bytes(&self) -> u64 {
        self.offset
    }

    /// Closes the block; `out` receives the rest of its bytes.
    pub fn finish(mut self, out: &mut Vec<Bytes>) -> Result<BlockSummary, Error> {
        self.end_bundle()?;
        self.end_group()?;
        self.put_lists()?;
        self.end_exemplars()?;
        self.end_metadata()?;
        let (offset, output) = (&mut self.offset, &mut self.output);
        let index = self.index.finish(|area| store_area(offset, output, area))?;
        let parts = Parts {
            index: &index,
            groups: &self.groups,
            time_pages: &self.time_pages,
            exemplars: &self.exemplars.pages,
            metadata: &self.metadata.pages,
            stamps: self.stamps,
        };
        let (summary, footer) = put_footer(&self.options, parts, self.offset)?;
        out.append(&mut self.output);
        out.push(footer);
        Ok(summary)
    }
}

/// Appends an area of the index to the object; each part is a separate buffer.
fn store_area(offset: &mut u64, output: &mut Vec<Bytes>, area: WrittenArea) -> Area {
    let WrittenArea { address, bytes, ends } = area;
    let piece = Piece::of(*offset, &bytes);
    *offset = piece.end();
    let mut start = 0;
    for end in ends {
        output.push(bytes.slice(start..end));
        start = end;
    }
    Area { piece, address }
}
