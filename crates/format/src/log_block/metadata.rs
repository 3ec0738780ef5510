//! Structured metadata of a page: one column per key, each in the smallest of four forms.
//!
//! Layout: number of columns (LEB128), then per column in order of keys: key (length and text), form
//! (u8), and by form
//! * 0 constant: the value (length and bytes); every row has it;
//! * 1 dictionary: values (count, then length and bytes each), then per row a bit-packed id, 0 = absent;
//! * 2 plain: presence flag (u8), presence bits when flagged, bit-packed lengths of the present values,
//!   the values without separators;
//! * 3 sparse: count, bit-packed gaps between the rows that have a value, then a dictionary with an id
//!   for each of these rows.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use sandur_model::{MetadataColumn, MetadataValues};

use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::reader::Reader;
use crate::codec::varint::{put_blob, put_varint};
use crate::error::Error;
use crate::log_block::limits::{METADATA_CELLS, METADATA_CELLS_MAX, NARROW_BYTES_MAX};
use crate::log_block::runs::Run;

const CONSTANT: u8 = 0;
const DICTIONARY: u8 = 1;
const PLAIN: u8 = 2;
const SPARSE: u8 = 3;

/// Most values of a dictionary: ids have 16 bits and 0 means absent.
const DICTIONARY_MAX: usize = 65_535;

/// A column with present values in fewer than 1/16 of the rows is stored sparse.
const SPARSE_SHARE: usize = 16;

/// Bytes of a decoded column and of a decoded value in addition to their text: two pointers each, the
/// counters of an [`Arc`], rounding of allocations.
const COLUMN_BYTES: usize = 160;
const VALUE_BYTES: usize = 48;

/// Collects the metadata of a page's rows.
#[derive(Default)]
pub(crate) struct MetadataBuilder {
    columns: Vec<Column>,
    by_key: HashMap<Box<[u8]>, usize, RandomState>,
    /// Columns in the order in which the last row named them: the next row usually has the same order.
    order: Vec<usize>,
    bytes: usize,
}

struct Column {
    key: Box<[u8]>,
    rows: Vec<u32>,
    ends: Vec<u32>,
    values: Vec<u8>,
}

impl MetadataBuilder {
    /// Adds a row's pairs. Of equal keys the first counts.
    pub(crate) fn push<'m>(&mut self, row: u32, pairs: impl Iterator<Item = (&'m [u8], &'m [u8])>) {
        for (position, (key, value)) in pairs.enumerate() {
            let at = self.column(position, key);
            let column = &mut self.columns[at];
            if column.rows.last() == Some(&row) {
                continue;
            }
            column.rows.push(row);
            column.values.extend_from_slice(value);
            column.ends.push(column.values.len() as u32);
            self.bytes += value.len() + 8;
        }
    }

    fn column(&mut self, position: usize, key: &[u8]) -> usize {
        if let Some(&at) = self.order.get(position)
            && *self.columns[at].key == *key
        {
            return at;
        }
        let at = match self.by_key.get(key) {
            Some(&at) => at,
            None => self.new_column(key),
        };
        // A row that names a key twice must leave no gap: positions ascend one by one.
        if position == self.order.len() {
            self.order.push(at);
        } else {
            self.order[position] = at;
        }
        at
    }

    fn new_column(&mut self, key: &[u8]) -> usize {
        // Protobuf and JSON clients send UTF-8. Other bytes are replaced so that the key is readable; it
        // may then equal another key.
        let name = readable(key);
        let at = match self.by_key.get(&*name) {
            Some(&at) => at,
            None => {
                let column = Column { key: (*name).into(), rows: vec![], ends: vec![], values: vec![] };
                self.columns.push(column);
                self.columns.len() - 1
            }
        };
        self.by_key.insert((*name).into(), at);
        self.by_key.insert(key.into(), at);
        self.bytes += key.len() * 2 + 64;
        at
    }

    /// Returns the bytes that count toward the size of the page.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Calls `visit` with each key and the streams of the runs that have it.
    pub(crate) fn visit_keys(
        &self,
        runs: &[Run],
        mut visit: impl FnMut(&str, &mut dyn Iterator<Item = u32>),
    ) {
        for column in &self.columns {
            let has = |run: &&Run| {
                let at = column.rows.partition_point(|&row| row < run.start);
                column.rows.get(at).is_some_and(|&row| row < run.end)
            };
            // Keys are kept as UTF-8, so nothing is lost here.
            let key = String::from_utf8_lossy(&column.key);
            visit(&key, &mut runs.iter().filter(has).map(|run| run.stream));
        }
    }

    /// Whether a page of `rows` rows, the last with `pairs` pairs, could take more memory when decoded
    /// than is allowed.
    pub(crate) fn would_overflow(&self, rows: u32, pairs: usize) -> bool {
        (self.columns.len() + pairs) as u64 * u64::from(rows) > METADATA_CELLS
    }

    /// Appends the columns of a page of `rows` rows and starts a new page. Returns the bytes of the
    /// decoded columns.
    pub(crate) fn finish(&mut self, rows: u32, out: &mut Vec<u8>) -> u64 {
        let mut columns = std::mem::take(&mut self.columns);
        self.by_key.clear();
        self.order.clear();
        self.bytes = 0;
        columns.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        put_varint(out, columns.len() as u64);
        let mut memory = 0;
        for column in &columns {
            put_blob(out, &column.key);
            memory += column.put(rows as usize, out) + (column.key.len() + COLUMN_BYTES) as u64;
        }
        memory
    }
}

