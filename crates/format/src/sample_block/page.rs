//! Pages: the samples of one or several runs, before encoding and after decoding.
//!
//! Layout of a page: if it has several runs, packed per run: difference of the series from the one
//! before, samples, difference (zigzag) of the number of its list of times from the one before. Then the
//! form of its values ([`super::scaling`]), its start times if there are any, and a page of numbers,
//! which is absent if all remaining numbers are zero. A page of histograms has [`super::histograms`]
//! instead of the last three.

use std::sync::Arc;

use sandur_model::FloatHistogram;

use super::scaling::{STARTS, Scaled, ends_of};
use super::starts;
use super::times::TimeList;
use super::{PAGE_ROWS_MAX, PART_PAGE};
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::number_page::ORDER_MAX;
use crate::codec::varint::{unzigzag, zigzag};
use crate::codec::{Piece, Reader};
use crate::error::Error;
use crate::stamp::Stamps;

/// The kind of a page in the directory: the number of the table that encodes it, or one of these two.
pub(super) const KIND_CONSTANT: u8 = 254;
pub(super) const KIND_HISTOGRAMS: u8 = 255;
/// Added to the number of the table of a page that begins with zero, which is not stored.
pub(super) const FROM_ZERO: u8 = 128;
/// Most tables of a group.
pub(super) const TABLES_MAX: usize = 126;

/// One page of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry {
    /// The range of the page in the object.
    pub piece: Piece,
    pub(super) kind: u8,
    /// Number of samples.
    pub rows: u32,
    /// Number of encoded numbers.
    pub(super) numbers: u32,
    /// Number of runs, each of samples of one series.
    pub runs: u32,
    /// Lowest series ordinal.
    pub first_series: u32,
    /// Highest series ordinal.
    pub last_series: u32,
    /// First time, in milliseconds since the epoch.
    pub min_ms: i64,
    /// Last time, in milliseconds since the epoch, inclusive.
    pub max_ms: i64,
    /// Lowest number of the lists of times that it needs.
    pub first_list: u32,
    /// Highest number of these lists.
    pub last_list: u32,
}

impl PageEntry {
    /// Whether the page holds histograms.
    pub fn is_of_histograms(&self) -> bool {
        self.kind == KIND_HISTOGRAMS
    }

    /// Returns the bytes of the decoded page, including memory for decoding it.
    pub fn memory_bytes(&self) -> u64 {
        let per_histogram = (size_of::<FloatHistogram>() + 64) as u64;
        let rows = u64::from(self.rows) * if self.is_of_histograms() { per_histogram } else { 24 };
        rows + u64::from(self.numbers) * 24 + u64::from(self.runs) * size_of::<Run>() as u64
    }
}

/// The samples of one series in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Ordinal of the series.
    pub series: u32,
    /// First row.
    pub start: u32,
    /// Row after the last one.
    pub end: u32,
    /// Times in milliseconds since the epoch, ascending. Includes those of skipped rows and of rows after
    /// `end`.
    pub times: Arc<Vec<i64>>,
    /// The stamps of all rows that `times` has; `None` if none has a stamp.
    pub stamps: Option<Arc<Stamps>>,
    /// Number of rows before `start` that were not requested and are not in the columns.
    pub skipped: u32,
}

impl Run {
    /// Returns its rows in the columns of the page.
    pub fn rows(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the rows within these times, inclusive, as indexes into `times`. Only rows that are in the
    /// columns are included.
    pub fn between(&self, first_ms: i64, last_ms: i64) -> std::ops::Range<usize> {
        let skipped = self.skipped as usize;
        let own = &self.times[skipped..skipped + self.rows().len()];
        let first = skipped + own.partition_point(|time| *time < first_ms);
        first..first.max(skipped + own.partition_point(|time| *time <= last_ms))
    }

    /// Converts indexes into `times`, of rows that are in the columns, to rows in the columns of the
    /// page.
    pub fn stored(&self, places: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let (start, skipped) = (self.start as usize, self.skipped as usize);
        start + places.start - skipped..start + places.end - skipped
    }
}

/// A decoded page: of floats or of histograms.
#[derive(Clone, Debug, Default)]
pub struct SamplePage {
    /// In ascending order of series; together they cover every row once, in order.
    pub runs: Vec<Run>,
    /// Values of floats, one per row; empty in a page of histograms.
    pub values: Vec<f64>,
    /// Histograms, one per row; empty in a page of floats.
    pub histograms: Vec<Arc<FloatHistogram>>,
    /// Whether each histogram was sent with integer counts.
    pub integers: Vec<bool>,
    /// Start times in milliseconds, one per row, 0 where it is not known; empty when none is known.
    pub starts: Vec<i64>,
}

/// A run that is being added to a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct DraftRun {
    pub(super) series: u32,
    pub(super) rows: u32,
    pub(super) list: u32,
    pub(super) min_ms: i64,
    pub(super) max_ms: i64,
}

