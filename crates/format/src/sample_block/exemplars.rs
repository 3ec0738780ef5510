//! Exemplars of a block: pages of complete series with their own labels, in ascending order of series,
//! and the directory that decides which page may hold the exemplars of a metric and a time.
//!
//! Exemplars do not refer to the series table: a series may have exemplars in a block that holds no
//! sample of it, and a reader of exemplars does not need the index.
//!
//! Invariants: a series occurs once; its exemplars are sorted by time, value and labels, without
//! duplicates; a decoded page takes no more memory than its directory entry states.

use std::cmp::Ordering;

use bytes::Bytes;
use sandur_model::{Exemplar, Labels, MatchOp, Matcher, TimeRange};

use super::PART_EXEMPLARS;
use super::annotations::{Stored, get_stored, put_page, put_stored};
use super::times::touches;
use crate::block::{METRIC_NAME, compare_series};
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::labels::{get_labels, put_labels};
use crate::codec::varint::{put_blob, put_varint};
use crate::codec::{Piece, Reader};
use crate::error::Error;

/// Most exemplars that a block keeps of a series; the newest are kept. As many as a graph has pixels.
pub const EXEMPLARS_OF_SERIES_MAX: usize = 1 << 10;
/// Most bytes of the exemplars that a block keeps of a series, and of the labels of a series with
/// exemplars.
const SERIES_BYTES_MAX: u64 = 1 << 20;
/// A page is closed when its exemplars take this many bytes in memory.
const PAGE_BYTES: u64 = 1 << 18;
/// Most bytes in memory of the exemplars of a page: the exemplars of a series may be added to a page that
/// is almost full.
const HELD_MAX: u32 = 4 << 20;
/// Bytes by which a plain page may exceed its exemplars in memory, as with a single short exemplar.
const PLAIN_MORE: u32 = 256;
/// Bytes of a label in memory in addition to its texts.
const LABEL_BYTES: usize = 2 * size_of::<Box<str>>();
/// Bytes of the shortest directory entry: the lengths of two names.
const ENTRY_BYTES_MIN: usize = 2;

/// The exemplars of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesExemplars {
    /// The labels of the series.
    pub labels: Labels,
    /// Its exemplars, in the order of [`Exemplar::order`].
    pub exemplars: Vec<Exemplar>,
}

impl SeriesExemplars {
    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        let exemplars = self.exemplars.iter().map(|one| size_of::<Exemplar>() as u64 + one.held_bytes());
        labels_bytes(&self.labels) + exemplars.sum::<u64>()
    }

    /// Sorts the exemplars, removes duplicates, and keeps the newest up to the bounds of a block.
    fn keep_newest(&mut self) {
        Exemplar::sort(&mut self.exemplars);
        let mut bytes = 0;
        let fits = |one: &&Exemplar| {
            bytes += size_of::<Exemplar>() as u64 + one.held_bytes();
            bytes <= SERIES_BYTES_MAX
        };
        let kept = self.exemplars.iter().rev().take(EXEMPLARS_OF_SERIES_MAX).take_while(fits).count();
        self.exemplars.drain(..self.exemplars.len() - kept);
    }
}

fn labels_bytes(labels: &Labels) -> u64 {
    (size_of::<SeriesExemplars>() + labels.text_bytes() + labels.len() * LABEL_BYTES) as u64
}

/// One page of exemplars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExemplarPage {
    pub(super) stored: Stored,
    /// Bytes of its exemplars in memory.
    held: u32,
    /// Number of series with exemplars in it.
    pub series: u32,
    /// Number of exemplars.
    pub exemplars: u32,
    /// Earliest time in milliseconds.
    pub min_ms: i64,
    /// Latest time in milliseconds.
    pub max_ms: i64,
    /// Metric of the first series; empty when the series has none.
    first_metric: Box<str>,
    /// Metric of the last series.
    last_metric: Box<str>,
}

impl ExemplarPage {
    /// Returns the range of the page in the object.
    pub fn piece(&self) -> Piece {
        self.stored.piece
    }

    /// Returns the bytes of memory for reading and decoding the page.
    pub fn memory_bytes(&self) -> u64 {
        // The lists of names take at most as much as the labels that use them.
        self.stored.bytes() + 2 * u64::from(self.held)
    }

    /// Whether it may hold exemplars within the range, of series that pass the matchers.
    pub fn may_hold(&self, matchers: &[Matcher], range: TimeRange) -> bool {
        let names = &*self.first_metric..=&*self.last_metric;
        let is_outside = |matcher: &Matcher| {
            matcher.name() == METRIC_NAME
                && matcher.op() == MatchOp::Equal
                && !names.contains(&matcher.value())
        };
        touches(range, self.min_ms, self.max_ms) && !matchers.iter().any(is_outside)
    }