impl Column {
    fn values(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let value = &self.values[start..end as usize];
            start = end as usize;
            value
        })
    }

    /// Appends the column and returns the bytes of the decoded column.
    fn put(&self, rows: usize, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        let Some((distinct, ids)) = self.dictionary() else {
            self.put_plain(rows, out);
            // The values, an offset and a presence bit per row; the appended bytes exceed those of the
            // values.
            return (out.len() - start + (rows + 1) * 4 + rows.div_ceil(8)) as u64;
        };
        let everywhere = self.rows.len() == rows;
        if everywhere && distinct.len() == 1 {
            out.push(CONSTANT);
            put_blob(out, &readable(distinct[0]));
        } else if self.rows.len() * SPARSE_SHARE < rows {
            out.push(SPARSE);
            put_varint(out, self.rows.len() as u64);
            let mut next = 0;
            let gap = |&row: &u32| u64::from(row - std::mem::replace(&mut next, row + 1));
            put_packed(out, &self.rows.iter().map(gap).collect::<Vec<_>>());
            put_dictionary(out, &distinct, &ids);
        } else {
            out.push(DICTIONARY);
            let mut dense = vec![0; rows];
            self.rows.iter().zip(&ids).for_each(|(&row, &id)| dense[row as usize] = id);
            put_dictionary(out, &distinct, &dense);
        }
        (out.len() - start + distinct.len() * VALUE_BYTES + rows * 2) as u64
    }

    /// Returns the distinct values, and for each present value one more than the index of its distinct
    /// value. `None` when there are too many distinct values or few repetitions.
    fn dictionary(&self) -> Option<(Vec<&[u8]>, Vec<u64>)> {
        let most = DICTIONARY_MAX.min(self.rows.len() / 2 + 16);
        let mut ids: HashMap<&[u8], u64, RandomState> = HashMap::default();
        let mut distinct = Vec::new();
        let mut all = Vec::with_capacity(self.rows.len());
        for value in self.values() {
            let id = *ids.entry(value).or_insert_with(|| {
                distinct.push(value);
                distinct.len() as u64
            });
            if distinct.len() > most {
                return None;
            }
            all.push(id);
        }
        Some((distinct, all))
    }

    /// Whether every value is UTF-8.
    fn is_text(&self) -> bool {
        let text = std::str::from_utf8(&self.values);
        text.is_ok_and(|text| self.ends.iter().all(|&end| text.is_char_boundary(end as usize)))
    }

    fn put_plain(&self, rows: usize, out: &mut Vec<u8>) {
        out.push(PLAIN);
        let everywhere = self.rows.len() == rows;
        out.push(u8::from(!everywhere));
        if !everywhere {
            let mut present = vec![0u8; rows.div_ceil(8)];
            self.rows.iter().for_each(|&row| present[row as usize / 8] |= 1 << (row % 8));
            out.extend_from_slice(&present);
        }
        if self.is_text() {
            let lengths: Vec<u64> = self.values().map(|v| v.len() as u64).collect();
            put_packed(out, &lengths);
            out.extend_from_slice(&self.values);
            return;
        }
        let readable: Vec<_> = self.values().map(readable).collect();
        put_packed(out, &readable.iter().map(|v| v.len() as u64).collect::<Vec<_>>());
        readable.iter().for_each(|v| out.extend_from_slice(v));
    }
}

