//! The columns of a page other than its lines: runs of streams, timestamps, levels, structured metadata.
//!
//! Layout: rows and runs (LEB128), number of parts (u8), per part kind (u8), codec (u8), stored length
//! and plain length (LEB128), then the parts. Parts can be read separately: counting reads no metadata.

use std::ops::Range;

use bytes::Bytes;
use sandur_model::{Level, MetadataColumn};

use crate::codec::reader::Reader;
use crate::codec::varint::put_varint;
use crate::codec::{compress, timestamps};
use crate::error::Error;
use crate::log_block::limits::{NARROW_BYTES_MAX, PART_NARROW, ROWS_MAX};
use crate::log_block::metadata;
use crate::log_block::runs::{Run, get_runs, put_runs};

const RUNS: u8 = 1;
const TIMESTAMPS: u8 = 2;
const LEVELS: u8 = 3;
const METADATA: u8 = 4;

/// The columns of a page that a reader needs in addition to runs and timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Levels and structured metadata.
    pub metadata: bool,
}

/// The decoded narrow columns of a page.
#[derive(Clone, Debug, Default)]
pub struct NarrowPage {
    /// Runs by ascending stream ordinal; together they cover every row.
    pub runs: Vec<Run>,
    /// Nanoseconds since the epoch, per row.
    pub timestamps: Vec<i64>,
    /// Level per row; empty when no row has one or they were not requested.
    pub levels: Vec<Level>,
    /// Structured metadata by key; empty when it was not requested.
    pub metadata: Vec<MetadataColumn>,
}

impl NarrowPage {
    /// Returns the number of rows of the page.
    pub fn rows(&self) -> usize {
        self.timestamps.len()
    }

    /// Returns the level of a row.
    pub fn level(&self, row: usize) -> Level {
        self.levels.get(row).copied().unwrap_or(Level::None)
    }

    /// Returns the structured metadata of a row as bytes, in order of keys.
    pub fn metadata_of(&self, row: usize) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let columns = self.metadata.iter();
        columns.filter_map(move |c| Some((c.name.as_bytes(), c.get(row)?.as_bytes())))
    }
}

/// The columns of a page before encoding.
pub(crate) struct NarrowColumns<'a> {
    pub(crate) runs: &'a [Run],
    pub(crate) timestamps: &'a [i64],
    pub(crate) levels: &'a [Level],
    /// Encoded by [`metadata`]; empty when no row has any.
    pub(crate) metadata: &'a [u8],
}

/// Appends the narrow columns of a page.
pub(crate) fn put_narrow(out: &mut Vec<u8>, columns: &NarrowColumns<'_>, zstd_level: i32) {
    let mut parts = Parts { kinds: Vec::new(), bytes: Vec::new(), zstd_level };
    let mut plain = Vec::new();
    put_runs(&mut plain, columns.runs);
    parts.add(RUNS, &plain, true);
    plain.clear();
    let ends: Vec<u32> = columns.runs.iter().map(|run| run.end).collect();
    timestamps::put_timestamps(&mut plain, &ends, columns.timestamps);
    parts.add(TIMESTAMPS, &plain, false);
    if columns.levels.iter().any(|level| *level != Level::None) {
        plain.clear();
        put_levels(&mut plain, columns.levels);
        parts.add(LEVELS, &plain, true);
    }
    if !columns.metadata.is_empty() {
        parts.add(METADATA, columns.metadata, true);
    }
    parts.put(out, columns.timestamps.len(), columns.runs.len());
}

struct Parts {
    kinds: Vec<(u8, u8, usize, usize)>,
    bytes: Vec<u8>,
    zstd_level: i32,
}

impl Parts {
    fn add(&mut self, kind: u8, plain: &[u8], compressible: bool) {
        let start = self.bytes.len();
        let codec = if compressible {
            compress::put_smaller(&mut self.bytes, plain, self.zstd_level)
        } else {
            self.bytes.extend_from_slice(plain);
            compress::STORED
        };
        self.kinds.push((kind, codec, self.bytes.len() - start, plain.len()));
    }