    /// Returns the bytes of its directory entry in memory.
    pub(super) fn entry_bytes(&self) -> usize {
        size_of::<Self>() + self.first_metric.len() + self.last_metric.len()
    }

    /// Decodes the exemplars from the bytes of the piece, after verifying checksums.
    pub fn decode(&self, bytes: &Bytes) -> Result<Vec<SeriesExemplars>, Error> {
        self.get(&self.stored.open(bytes, PART_EXEMPLARS)?)
    }

    fn get(&self, plain: &[u8]) -> Result<Vec<SeriesExemplars>, Error> {
        let mut reader = Reader::new(PART_EXEMPLARS, self.stored.piece.offset, plain);
        // A series takes at least a number of labels and a number of exemplars.
        if self.series as usize * 2 + self.exemplars as usize * 8 > plain.len() {
            return Err(reader.malformed("a page holds fewer exemplars than its entry states"));
        }
        let (mut all, counts, mut held) = self.get_series(&mut reader)?;
        let times = get_packed(&mut reader, self.exemplars as usize, |time| time as i64)?;
        let values = reader.bytes(self.exemplars as usize * 8)?;
        let values = values.as_chunks::<8>().0.iter().map(|bits| f64::from_bits(u64::from_le_bytes(*bits)));
        let mut labels = LabelsReader::new(&mut reader, self.exemplars as usize, self.held)?;
        let mut rows = times.into_iter().zip(values);
        for (of, count) in all.iter_mut().zip(counts) {
            let mut time = self.min_ms;
            for (distance, value) in rows.by_ref().take(count as usize) {
                time = time.wrapping_add(distance);
                let exemplar = Exemplar { labels: labels.next(&mut held)?, value, timestamp: time };
                let is_next = of.exemplars.last().is_none_or(|before| before.order(&exemplar).is_lt());
                if !is_next || !(self.min_ms..=self.max_ms).contains(&time) {
                    return Err(labels.reader.malformed("exemplars are out of order or out of bounds"));
                }
                of.exemplars.push(exemplar);
            }
        }
        labels.finish()?;
        Ok(all)
    }

    /// Reads the series without their exemplars, the number of exemplars of each, and the memory left for
    /// these.
    fn get_series(
        &self,
        reader: &mut Reader<'_>,
    ) -> Result<(Vec<SeriesExemplars>, Vec<u32>, PageMemory), Error> {
        let (mut all, mut counts) = (Vec::<SeriesExemplars>::new(), Vec::new());
        let (mut held, mut rows) = (PageMemory(u64::from(self.held)), 0u64);
        for _ in 0..self.series {
            let labels = get_labels(reader)?;
            let count = reader.varint32()?;
            rows += u64::from(count);
            let rises = all.last().is_none_or(|before| compare(&before.labels, &labels).is_lt());
            if !rises || count == 0 || rows > u64::from(self.exemplars) {
                return Err(reader.malformed("series with exemplars are out of order or out of bounds"));
            }
            held.take(labels_bytes(&labels) + u64::from(count) * size_of::<Exemplar>() as u64, reader)?;
            all.push(SeriesExemplars { labels, exemplars: Vec::with_capacity(count as usize) });
            counts.push(count);
        }
        if rows != u64::from(self.exemplars) {
            return Err(reader.malformed("a page and its entry differ in their number of exemplars"));
        }
        Ok((all, counts, held))
    }
}

/// Memory that a page may still use, in bytes.
struct PageMemory(u64);

impl PageMemory {
    fn take(&mut self, bytes: u64, reader: &Reader<'_>) -> Result<(), Error> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or_else(|| reader.malformed("a page of exemplars is larger than its entry"))?;
        Ok(())
    }
}

/// Reads the labels of exemplars: shared lists of names, then values.
struct LabelsReader<'r, 'a> {
    reader: &'r mut Reader<'a>,
    shapes: Vec<Vec<&'a str>>,
    of_rows: std::vec::IntoIter<u32>,
}

