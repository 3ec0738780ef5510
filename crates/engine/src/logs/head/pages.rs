//! Serves a head as pages: rows are cut by time into slices of about a page each, which are decoded on
//! demand.
//!
//! A cut never separates rows of one instant of a stream, so duplicates are always in the same page.
//! Planning visits the matching rows once per level of a time histogram and stores nothing per row.

use std::ops::Range;
use std::sync::Arc;

use sandur_model::{LineAutomaton, LineColumn, LogPage, StreamRun, TimeRange};
use sandur_query::{Columns, Error, Order, PageTask};

use super::columns;
use super::stream::{Row, RowAt, StreamRows};

/// Raw bytes of a page, in a head and in a block.
pub const PAGE_BYTES: u64 = 2 << 20;
/// Bits of the number of buckets in one histogram. 2048 buckets cut a head of 128 MiB into pieces of 64
/// KiB when its rows are spread evenly; crowded buckets are cut again.
const BUCKET_BITS: u32 = 11;
/// Bytes that a row counts in addition to its content, so that pages of tiny rows stay small too.
const ROW_BYTES: u64 = 16;

/// The pages of these streams inside the range.
pub(super) fn plan(
    streams: Vec<StreamRows>,
    range: TimeRange,
    order: Order,
    columns: Columns,
) -> Vec<Box<dyn PageTask>> {
    let planner = Planner { streams: streams.into(), columns };
    let mut pages = Vec::new();
    planner.slice(planner.narrow_range(range), &mut pages);
    match order {
        Order::NewestFirst => pages.sort_by_key(|page| std::cmp::Reverse(page.weight.last)),
        Order::OldestFirst => pages.sort_by_key(|page| page.weight.first),
        Order::Any => {}
    }
    pages.into_iter().map(|page| Box::new(page) as Box<dyn PageTask>).collect()
}

struct Planner {
    streams: Arc<[StreamRows]>,
    columns: Columns,
}

/// Totals of rows and the bounds of their times.
#[derive(Clone, Copy)]
struct Weight {
    rows: u64,
    line_bytes: u64,
    pairs: u64,
    pair_bytes: u64,
    first: i64,
    last: i64,
}

impl Default for Weight {
    fn default() -> Self {
        Self { rows: 0, line_bytes: 0, pairs: 0, pair_bytes: 0, first: i64::MAX, last: i64::MIN }
    }
}

impl Weight {
    fn count(&mut self, row: &Row<'_>, columns: Columns) {
        self.rows += 1;
        self.line_bytes += u64::from(row.entry.line.len);
        self.first = self.first.min(row.entry.timestamp);
        self.last = self.last.max(row.entry.timestamp);
        if columns.metadata && row.entry.metadata_len > 0 {
            self.pairs += u64::from(row.entry.metadata_len);
            let pairs = row.metadata();
            self.pair_bytes += pairs.map(|(name, value)| (name.len() + value.len()) as u64).sum::<u64>();
        }
    }

    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.line_bytes += other.line_bytes;
        self.pairs += other.pairs;
        self.pair_bytes += other.pair_bytes;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    fn bytes(&self) -> u64 {
        self.line_bytes + self.pair_bytes + self.rows * ROW_BYTES
    }
}

impl Planner {
    fn narrow_range(&self, range: TimeRange) -> TimeRange {
        let totals = || self.streams.iter().map(StreamRows::totals);
        let first = totals().map(|t| t.first).min().unwrap_or(i64::MAX);
        let last = totals().map(|t| t.last).max().unwrap_or(i64::MIN);
        range.intersect(&TimeRange::inclusive(first, last))
    }

    fn slice(&self, range: TimeRange, pages: &mut Vec<HeadPage>) {
        if range.is_empty() {
            return;
        }
        let (shift, buckets) = self.histogram(range);
        let bucket_start = |n: usize| range.start.saturating_add_unsigned((n as u64) << shift);
        let mut open = (0, Weight::default());
        for (n, bucket) in buckets.iter().enumerate() {
            if open.1.rows > 0 && open.1.bytes() + bucket.bytes() > PAGE_BYTES {
                pages.push(self.page(TimeRange::new(bucket_start(open.0), bucket_start(n)), open.1));
                open = (n, Weight::default());
            }
            if bucket.bytes() > PAGE_BYTES {
                let end = bucket_start(n + 1).min(range.end);
                self.slice_crowded(TimeRange::new(bucket_start(n), end), pages);
                open = (n + 1, Weight::default());
            } else {
                open.1.add(bucket);
            }
        }
        if open.1.rows > 0 {
            pages.push(self.page(TimeRange::new(bucket_start(open.0), range.end), open.1));
        }
    }

    fn slice_crowded(&self, range: TimeRange, pages: &mut Vec<HeadPage>) {
        if range.length_ns() > 1 {
            self.slice(range, pages);
        } else {
            self.split_instant(range, pages);
        }
    }