/// A page that waits for the rest of its group.
#[derive(Debug)]
pub(super) struct Draft {
    /// Its fields except the kind and the piece.
    pub(super) entry: PageEntry,
    /// The bytes before its numbers.
    pub(super) head: Vec<u8>,
    /// Numbers to encode; empty when they are all zero, and in a page of histograms.
    pub(super) numbers: Vec<i64>,
    /// Order of deltas, and twice the mean number of bits of a delta: pages with the same class are
    /// encoded with one table.
    pub(super) class: (u8, u8),
}

/// Returns the fields of the directory that follow from the runs.
fn entry_of(runs: &[DraftRun], kind: u8) -> PageEntry {
    let lists = runs.iter().map(|run| run.list);
    PageEntry {
        piece: Piece { offset: 0, len: 0, crc: 0 },
        kind,
        rows: runs.iter().map(|run| run.rows).sum(),
        numbers: 0,
        runs: runs.len() as u32,
        first_series: runs.first().map_or(0, |run| run.series),
        last_series: runs.last().map_or(0, |run| run.series),
        min_ms: runs.iter().map(|run| run.min_ms).min().unwrap_or(0),
        max_ms: runs.iter().map(|run| run.max_ms).max().unwrap_or(0),
        first_list: lists.clone().min().unwrap_or(0),
        last_list: lists.max().unwrap_or(0),
    }
}

fn put_runs(out: &mut Vec<u8>, runs: &[DraftRun]) {
    let [first, rest @ ..] = runs else { return };
    if rest.is_empty() {
        return;
    }
    let before = || std::iter::once(first).chain(runs);
    let distances = runs.iter().zip(before()).map(|(run, before)| u64::from(run.series - before.series));
    put_packed(out, &distances.collect::<Vec<_>>());
    put_packed(out, &runs.iter().map(|run| u64::from(run.rows)).collect::<Vec<_>>());
    let lists = runs.iter().zip(before());
    let lists = lists.map(|(run, before)| zigzag(i64::from(run.list) - i64::from(before.list)));
    // The first list as the difference from the lowest, which the directory holds.
    let lowest = runs.iter().map(|run| run.list).min().unwrap_or(0);
    let mut lists: Vec<u64> = lists.collect();
    lists[0] = u64::from(first.list - lowest);
    put_packed(out, &lists);
}

/// Reads series, rows and number of the list of times of each run.
pub(super) fn get_runs(reader: &mut Reader<'_>, entry: &PageEntry) -> Result<Vec<(u32, u32, u32)>, Error> {
    if entry.runs == 1 {
        return Ok(vec![(entry.first_series, entry.rows, entry.first_list)]);
    }
    let count = entry.runs as usize;
    let (distances, rows) = (get_packed_u32(reader, count)?, get_packed_u32(reader, count)?);
    let lists = get_packed(reader, count, |list| list)?;
    let mut runs = Vec::with_capacity(count);
    let (mut series, mut list, mut all) = (entry.first_series, i64::from(entry.first_list), 0u64);
    for n in 0..count {
        let away = if n == 0 { lists[0].min(u64::from(u32::MAX)) as i64 } else { unzigzag(lists[n]) };
        list = list.saturating_add(away);
        series = series.saturating_add(distances[n]);
        all += u64::from(rows[n]);
        let inside = (i64::from(entry.first_list)..=i64::from(entry.last_list)).contains(&list);
        if rows[n] == 0 || !inside || (n > 0 && distances[n] == 0) {
            return Err(reader.malformed("a run is empty, out of order or has no list of times"));
        }
        runs.push((series, rows[n], list as u32));
    }
    if all != u64::from(entry.rows) || series != entry.last_series {
        return Err(reader.malformed("the runs do not match the directory entry"));
    }
    Ok(runs)
}

impl Draft {
    /// Returns a page of floats.
    pub(super) fn of_floats(runs: &[DraftRun], values: &[f64], start_times: &[i64], chain: bool) -> Self {
        let mut entry = entry_of(runs, KIND_CONSTANT);
        let ends = ends_of(runs.iter().map(|run| run.rows));
        let scaled = Scaled::of(values, &ends, chain);
        let mut head = Vec::new();
        put_runs(&mut head, runs);
        scaled.put(&mut head, if start_times.is_empty() { 0 } else { STARTS });
        if !start_times.is_empty() {
            starts::put(&mut head, start_times);
        }
        entry.numbers = entry.rows;
        let numbers = if scaled.rest.iter().all(|rest| *rest == 0) { Vec::new() } else { scaled.rest };
        let class = class_of(&numbers);
        Self { entry, head, numbers, class }
    }