impl<'r, 'a> LabelsReader<'r, 'a> {
    fn new(reader: &'r mut Reader<'a>, rows: usize, held: u32) -> Result<Self, Error> {
        let count = reader.count("lists of labels", rows)?;
        let mut shapes: Vec<Vec<&str>> = Vec::new();
        let mut names_left = held as usize / LABEL_BYTES;
        for _ in 0..count {
            let names = reader.count("labels of exemplars", names_left)?;
            names_left -= names;
            let mut shape: Vec<&str> = Vec::new();
            for _ in 0..names {
                let name = reader.text()?;
                if shape.last().is_some_and(|before| *before >= name) {
                    return Err(reader.malformed("the names of an exemplar's labels are not sorted"));
                }
                shape.push(name);
            }
            shapes.push(shape);
        }
        let of_rows = get_packed_u32(reader, rows)?;
        if of_rows.iter().any(|shape| *shape as usize >= shapes.len()) {
            return Err(reader.malformed("an exemplar names a list of labels that is not there"));
        }
        Ok(Self { reader, shapes, of_rows: of_rows.into_iter() })
    }

    fn next(&mut self, held: &mut PageMemory) -> Result<Labels, Error> {
        let shape = self.of_rows.next().ok_or(Error::Misuse("an exemplar has no list of labels"))?;
        let names = &self.shapes[shape as usize];
        let text: usize = names.iter().map(|name| name.len()).sum();
        held.take((text + names.len() * LABEL_BYTES) as u64, self.reader)?;
        let mut pairs = Vec::with_capacity(names.len());
        for name in names {
            let value = self.reader.text()?;
            if value.is_empty() {
                return Err(self.reader.malformed("a label of an exemplar is empty"));
            }
            held.take(value.len() as u64, self.reader)?;
            pairs.push((*name, value));
        }
        Ok(Labels::from_pairs(pairs))
    }

    fn finish(self) -> Result<(), Error> {
        match self.reader.remaining() {
            0 => Ok(()),
            _ => Err(self.reader.malformed("bytes are left over")),
        }
    }
}

fn compare(a: &Labels, b: &Labels) -> Ordering {
    compare_series(a.iter(), b.iter())
}

/// Creates pages of exemplars.
#[derive(Debug, Default)]
pub(super) struct ExemplarWriter {
    waiting: Vec<SeriesExemplars>,
    held: u64,
    last: Option<Labels>,
    pub(super) pages: Vec<ExemplarPage>,
}

impl ExemplarWriter {
    /// Adds the exemplars of a series, in ascending order of series. Returns whether a page is full.
    pub(super) fn push(&mut self, mut one: SeriesExemplars) -> Result<bool, Error> {
        if self.last.as_ref().is_some_and(|before| compare(before, &one.labels).is_ge()) {
            return Err(Error::Misuse("series with exemplars must be sorted and distinct"));
        }
        self.last = Some(one.labels.clone());
        one.keep_newest();
        if !one.exemplars.is_empty() && labels_bytes(&one.labels) <= SERIES_BYTES_MAX {
            self.held += one.memory_bytes();
            self.waiting.push(one);
        }
        Ok(self.held >= PAGE_BYTES)
    }

    /// Returns the number of written exemplars, including waiting ones.
    pub(super) fn exemplars(&self) -> u64 {
        let written = self.pages.iter().map(|page| u64::from(page.exemplars)).sum::<u64>();
        written + self.waiting.iter().map(|one| one.exemplars.len() as u64).sum::<u64>()
    }

    /// Returns the page of the waiting exemplars for `offset`; `None` when none wait.
    pub(super) fn take_page(&mut self, level: i32, offset: u64) -> Result<Option<Bytes>, Error> {
        let series = std::mem::take(&mut self.waiting);
        let held = std::mem::take(&mut self.held);
        let (Some(first), Some(last)) = (series.first(), series.last()) else { return Ok(None) };
        let times = || series.iter().flat_map(|one| &one.exemplars).map(|one| one.timestamp);
        let (min_ms, max_ms) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let (stored, bytes) = put_page(&encode(&series, min_ms), level, offset, PART_EXEMPLARS)?;
        let metric = |one: &SeriesExemplars| one.labels.get(METRIC_NAME).unwrap_or_default().into();
        self.pages.push(ExemplarPage {
            stored,
            held: u32::try_from(held).unwrap_or(u32::MAX),
            series: series.len() as u32,
            exemplars: times().count() as u32,
            min_ms,
            max_ms,
            first_metric: metric(first),
            last_metric: metric(last),
        });
        Ok(Some(bytes))
    }
}

