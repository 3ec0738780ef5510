//! The stream table of a block: label sets in columns, and statistics of each stream.
//!
//! Layout: number of streams, number of label names; per name, in order: the name, its distinct values in
//! order (count, then length and text each), per stream a bit-packed id, 0 = the stream lacks the label.
//! Then per stream, bit packed: first timestamp minus the block's, span, rows, line bytes, levels.
//!
//! Label sets are built when they are first requested.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;
use sandur_model::{Labels, TimeRange};

use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::reader::Reader;
use crate::codec::varint::{put_blob, put_varint};
use crate::error::Error;

/// Statistics of a stream in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesStats {
    /// First timestamp; [`i64::MAX`] when there are no rows.
    pub min_ts: i64,
    /// Last timestamp; [`i64::MIN`] when there are no rows.
    pub max_ts: i64,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of the lines.
    pub bytes: u64,
    /// Bit `n` is set when a row has the level with number `n`.
    pub levels: u16,
}

impl Default for SeriesStats {
    fn default() -> Self {
        Self { min_ts: i64::MAX, max_ts: i64::MIN, rows: 0, bytes: 0, levels: 0 }
    }
}

/// One label over all streams.
#[derive(Debug)]
pub(crate) struct LabelColumn {
    pub(crate) name: Box<str>,
    /// Distinct values, sorted.
    pub(crate) values: Vec<Box<str>>,
    /// Per stream: 0 when it lacks the label, else one more than the index of its value.
    pub(crate) ids: Vec<u32>,
}

impl LabelColumn {
    /// Returns the id of a value; `None` when no stream has it.
    pub(crate) fn id_of(&self, value: &str) -> Option<u32> {
        let at = self.values.binary_search_by(|v| (**v).cmp(value)).ok()?;
        Some(at as u32 + 1)
    }
}

/// The streams of a block by ordinal, in the order of [`crate::log_block::compare_streams`].
#[derive(Debug)]
pub struct SeriesTable {
    columns: Vec<LabelColumn>,
    stats: Vec<SeriesStats>,
    /// First and last timestamp of all streams; `None` when one has no rows.
    bounds: Option<(i64, i64)>,
    labels: Box<[OnceLock<Arc<Labels>>]>,
}

/// Returns the first and last timestamp of all streams; `None` when a stream has no rows.
fn bounds_of(stats: &[SeriesStats]) -> Option<(i64, i64)> {
    let all_have_rows = stats.iter().all(|stream| stream.rows > 0);
    let first = stats.iter().map(|stream| stream.min_ts).min()?;
    let last = stats.iter().map(|stream| stream.max_ts).max()?;
    all_have_rows.then_some((first, last))
}

impl SeriesTable {
    /// Number of streams.
    pub fn len(&self) -> usize {
        self.stats.len()
    }