    /// Returns a page of histograms.
    pub(super) fn of_histograms(
        runs: &[DraftRun],
        histograms: &[Arc<FloatHistogram>],
        integers: &[bool],
        start_times: &[i64],
    ) -> Result<Self, Error> {
        let mut entry = entry_of(runs, KIND_HISTOGRAMS);
        let mut head = Vec::new();
        put_runs(&mut head, runs);
        let ends = ends_of(runs.iter().map(|run| run.rows));
        entry.numbers = super::histograms::put(&mut head, histograms, integers, start_times, &ends)?;
        Ok(Self { entry, head, numbers: Vec::new(), class: (0, 0) })
    }
}

/// Returns the order of deltas that takes the fewest bits, and twice the mean number of bits of a delta.
fn class_of(numbers: &[i64]) -> (u8, u8) {
    let bits = |number: i64| u64::from(64 - number.unsigned_abs().leading_zeros());
    let mut costs = [0u64; ORDER_MAX + 1];
    let (mut before, mut distance_before) = (0i64, 0i64);
    for number in numbers {
        let distance = number.wrapping_sub(before);
        costs[0] += bits(*number);
        costs[1] += bits(distance);
        costs[2] += bits(distance.wrapping_sub(distance_before));
        (before, distance_before) = (*number, distance);
    }
    // A higher order must save more than its longer page head costs.
    let cost = |order: usize| costs[order] + order as u64 * 64;
    let order = (0..costs.len()).min_by_key(|order| cost(*order)).unwrap_or(0);
    let mean = 2 * costs[order] / (numbers.len() as u64).max(1);
    (order as u8, mean as u8)
}

/// Whether an entry is within the bounds that readers rely on.
pub(super) fn check_entry(entry: &PageEntry, tables: usize) -> bool {
    let kind = usize::from(entry.kind % FROM_ZERO) < tables || entry.kind >= KIND_CONSTANT;
    let numbers = match entry.kind {
        KIND_HISTOGRAMS => entry.numbers <= super::histograms::NUMBERS_MAX,
        _ => entry.numbers == entry.rows,
    };
    kind && numbers
        && (1..=PAGE_ROWS_MAX).contains(&entry.rows)
        && (1..=entry.rows).contains(&entry.runs)
        && entry.first_series <= entry.last_series
        && entry.first_list <= entry.last_list
        && entry.min_ms <= entry.max_ms
        && (entry.runs > 1
            || (entry.first_series == entry.last_series && entry.first_list == entry.last_list))
}

/// The lists of a page of times.
pub type TimeLists = Vec<TimeList>;

/// The lists of times that pages refer to, as far as they were read.
#[derive(Clone, Debug, Default)]
pub struct TimeTable {
    /// First list number of each page of times and its lists, ascending.
    parts: Vec<(u32, Arc<TimeLists>)>,
}

impl TimeTable {
    /// Adds the lists of a page of times, in ascending order of pages.
    pub fn push(&mut self, first_list: u32, lists: Arc<TimeLists>) {
        self.parts.push((first_list, lists));
    }

    /// Returns the list with a number.
    pub fn list(&self, number: u32) -> Option<&TimeList> {
        let at = self.parts.partition_point(|(first, _)| *first <= number).checked_sub(1)?;
        let (first, lists) = &self.parts[at];
        lists.get((number - first) as usize)
    }
}

/// Returns the runs of a page with their times.
pub(super) fn runs_with_times(
    reader: &mut Reader<'_>,
    entry: &PageEntry,
    times: &TimeTable,
) -> Result<Vec<Run>, Error> {
    let mut start = 0;
    let mut runs = Vec::with_capacity(entry.runs as usize);
    for (series, rows, list) in get_runs(reader, entry)? {
        let malformed = |what| Error::Malformed { part: PART_PAGE, offset: entry.piece.offset, what };
        let known = times.list(list).ok_or_else(|| malformed("the times of a run are missing"))?;
        let list = &known.times;
        if list.len() != rows as usize {
            return Err(malformed("a run has different numbers of samples and times"));
        }
        if list[0] < entry.min_ms || list[list.len() - 1] > entry.max_ms {
            return Err(malformed("a time is outside of the bounds of the directory entry"));
        }
        let (times, stamps) = (Arc::clone(list), known.stamps.clone());
        runs.push(Run { series, start, end: start + rows, times, stamps, skipped: 0 });
        start += rows;
    }
    Ok(runs)
}
