//! The line column of a page: codec id, flags, length of the text, and the encoded text.
//!
//! The text is every line followed by one `\n`. If no line holds a `\n` itself, the line ends are found
//! by searching for it and nothing else is stored; otherwise the lengths are stored before the text. Line
//! codecs are added only here.
//!
//! Lines with structure are stored as shapes and slots if that is smaller. Lines often repeat the rows'
//! timestamps, which are then needed to decode them.
//!
//! Layout: codec (u8), flags (u8, bit 0: lengths follow), text length (LEB128), lengths as bit-packed
//! blocks when flagged, the encoded text.

use bytes::Bytes;
use sandur_model::LineColumn;

use crate::codec::reader::Reader;
use crate::codec::varint::put_varint;
use crate::codec::{bitpack, compress};
use crate::error::Error;
use crate::log_block::limits::{PART_LINES, TEXT_BYTES_MAX};
use crate::shapes::{self, ShapeScratch, ShapedLines};

/// Codec id of stored (uncompressed) text.
pub const STORED: u8 = compress::STORED;
/// Codec id of text as one zstd frame.
pub const ZSTD: u8 = compress::ZSTD;
/// Codec id of text as shapes and slots; see [`crate::shapes`]. Decoding requires the timestamps of the
/// rows.
pub const SHAPES: u8 = 2;

const HAS_LENGTHS: u8 = 1;

/// The lines of a page before encoding.
pub(crate) struct Lines<'a> {
    /// Every line followed by `\n`.
    pub(crate) text: &'a [u8],
    /// The end of each line in `text`, before its separator.
    pub(crate) ends: &'a [u32],
    /// Timestamps of the rows.
    pub(crate) timestamps: &'a [i64],
}

/// Appends the column in the codec that suits its lines, and returns the codec.
pub(crate) fn put_lines(
    out: &mut Vec<u8>,
    lines: &Lines<'_>,
    scratch: &mut ShapeScratch,
    zstd_level: i32,
) -> u8 {
    let Lines { text, ends, timestamps } = *lines;
    let start = out.len();
    out.extend_from_slice(&[SHAPES, 0]);
    put_varint(out, text.len() as u64);
    if shapes::encode(text, ends, timestamps, scratch, out) {
        return SHAPES;
    }
    out.truncate(start);
    let unambiguous = memchr::memchr_iter(b'\n', text).count() == ends.len();
    out.push(ZSTD);
    out.push(if unambiguous { 0 } else { HAS_LENGTHS });
    put_varint(out, text.len() as u64);
    if !unambiguous {
        let mut begin = 0;
        let lengths: Vec<u64> =
            ends.iter().map(|&end| u64::from(end - std::mem::replace(&mut begin, end + 1))).collect();
        bitpack::put_packed(out, &lengths);
    }
    out[start] = compress::put_smaller(out, text, zstd_level);
    out[start]
}

/// The bounds of a column in the block's page directory. A column that exceeds them is refused before
/// memory is reserved.
#[derive(Clone, Copy)]
pub(crate) struct LinesEntry {
    /// Offset of the column in the object.
    pub(crate) offset: u64,
    /// Number of lines.
    pub(crate) rows: u32,
    /// Most bytes of its text, including separators.
    pub(crate) text_bytes: u64,
}

impl LinesEntry {
    fn text_length(self, reader: &mut Reader<'_>) -> Result<usize, Error> {
        reader.count("text bytes of a page", self.text_bytes.min(u64::from(TEXT_BYTES_MAX)) as usize)
    }
}

/// Opens a column for reading parts of it; `None` when its codec has no parts. The caller has verified
/// the checksum.
pub(crate) fn open_lines(bytes: &Bytes, entry: LinesEntry) -> Result<Option<ShapedLines>, Error> {
    let mut reader = Reader::new(PART_LINES, entry.offset, bytes);
    if reader.u8()? != SHAPES {
        return Ok(None);
    }
    if reader.u8()? != 0 {
        return Err(reader.malformed("shapes have no flags"));
    }
    let length = entry.text_length(&mut reader)?;
    ShapedLines::open(&bytes.slice(reader.position()..), entry.rows as usize, length).map(Some)
}

/// Decodes a column. The caller has verified the checksum.
pub(crate) fn get_lines(bytes: &Bytes, timestamps: &[i64], entry: LinesEntry) -> Result<LineColumn, Error> {
    let mut reader = Reader::new(PART_LINES, entry.offset, bytes);
    let codec = reader.u8()?;
    let flags = reader.u8()?;
    let length = entry.text_length(&mut reader)?;
    if flags & !HAS_LENGTHS != 0 {
        return Err(reader.malformed("an unknown flag is set"));
    }
    let rows = entry.rows as usize;
    let stored_ends = match flags & HAS_LENGTHS {
        0 => None,
        _ => Some(ends_of(&mut reader, rows, length)?),
    };
    let at = reader.position();
    if codec == SHAPES {
        let column = ShapedLines::open(&bytes.slice(at..), timestamps.len(), length)?.lines(timestamps)?;
        return if column.ends.len() == rows {
            Ok(column)
        } else {
            Err(reader.malformed("there are not as many lines as rows"))
        };
    }
    let text = match codec {
        STORED => bytes.slice(at..),
        ZSTD => Bytes::from(compress::get_zstd(&bytes[at..], length, PART_LINES, reader.offset())?),
        codec => return Err(Error::UnknownCodec { part: PART_LINES, offset: entry.offset, codec }),
    };
    if text.len() != length {
        return Err(reader.malformed("the text's length differs from the stored one"));
    }
    let ends = match stored_ends {
        Some(ends) => ends,
        None => {
            found_ends(&text, rows).ok_or_else(|| reader.malformed("there are not as many lines as rows"))?
        }
    };
    Ok(LineColumn { bytes: text, ends })
}

fn ends_of(reader: &mut Reader<'_>, rows: usize, text_length: usize) -> Result<Vec<u32>, Error> {
    let mut ends = bitpack::get_packed_u32(reader, rows)?;
    let mut begin = 0u64;
    for end in &mut ends {
        let stop = begin + u64::from(*end);
        if stop >= text_length as u64 {
            return Err(reader.malformed("a line ends outside of the text"));
        }
        *end = stop as u32;
        begin = stop + 1;
    }
    if begin != text_length as u64 {
        return Err(reader.malformed("the lines do not fill the text"));
    }
    Ok(ends)
}

/// Returns the positions of the separators, if there are exactly `rows` and the last byte is one.
fn found_ends(text: &[u8], rows: usize) -> Option<Vec<u32>> {
    // Every row has a separator, so a count above the text's length is invalid and reserves no memory.
    let mut ends = Vec::with_capacity(rows.min(text.len()));
    for at in memchr::memchr_iter(b'\n', text) {
        if ends.len() == rows {
            return None;
        }
        ends.push(at as u32);
    }
    let whole = ends.last().map_or(text.is_empty(), |&end| end as usize + 1 == text.len());
    (whole && ends.len() == rows).then_some(ends)
}