    /// Whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.stats.is_empty()
    }

    /// Returns the label set of a stream.
    ///
    /// # Panics
    /// When the ordinal is not below [`SeriesTable::len`]; ordinals of pages are checked when they are
    /// read.
    pub fn labels(&self, ordinal: u32) -> Arc<Labels> {
        let built =
            self.labels[ordinal as usize].get_or_init(|| Arc::new(Labels::from_pairs(self.pairs(ordinal))));
        built.clone()
    }

    /// Returns the labels of a stream, by name, without building a label set.
    pub fn pairs(&self, ordinal: u32) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.columns.iter().filter_map(move |column| {
            let id = column.ids[ordinal as usize] as usize;
            (id > 0).then(|| (&*column.name, &*column.values[id - 1]))
        })
    }

    /// Returns the statistics of a stream.
    pub fn stats(&self, ordinal: u32) -> &SeriesStats {
        &self.stats[ordinal as usize]
    }

    /// Returns the names of all labels, sorted.
    pub fn label_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.columns.iter().map(|column| &*column.name)
    }

    /// Returns the names of the labels that at least one of these streams has, sorted.
    pub fn label_names_of<'a>(&'a self, streams: &'a RoaringBitmap) -> impl Iterator<Item = &'a str> {
        let are_all = streams.len() == self.len() as u64;
        let present =
            move |column: &&LabelColumn| are_all || streams.iter().any(|s| column.ids[s as usize] > 0);
        self.columns.iter().filter(present).map(|column| &*column.name)
    }

    /// Returns all values of a label, sorted; none when no stream has the label.
    pub fn label_values(&self, name: &str) -> impl ExactSizeIterator<Item = &str> {
        let values = self.column(name).map_or(&[][..], |column| &column.values);
        values.iter().map(|value| &**value)
    }

    /// Returns the values of a label among these streams, sorted.
    pub fn label_values_of(&self, name: &str, streams: &RoaringBitmap) -> Vec<&str> {
        let Some(column) = self.column(name) else { return Vec::new() };
        if streams.len() == self.len() as u64 {
            return column.values.iter().map(|value| &**value).collect();
        }
        // Values are sorted, and 0 means that the label is absent.
        let mut met = vec![false; column.values.len() + 1];
        streams.iter().for_each(|s| met[column.ids[s as usize] as usize] = true);
        column.values.iter().zip(&met[1..]).filter(|(_, met)| **met).map(|(value, _)| &**value).collect()
    }

    /// Returns those of the streams that may have rows within a range.
    pub fn touching(&self, mut streams: RoaringBitmap, range: TimeRange) -> RoaringBitmap {
        if self.bounds.is_some_and(|(first, last)| range.covers(first, last)) {
            return streams;
        }
        let outside = |ordinal: &u32| {
            let stats = self.stats(*ordinal);
            stats.rows == 0 || !range.touches(stats.min_ts, stats.max_ts)
        };
        // Usually few streams are removed, and adding numbers to a set costs more than testing them.
        let gone = RoaringBitmap::from_sorted_iter(streams.iter().filter(outside)).expect("a set is sorted");
        streams -= gone;
        streams
    }

    /// Returns the value of a label of a stream.
    pub fn label(&self, ordinal: u32, name: &str) -> Option<&str> {
        let column = self.column(name)?;
        let id = column.ids[ordinal as usize] as usize;
        (id > 0).then(|| &*column.values[id - 1])
    }

    pub(crate) fn column(&self, name: &str) -> Option<&LabelColumn> {
        let at = self.columns.binary_search_by(|column| (*column.name).cmp(name)).ok()?;
        Some(&self.columns[at])
    }

    pub(crate) fn columns(&self) -> &[LabelColumn] {
        &self.columns
    }

    /// Returns the bytes held in memory when every label set has been built.
    pub fn memory_bytes(&self) -> u64 {
        let text = |column: &LabelColumn| column.values.iter().map(|v| v.len() + 16).sum::<usize>();
        let per_column = |column: &LabelColumn| (text(column) + column.ids.len() * 4 + 64) as u64;
        let columns: u64 = self.columns.iter().map(per_column).sum();
        // A built label set takes two boxes of 16 bytes and about 32 bytes of text per label.
        let built = self.len() as u64 * (64 + self.columns.len() as u64 * 64);
        columns + built + (self.stats.len() * size_of::<SeriesStats>()) as u64
    }

    pub(crate) fn build(streams: &[Arc<Labels>], stats: Vec<SeriesStats>) -> Self {
        let names = streams.iter().flat_map(|s| s.iter()).map(|(name, _)| name);
        let names: HashSet<&str, RandomState> = names.collect();
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        let column = |name: &str| {
            let values: HashSet<&str, RandomState> = streams.iter().filter_map(|s| s.get(name)).collect();
            let mut values: Vec<&str> = values.into_iter().collect();
            values.sort_unstable();
            let ids: HashMap<&str, u32, RandomState> = values.iter().copied().zip(1..).collect();
            let id = |s: &Arc<Labels>| s.get(name).map_or(0, |value| ids[value]);
            let ids = streams.iter().map(id).collect();
            LabelColumn { name: name.into(), values: values.into_iter().map(Box::from).collect(), ids }
        };
        let columns = names.into_iter().map(column).collect();
        let labels = streams.iter().map(|s| OnceLock::from(s.clone())).collect();
        Self { columns, bounds: bounds_of(&stats), stats, labels }
    }

    /// Returns a table of these columns, which are sorted by name and have an id per stream.
    pub(crate) fn of_columns(columns: Vec<LabelColumn>, stats: Vec<SeriesStats>) -> Self {
        let labels = stats.iter().map(|_| OnceLock::new()).collect();
        Self { columns, bounds: bounds_of(&stats), stats, labels }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>, first_ts: i64) {
        put_varint(out, self.len() as u64);
        put_varint(out, self.columns.len() as u64);
        for column in &self.columns {
            put_blob(out, column.name.as_bytes());
            put_varint(out, column.values.len() as u64);
            column.values.iter().for_each(|value| put_blob(out, value.as_bytes()));
            put_packed(out, &column.ids.iter().map(|&id| u64::from(id)).collect::<Vec<_>>());
        }
        let mut column = |value: &dyn Fn(&SeriesStats) -> u64| {
            put_packed(out, &self.stats.iter().map(value).collect::<Vec<_>>());
        };
        // A stream without rows has no times: any value is valid, since the reader checks the number of
        // rows.
        column(&|s| if s.rows == 0 { 0 } else { s.min_ts.wrapping_sub(first_ts) as u64 });
        column(&|s| if s.rows == 0 { 0 } else { s.max_ts.wrapping_sub(s.min_ts) as u64 });
        column(&|s| s.rows);
        column(&|s| s.bytes);
        column(&|s| u64::from(s.levels));
    }

    pub(crate) fn get(reader: &mut Reader<'_>, first_ts: i64) -> Result<Self, Error> {
        // 128 streams take at least two bytes in each of five columns.
        let most = (reader.remaining() * 13).min(u32::MAX as usize - 1);
        let count = reader.count("streams of a block", most)?;
        let names = reader.count("label names of a block", reader.remaining())?;
        let mut columns: Vec<LabelColumn> = Vec::new();
        for _ in 0..names {
            let column = get_column(reader, count)?;
            if columns.last().is_some_and(|before| before.name >= column.name) {
                return Err(reader.malformed("label names are not sorted"));
            }
            columns.push(column);
        }
        let first = get_packed(reader, count, |v| first_ts.wrapping_add(v as i64))?;
        let span = get_packed(reader, count, |v| v as i64)?;
        let rows = get_packed(reader, count, |v| v)?;
        let bytes = get_packed(reader, count, |v| v)?;
        let levels = get_packed(reader, count, |v| v as u16)?;
        let stats = (0..count).map(|n| match rows[n] {
            0 => SeriesStats::default(),
            rows => SeriesStats {
                min_ts: first[n],
                max_ts: first[n].wrapping_add(span[n]),
                rows,
                bytes: bytes[n],
                levels: levels[n],
            },
        });
        Ok(Self::of_columns(columns, stats.collect()))
    }
}

fn get_column(reader: &mut Reader<'_>, streams: usize) -> Result<LabelColumn, Error> {
    let name: Box<str> = reader.text()?.into();
    let count = reader.count("values of a label", reader.remaining().min(streams))?;
    let mut values: Vec<Box<str>> = Vec::with_capacity(count);
    for _ in 0..count {
        let value = reader.text()?;
        if values.last().is_some_and(|before| **before >= *value) {
            return Err(reader.malformed("label values are not sorted"));
        }
        values.push(value.into());
    }
    let ids = get_packed_u32(reader, streams)?;
    if ids.iter().any(|&id| id as usize > count) {
        return Err(reader.malformed("a label id has no value"));
    }
    Ok(LabelColumn { name, values, ids })
}