    /// Cuts one instant between streams. All rows of one stream and instant stay together, so that their
    /// duplicates are found.
    fn split_instant(&self, range: TimeRange, pages: &mut Vec<HeadPage>) {
        let mut open = (0, Weight::default());
        for (n, stream) in self.streams.iter().enumerate() {
            let mut weight = Weight::default();
            stream.visit(range, |row| weight.count(&row, self.columns));
            if open.1.rows > 0 && open.1.bytes() + weight.bytes() > PAGE_BYTES {
                pages.push(self.page_of_streams(open.0..n, range, open.1));
                open = (n, Weight::default());
            }
            open.1.add(&weight);
        }
        if open.1.rows > 0 {
            pages.push(self.page_of_streams(open.0..self.streams.len(), range, open.1));
        }
    }

    /// Weights of equal parts of the range, each `2^shift` nanoseconds long.
    fn histogram(&self, range: TimeRange) -> (u32, Vec<Weight>) {
        let span = range.end.abs_diff(range.start);
        let bits = 64 - (span - 1).leading_zeros();
        let shift = bits.saturating_sub(BUCKET_BITS);
        let mut buckets = vec![Weight::default(); ((span - 1) >> shift) as usize + 1];
        for stream in self.streams.iter() {
            stream.visit(range, |row| {
                let bucket = row.entry.timestamp.abs_diff(range.start) >> shift;
                buckets[bucket as usize].count(&row, self.columns);
            });
        }
        (shift, buckets)
    }

    fn page(&self, range: TimeRange, weight: Weight) -> HeadPage {
        self.page_of_streams(0..self.streams.len(), range, weight)
    }

    fn page_of_streams(&self, part: Range<usize>, range: TimeRange, weight: Weight) -> HeadPage {
        let streams = Arc::clone(&self.streams);
        HeadPage { streams, part, range, weight, columns: self.columns, selected: None }
    }
}

struct HeadPage {
    streams: Arc<[StreamRows]>,
    part: Range<usize>,
    range: TimeRange,
    weight: Weight,
    columns: Columns,
    selected: Option<Selected>,
}

struct Selected {
    rows: Vec<(u32, RowAt)>,
    runs: Vec<StreamRun>,
}

impl HeadPage {
    fn select(&self) -> Selected {
        let mut selected = Selected { rows: Vec::with_capacity(self.weight.rows as usize), runs: Vec::new() };
        for number in self.part.clone() {
            let stream = &self.streams[number];
            let start = selected.rows.len() as u32;
            stream.visit_distinct(self.range, |row| selected.rows.push((number as u32, row.at)));
            let end = selected.rows.len() as u32;
            if end > start {
                let labels = Arc::clone(&stream.stream().labels);
                selected.runs.push(StreamRun { labels, start, end, suspect: None });
            }
        }
        selected
    }

    fn selected(&mut self) -> &Selected {
        if self.selected.is_none() {
            self.selected = Some(self.select());
        }
        self.selected.as_ref().expect("it was set just now")
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> + Clone {
        let selected = self.selected.iter().flat_map(|selected| &selected.rows);
        selected.map(|(stream, at)| self.streams[*stream as usize].row(*at))
    }
}

impl PageTask for HeadPage {
    fn bounds(&self) -> (i64, i64) {
        (self.weight.first, self.weight.last)
    }

    fn memory_bytes(&self) -> u64 {
        let weight = &self.weight;
        // Timestamp 8, level 1, selection 12; end and separator of a line 5.
        let mut bytes = weight.rows * 21;
        if self.columns.lines {
            bytes += weight.line_bytes + weight.rows * 5;
        }
        if self.columns.metadata {
            // A cell is 24 bytes while columns are built; ids, starts and text come after.
            bytes += weight.pair_bytes + weight.pairs * 32;
        }
        bytes
    }

    fn narrow(&mut self) -> Result<LogPage, Error> {
        let runs = self.selected().runs.clone();
        let timestamps = self.rows().map(|row| row.entry.timestamp).collect();
        let (mut levels, mut metadata) = (Vec::new(), Vec::new());
        if self.columns.metadata {
            levels = columns::levels(self.rows());
            metadata = columns::metadata(self.rows());
        }
        Ok(LogPage { runs, timestamps, levels, metadata, lines: None })
    }

    fn lines(&mut self) -> Result<LineColumn, Error> {
        self.selected();
        Ok(columns::lines(self.rows()))
    }

    /// Lines of a head are not compressed, so testing them early saves nothing.
    fn retain(&mut self, _: &LineAutomaton, _: bool, _: &mut [bool]) -> Result<bool, Error> {
        Ok(false)
    }

    fn lines_of(&mut self, _: &[bool]) -> Result<LineColumn, Error> {
        self.lines()
    }
}