fn encode(series: &[SeriesExemplars], min_ms: i64) -> Vec<u8> {
    let (mut out, mut times) = (Vec::new(), Vec::new());
    for SeriesExemplars { labels, exemplars } in series {
        put_labels(&mut out, labels);
        put_varint(&mut out, exemplars.len() as u64);
        let mut before = min_ms;
        for one in exemplars {
            let distance = one.timestamp.wrapping_sub(std::mem::replace(&mut before, one.timestamp));
            times.push(distance as u64);
        }
    }
    put_packed(&mut out, &times);
    let all = || series.iter().flat_map(|one| &one.exemplars);
    all().for_each(|one| out.extend_from_slice(&one.value.to_bits().to_le_bytes()));
    let mut shapes: Vec<Vec<&str>> = Vec::new();
    let mut numbers = std::collections::HashMap::<Vec<&str>, u64, foldhash::fast::RandomState>::default();
    let mut of_rows = Vec::with_capacity(times.len());
    for one in all() {
        let names: Vec<&str> = one.labels.iter().map(|(name, _)| name).collect();
        let number = *numbers.entry(names).or_insert_with_key(|names| {
            shapes.push(names.clone());
            shapes.len() as u64 - 1
        });
        of_rows.push(number);
    }
    put_varint(&mut out, shapes.len() as u64);
    for names in shapes {
        put_varint(&mut out, names.len() as u64);
        names.into_iter().for_each(|name| put_blob(&mut out, name.as_bytes()));
    }
    put_packed(&mut out, &of_rows);
    for (_, value) in all().flat_map(|one| one.labels.iter()) {
        put_blob(&mut out, value.as_bytes());
    }
    out
}

/// Appends the directory.
pub(super) fn put_directory(out: &mut Vec<u8>, pages: &[ExemplarPage], first_ms: i64) {
    put_varint(out, pages.len() as u64);
    put_stored(out, pages.iter().map(|page| page.stored));
    let mut column = |value: &dyn Fn(&ExemplarPage) -> u64| {
        put_packed(out, &pages.iter().map(value).collect::<Vec<_>>());
    };
    column(&|page| u64::from(page.held));
    column(&|page| u64::from(page.series));
    column(&|page| u64::from(page.exemplars));
    column(&|page| page.min_ms.wrapping_sub(first_ms) as u64);
    column(&|page| page.max_ms.wrapping_sub(page.min_ms) as u64);
    for page in pages {
        put_blob(out, page.first_metric.as_bytes());
        put_blob(out, page.last_metric.as_bytes());
    }
}

/// Reads the directory.
pub(super) fn get_directory(reader: &mut Reader<'_>, first_ms: i64) -> Result<Vec<ExemplarPage>, Error> {
    let count = reader.count_of(ENTRY_BYTES_MIN)?;
    let stored = get_stored(reader, count)?;
    let mut column = || get_packed_u32(reader, count);
    let (held, series, exemplars) = (column()?, column()?, column()?);
    let firsts = get_packed(reader, count, |after| first_ms.wrapping_add(after as i64))?;
    let spans = get_packed(reader, count, |span| span as i64)?;
    let mut pages: Vec<ExemplarPage> = Vec::with_capacity(count);
    for n in 0..count {
        let (first_metric, last_metric): (Box<str>, Box<str>) =
            (reader.text()?.into(), reader.text()?.into());
        let before = pages.last().map_or("", |page| &*page.last_metric);
        let max_ms = firsts[n].wrapping_add(spans[n]);
        // An exemplar takes less as plain bytes than in memory.
        if !(1..=exemplars[n]).contains(&series[n])
            || held[n] > HELD_MAX
            || stored[n].plain > held[n] + PLAIN_MORE
            || firsts[n] > max_ms
            || *first_metric < *before
            || last_metric < first_metric
        {
            return Err(reader.malformed("a page of exemplars is out of bounds or out of order"));
        }
        pages.push(ExemplarPage {
            stored: stored[n],
            held: held[n],
            series: series[n],
            exemplars: exemplars[n],
            min_ms: firsts[n],
            max_ms,
            first_metric,
            last_metric,
        });
    }
    Ok(pages)
}

/// Decodes the exemplars of a page with these plain bytes, whose entry states these numbers of series and
/// exemplars and this memory; for tests with arbitrary bytes.
pub fn exemplars_of_plain(
    plain: &[u8],
    (series, exemplars, held): (u32, u32, u32),
) -> Result<Vec<SeriesExemplars>, Error> {
    let piece = Piece::default();
    let stored = Stored { piece, plain: plain.len() as u32, codec: 0 };
    let (first_metric, last_metric) = (Box::default(), Box::default());
    let (min_ms, max_ms) = (i64::MIN, i64::MAX);
    ExemplarPage { stored, held, series, exemplars, min_ms, max_ms, first_metric, last_metric }.get(plain)
}