fn readable(value: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(value) {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

fn put_dictionary(out: &mut Vec<u8>, values: &[&[u8]], ids: &[u64]) {
    put_varint(out, values.len() as u64);
    for value in values {
        put_blob(out, &readable(value));
    }
    put_packed(out, ids);
}

/// Reads the columns of a page of `rows` rows.
pub(crate) fn get_metadata(bytes: &Bytes, rows: usize, offset: u64) -> Result<Vec<MetadataColumn>, Error> {
    let mut reader = Reader::new(super::limits::PART_NARROW, offset, bytes);
    let most = (METADATA_CELLS_MAX / rows.max(1) as u64) as usize;
    let count = reader.count("metadata keys of a page", most)?;
    let mut columns: Vec<MetadataColumn> = Vec::with_capacity(count.min(reader.remaining()));
    for _ in 0..count {
        let name: Arc<str> = reader.text()?.into();
        if columns.last().is_some_and(|before| *before.name >= *name) {
            return Err(reader.malformed("metadata keys are not sorted"));
        }
        let values = get_values(&mut reader, bytes, rows)?;
        columns.push(MetadataColumn { name, values });
    }
    reader.finish()?;
    Ok(columns)
}

fn get_values(reader: &mut Reader<'_>, bytes: &Bytes, rows: usize) -> Result<MetadataValues, Error> {
    match reader.u8()? {
        CONSTANT => Ok(MetadataValues::Constant(reader.text()?.into())),
        DICTIONARY => {
            let (values, ids) = get_dictionary(reader, rows)?;
            Ok(MetadataValues::Dictionary { ids, values })
        }
        SPARSE => get_sparse(reader, rows),
        PLAIN => get_plain(reader, bytes, rows),
        codec => {
            let (part, offset) = (reader.part(), reader.offset());
            Err(Error::UnknownCodec { part, offset, codec })
        }
    }
}

fn get_dictionary(reader: &mut Reader<'_>, ids: usize) -> Result<(Vec<Arc<str>>, Vec<u16>), Error> {
    let most = DICTIONARY_MAX.min(reader.remaining());
    let count = reader.count("values of a metadata dictionary", most)?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(reader.text()?.into());
    }
    let mut highest = 0;
    let ids = get_packed_u32(reader, ids)?;
    let narrow = |id: u32| {
        highest = highest.max(id);
        id as u16
    };
    let ids = ids.into_iter().map(narrow).collect();
    if highest as usize > count {
        return Err(reader.malformed("a metadata id has no value"));
    }
    Ok((values, ids))
}

fn get_sparse(reader: &mut Reader<'_>, rows: usize) -> Result<MetadataValues, Error> {
    let count = reader.count("rows of a sparse metadata column", rows)?;
    let gaps = get_packed(reader, count, |gap| gap)?;
    let (values, present) = get_dictionary(reader, count)?;
    let mut ids = vec![0u16; rows];
    let mut next = 0u64;
    for (gap, id) in gaps.into_iter().zip(present) {
        let row = next.checked_add(gap).filter(|&row| row < rows as u64);
        let row = row.ok_or_else(|| reader.malformed("a metadata value lies outside of the page"))?;
        ids[row as usize] = id;
        next = row + 1;
    }
    Ok(MetadataValues::Dictionary { ids, values })
}

fn get_plain(reader: &mut Reader<'_>, bytes: &Bytes, rows: usize) -> Result<MetadataValues, Error> {
    let present = match reader.u8()? {
        0 => None,
        1 => Some(reader.bytes(rows.div_ceil(8))?.to_vec()),
        _ => return Err(reader.malformed("an unknown presence flag")),
    };
    let has = |row: usize| present.as_ref().is_none_or(|p| p[row / 8] >> (row % 8) & 1 == 1);
    let count = (0..rows).filter(|&row| has(row)).count();
    let mut lengths = get_packed_u32(reader, count)?.into_iter();
    let mut starts = Vec::with_capacity(rows + 1);
    let mut at = 0u64;
    for row in 0..rows {
        starts.push(at as u32);
        if has(row) {
            at += u64::from(lengths.next().unwrap_or(0));
        }
        if at > NARROW_BYTES_MAX as u64 {
            return Err(reader.malformed("metadata values are longer than a page allows"));
        }
    }
    starts.push(at as u32);
    let from = reader.position();
    let text = reader.bytes(at as usize)?;
    let text = std::str::from_utf8(text).map_err(|_| reader.malformed("a metadata value is not UTF-8"))?;
    if starts.iter().any(|&start| !text.is_char_boundary(start as usize)) {
        return Err(reader.malformed("a metadata value is not UTF-8"));
    }
    let bytes = bytes.slice(from..from + at as usize);
    Ok(MetadataValues::Plain { bytes, starts, present })
}