    fn put(&self, out: &mut Vec<u8>, rows: usize, runs: usize) {
        put_varint(out, rows as u64);
        put_varint(out, runs as u64);
        out.push(self.kinds.len() as u8);
        for &(kind, codec, stored, plain) in &self.kinds {
            out.extend_from_slice(&[kind, codec]);
            put_varint(out, stored as u64);
            put_varint(out, plain as u64);
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// Encodes levels as (level, count) pairs, or in four bits each when they change often.
fn put_levels(out: &mut Vec<u8>, levels: &[Level]) {
    let mut repeated = vec![0];
    for run in levels.chunk_by(|a, b| a == b) {
        repeated.push(run[0] as u8);
        put_varint(&mut repeated, run.len() as u64);
    }
    if repeated.len() <= levels.len() / 2 + 1 {
        out.extend_from_slice(&repeated);
        return;
    }
    out.push(1);
    out.extend(levels.chunks(2).map(|pair| pair[0] as u8 | pair.get(1).map_or(0, |l| (*l as u8) << 4)));
}

fn get_levels(reader: &mut Reader<'_>, rows: usize) -> Result<Vec<Level>, Error> {
    let mut levels = Vec::with_capacity(rows);
    let level = |reader: &Reader<'_>, number: u8| {
        Level::from_number(number).ok_or_else(|| reader.malformed("a level has an unknown number"))
    };
    match reader.u8()? {
        0 => {
            while levels.len() < rows {
                let number = reader.u8()?;
                let level = level(reader, number)?;
                let count = reader.count("rows of a level", rows - levels.len())?;
                if count == 0 {
                    return Err(reader.malformed("a level has no rows"));
                }
                levels.resize(levels.len() + count, level);
            }
        }
        1 => {
            for byte in reader.bytes(rows.div_ceil(2))? {
                levels.push(level(reader, byte & 15)?);
                if levels.len() < rows {
                    levels.push(level(reader, byte >> 4)?);
                }
            }
        }
        _ => return Err(reader.malformed("an unknown form of levels")),
    }
    Ok(levels)
}

/// Returns the narrow columns in `bytes` with other runs of the same lengths, to move a page to a block
/// with other stream ordinals. All parts but the runs are copied unchanged.
pub(crate) fn with_runs(bytes: &Bytes, runs: &[Run], offset: u64, zstd_level: i32) -> Result<Vec<u8>, Error> {
    let head = Head::get(bytes, offset)?;
    let mut parts = Parts { kinds: Vec::new(), bytes: Vec::new(), zstd_level };
    for part in &head.parts {
        if part.kind == RUNS {
            let mut plain = Vec::new();
            put_runs(&mut plain, runs);
            parts.add(RUNS, &plain, true);
        } else {
            parts.bytes.extend_from_slice(&bytes[part.range.clone()]);
            parts.kinds.push((part.kind, part.codec, part.range.len(), part.plain));
        }
    }
    let mut out = Vec::with_capacity(bytes.len() + 64);
    parts.put(&mut out, head.rows, runs.len());
    Ok(out)
}

/// The directory of a page's parts.
struct Head {
    rows: usize,
    runs: usize,
    parts: Vec<Part>,
}

struct Part {
    kind: u8,
    codec: u8,
    range: Range<usize>,
    plain: usize,
}

impl Head {
    fn get(bytes: &Bytes, offset: u64) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_NARROW, offset, bytes);
        let rows = reader.count("rows of a page", ROWS_MAX as usize)?;
        let runs = reader.count("runs of a page", rows)?;
        let count = reader.u8()?;
        let mut parts = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let (kind, codec) = (reader.u8()?, reader.u8()?);
            let stored = reader.count("bytes of a part", bytes.len())?;
            let plain = reader.count("plain bytes of a part", NARROW_BYTES_MAX)?;
            parts.push(Part { kind, codec, range: 0..stored, plain });
        }
        for part in &mut parts {
            let at = reader.position();
            reader.bytes(part.range.len())?;
            part.range = at..reader.position();
        }
        reader.finish()?;
        Ok(Self { rows, runs, parts })
    }

    fn malformed(offset: u64, what: &'static str) -> Error {
        Error::Malformed { part: PART_NARROW, offset, what }
    }
}

impl Part {
    fn plain(&self, bytes: &Bytes, offset: u64) -> Result<Bytes, Error> {
        let stored = bytes.slice(self.range.clone());
        match self.codec {
            compress::STORED => Ok(stored),
            compress::ZSTD => compress::get_zstd(&stored, self.plain, PART_NARROW, offset).map(Bytes::from),
            codec => Err(Error::UnknownCodec { part: PART_NARROW, offset, codec }),
        }
    }
}

/// Decodes the narrow columns at `offset` of their object, which must have `rows` rows. The caller has
/// verified the checksum.
pub(crate) fn get_narrow(bytes: &Bytes, rows: u32, offset: u64, wanted: Wanted) -> Result<NarrowPage, Error> {
    let head = Head::get(bytes, offset)?;
    if head.rows != rows as usize {
        return Err(Head::malformed(offset, "the page's number of rows differs from its directory entry"));
    }
    let mut page = NarrowPage::default();
    for part in &head.parts {
        if !wanted.metadata && matches!(part.kind, LEVELS | METADATA) {
            continue;
        }
        let offset = offset + part.range.start as u64;
        let plain = part.plain(bytes, offset)?;
        let mut reader = Reader::new(PART_NARROW, offset, &plain);
        match part.kind {
            RUNS => page.runs = get_runs(&mut reader, head.runs, rows)?,
            TIMESTAMPS => {
                let ends: Vec<u32> = page.runs.iter().map(|run| run.end).collect();
                page.timestamps = timestamps::get_timestamps(&mut reader, &ends)?;
            }
            LEVELS => page.levels = get_levels(&mut reader, head.rows)?,
            METADATA => {
                page.metadata = metadata::get_metadata(&plain, head.rows, offset)?;
                reader.rest();
            }
            codec => return Err(Error::UnknownCodec { part: PART_NARROW, offset, codec }),
        }
        reader.finish()?;
    }
    if page.timestamps.len() != head.rows {
        return Err(Head::malformed(offset, "there are no timestamps"));
    }
    Ok(page)
}
