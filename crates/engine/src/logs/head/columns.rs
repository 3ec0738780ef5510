//! Builds the columns of a page from rows of batches.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use sandur_model::{Labels, Level, LineColumn, LogPage, MetadataColumn, MetadataValues, StreamRun};

use super::stream::Row;

/// The most distinct values of a metadata column with a dictionary.
const DICTIONARY_MAX: usize = 1024;

/// A page of these rows with all columns. Each group has the rows of one stream by ascending time.
pub(crate) fn page_of_rows(groups: &[(Arc<Labels>, Vec<Row<'_>>)]) -> LogPage {
    let rows: Vec<Row<'_>> = groups.iter().flat_map(|(_, rows)| rows.iter().copied()).collect();
    let mut runs = Vec::with_capacity(groups.len());
    let mut start = 0;
    for (labels, rows) in groups {
        let end = start + rows.len() as u32;
        runs.push(StreamRun { labels: Arc::clone(labels), start, end, suspect: None });
        start = end;
    }
    LogPage {
        runs,
        timestamps: rows.iter().map(|row| row.entry.timestamp).collect(),
        levels: levels(rows.iter().copied()),
        metadata: metadata(rows.iter().copied()),
        lines: Some(lines(rows.iter().copied())),
    }
}

/// The level column: empty when no row has a level.
pub(super) fn levels<'a>(rows: impl Iterator<Item = Row<'a>>) -> Vec<Level> {
    let levels: Vec<Level> = rows.map(|row| row.entry.level).collect();
    if levels.iter().all(|level| *level == Level::None) { Vec::new() } else { levels }
}

/// The line column: each line and a separator.
pub(super) fn lines<'a>(rows: impl Iterator<Item = Row<'a>> + Clone) -> LineColumn {
    let (count, size) =
        rows.clone().fold((0, 0), |(count, size), row| (count + 1, size + row.line().len() + 1));
    let (mut bytes, mut ends) = (Vec::with_capacity(size), Vec::with_capacity(count));
    for row in rows {
        bytes.extend_from_slice(row.line());
        ends.push(bytes.len() as u32);
        bytes.push(b'\n');
    }
    LineColumn { bytes: Bytes::from(bytes), ends }
}

/// One key's values while the rows are read: row numbers and values, by ascending row.
struct Cells<'a> {
    name: &'a [u8],
    cells: Vec<(u32, &'a [u8])>,
}

/// The metadata columns, sorted by key. If an entry has a key twice, the first value counts.
pub(super) fn metadata<'a>(rows: impl Iterator<Item = Row<'a>>) -> Vec<MetadataColumn> {
    let mut columns: Vec<Cells<'a>> = Vec::new();
    let mut by_name: HashMap<&'a [u8], usize, RandomState> = HashMap::default();
    let mut count = 0;
    for row in rows {
        for (position, (name, value)) in row.metadata().enumerate() {
            // Consecutive rows usually have the same keys in the same order.
            let guess = columns.get(position).is_some_and(|column| column.name == name);
            let at = if guess {
                position
            } else {
                *by_name.entry(name).or_insert_with(|| {
                    columns.push(Cells { name, cells: Vec::new() });
                    columns.len() - 1
                })
            };
            let cells = &mut columns[at].cells;
            if cells.last().is_none_or(|last| last.0 != count) {
                cells.push((count, value));
            }
        }
        count += 1;
    }
    columns.sort_unstable_by_key(|column| column.name);
    columns.into_iter().map(|column| column.encode(count)).collect()
}

impl Cells<'_> {
    fn encode(self, rows: u32) -> MetadataColumn {
        let name = String::from_utf8_lossy(self.name).into();
        let values = self.dictionary(rows).unwrap_or_else(|| self.plain(rows));
        MetadataColumn { name, values }
    }

    fn dictionary(&self, rows: u32) -> Option<MetadataValues> {
        let mut by_value: HashMap<&[u8], u16, RandomState> = HashMap::default();
        let mut values: Vec<Arc<str>> = Vec::new();
        let mut ids = vec![0; rows as usize];
        for (row, value) in &self.cells {
            let id = match by_value.get(value) {
                Some(id) => *id,
                None if values.len() == DICTIONARY_MAX => return None,
                None => {
                    values.push(String::from_utf8_lossy(value).into());
                    by_value.insert(value, values.len() as u16);
                    values.len() as u16
                }
            };
            ids[*row as usize] = id;
        }
        if values.len() == 1 && self.cells.len() == rows as usize {
            return values.pop().map(MetadataValues::Constant);
        }
        Some(MetadataValues::Dictionary { ids, values })
    }

    fn plain(&self, rows: u32) -> MetadataValues {
        let mut bytes = Vec::with_capacity(self.cells.iter().map(|(_, value)| value.len()).sum());
        let mut starts = Vec::with_capacity(rows as usize + 1);
        let mut present = vec![0u8; (rows as usize).div_ceil(8)];
        for (row, value) in &self.cells {
            starts.resize(*row as usize + 1, bytes.len() as u32);
            bytes.extend_from_slice(value);
            present[*row as usize / 8] |= 1 << (row % 8);
        }
        starts.resize(rows as usize + 1, bytes.len() as u32);
        let present = (self.cells.len() < rows as usize).then_some(present);
        MetadataValues::Plain { bytes: Bytes::from(bytes), starts, present }
    }
}
