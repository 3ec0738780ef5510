//! A page: up to a few MiB of log rows of one tenant, in columns, as queries read them.
//!
//! Rows are grouped in runs. A run is a range of consecutive rows of one stream, sorted by time. Only
//! rows in a run are part of the page: a source narrows the runs to the requested streams and times.

use std::sync::Arc;

use bytes::Bytes;

use crate::labels::Labels;
use crate::level::Level;

/// Rows `[start, end)` of one stream, sorted by timestamp, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRun {
    /// The stream's labels.
    pub labels: Arc<Labels>,
    /// The first row.
    pub start: u32,
    /// The row after the last one.
    pub end: u32,
    /// Rows of this run that may have a duplicate elsewhere; see [`Suspect`].
    pub suspect: Option<Suspect>,
}

/// Rows with `first <= timestamp <= last` may also appear in another page of the same scan. The reader
/// drops rows that equal an earlier row in stream, timestamp, line and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// First timestamp that may have duplicates.
    pub first: i64,
    /// Last timestamp that may have duplicates.
    pub last: i64,
}

/// The lines of a page, each followed by one separator byte (`\n`).
///
/// A match of a search over `bytes` spans two lines only if the needle contains `\n`. Lines may contain
/// `\n` themselves, so only `ends` determines the boundaries.
#[derive(Clone, Debug, Default)]
pub struct LineColumn {
    /// Lines and separators.
    pub bytes: Bytes,
    /// For each row, the offset after its line, which is the offset of its separator.
    pub ends: Vec<u32>,
}

impl LineColumn {
    /// Offset of the first byte of a row's line.
    pub fn start(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.ends[row - 1] as usize + 1 }
    }

    /// The bytes of a row's line.
    pub fn line(&self, row: usize) -> &[u8] {
        &self.bytes[self.start(row)..self.ends[row] as usize]
    }

    /// The row whose line or separator contains the byte at `offset`.
    pub fn row_at(&self, offset: usize) -> usize {
        self.ends.partition_point(|&end| (end as usize) < offset)
    }
}

/// One structured-metadata key with its values in the rows of a page.
#[derive(Clone, Debug)]
pub struct MetadataColumn {
    /// The key.
    pub name: Arc<str>,
    /// Its values.
    pub values: MetadataValues,
}

/// Values of one metadata key; an absent value differs from an empty one.
#[derive(Clone, Debug)]
pub enum MetadataValues {
    /// The same value in every row.
    Constant(Arc<str>),
    /// `ids[row]` is 0 for absent, else one more than the position in `values`.
    Dictionary {
        /// The id of each row.
        ids: Vec<u16>,
        /// The distinct values.
        values: Vec<Arc<str>>,
    },
    /// Concatenated values; row `r` is `bytes[starts[r]..starts[r + 1]]` and absent where the bit is 0.
    Plain {
        /// Concatenated values (UTF-8).
        bytes: Bytes,
        /// Offsets into `bytes`, one more than there are rows.
        starts: Vec<u32>,
        /// One bit per row (little endian in each byte); `None` when all rows have a value.
        present: Option<Vec<u8>>,
    },
}

impl MetadataColumn {
    /// The value of the key in a row.
    pub fn get(&self, row: usize) -> Option<&str> {
        match &self.values {
            MetadataValues::Constant(value) => Some(value),
            MetadataValues::Dictionary { ids, values } => {
                let id = usize::from(ids[row]);
                (id > 0).then(|| &*values[id - 1])
            }
            MetadataValues::Plain { bytes, starts, present } => {
                if present.as_ref().is_some_and(|p| p[row / 8] >> (row % 8) & 1 == 0) {
                    return None;
                }
                std::str::from_utf8(&bytes[starts[row] as usize..starts[row + 1] as usize]).ok()
            }
        }
    }
}

/// Columns of log rows.
#[derive(Clone, Debug, Default)]
pub struct LogPage {
    /// Which rows are present, grouped by stream.
    pub runs: Vec<StreamRun>,
    /// Nanoseconds since the epoch, per row.
    pub timestamps: Vec<i64>,
    /// Detected level per row; empty when no row has one.
    pub levels: Vec<Level>,
    /// Structured metadata by key, sorted by key. Contains `detected_level` only if clients sent it.
    pub metadata: Vec<MetadataColumn>,
    /// The lines; `None` when they were not requested.
    pub lines: Option<LineColumn>,
}

impl LogPage {
    /// The detected level of a row.
    pub fn level(&self, row: usize) -> Level {
        self.levels.get(row).copied().unwrap_or(Level::None)
    }

    /// The structured metadata that a row has, sorted by key, and then its detected level.
    pub fn metadata_of(&self, row: usize) -> impl Iterator<Item = (&str, &str)> {
        let level = self.level(row);
        let detected = (level != Level::None).then(|| (Self::DETECTED_LEVEL, level.as_str()));
        let columns = self.metadata.iter();
        columns.filter_map(move |c| Some((&*c.name, c.get(row)?))).chain(detected)
    }

    /// Name of the structured-metadata key that contains the level.
    pub const DETECTED_LEVEL: &'static str = "detected_level";

    /// The number of rows in the runs.
    pub fn rows(&self) -> usize {
        self.runs.iter().map(|r| (r.end - r.start) as usize).sum()
    }

    /// Bytes of decoded structured metadata, including keys and levels, for statistics.
    pub fn metadata_bytes(&self) -> u64 {
        let columns = self.metadata.iter().map(|c| c.name.len() + c.memory_bytes());
        (columns.sum::<usize>() + self.levels.len()) as u64
    }

    /// Bytes of memory that the page uses, for budgets.
    pub fn memory_bytes(&self) -> u64 {
        let metadata: usize = self.metadata.iter().map(MetadataColumn::memory_bytes).sum();
        let lines = self.lines.as_ref().map_or(0, |l| l.bytes.len() + l.ends.len() * 4);
        (self.timestamps.len() * 8 + self.levels.len() + metadata + lines) as u64
    }
}

impl MetadataColumn {
    fn memory_bytes(&self) -> usize {
        match &self.values {
            MetadataValues::Constant(value) => value.len(),
            MetadataValues::Dictionary { ids, values } => {
                ids.len() * 2 + values.iter().map(|v| v.len() + 16).sum::<usize>()
            }
            MetadataValues::Plain { bytes, starts, .. } => bytes.len() + starts.len() * 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_row_and_by_offset() {
        let column = LineColumn { bytes: Bytes::from_static(b"ab\n\ncd\n"), ends: vec![2, 3, 6] };
        let lines: Vec<&[u8]> = (0..3).map(|r| column.line(r)).collect();
        assert_eq!(lines, [b"ab".as_slice(), b"", b"cd"]);
        let rows: Vec<usize> = (0..7).map(|o| column.row_at(o)).collect();
        assert_eq!(rows, [0, 0, 0, 1, 2, 2, 2]);
    }

    #[test]
    fn absent_metadata_differs_from_empty() {
        let plain = MetadataValues::Plain {
            bytes: Bytes::from_static(b"xy"),
            starts: vec![0, 0, 0, 2],
            present: Some(vec![0b110]),
        };
        let column = MetadataColumn { name: "k".into(), values: plain };
        assert_eq!([column.get(0), column.get(1), column.get(2)], [None, Some(""), Some("xy")]);
    }
}
