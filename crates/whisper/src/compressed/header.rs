//! The header of a compressed file: the file's fields, its archives, and per archive the index of its
//! blocks and its buffer.

use super::{Blocks, Compressed, Range, checksum_of};
use crate::archive::Archive;
use crate::classic::read;
use crate::error::Error;
use crate::field::{f32_at, u32_at};
use crate::form::Form;
use crate::header::Header;
use crate::method::Method;
use crate::point::Point;
use crate::reading::Checks;
use crate::source::ReadAt;

const MAGIC: &[u8] = b"whisper_compressed";
/// Bytes before the archives: the magic, a version, seven fields and reserved space.
const METADATA_BYTES: usize = MAGIC.len() + 1 + 28 + 16;
/// Bytes of the description of an archive.
const ARCHIVE_BYTES: usize = 128;
/// Bytes of an entry of the index.
const RANGE_BYTES: usize = 16;
/// Offset of the file's fields.
const FIELDS_AT: usize = MAGIC.len() + 1;
/// Offset of the header's checksum.
const CHECKSUM_AT: usize = FIELDS_AT + 24;
/// The version of the format that has buffers.
const BUFFERED: u8 = 1;
/// Number of intervals of the coarser archive whose points a buffer holds.
const BUFFERED_INTERVALS: u64 = 2;
/// The largest number of archives of a file. With `mix` there is one per method and coarser step.
const ARCHIVES_MAX: u32 = 1_024;
/// The largest header in bytes; that of ten years of seconds has less than a megabyte.
pub(crate) const HEADER_BYTES_MAX: u64 = 16 << 20;
/// The largest block in bytes: a million points that cannot be compressed.
const BLOCK_BYTES_MAX: u32 = 16 << 20;

/// Returns whether the file is compressed.
pub(crate) fn is_so(source: &impl ReadAt, size: u64) -> Result<bool, Error> {
    let mut start = [0; MAGIC.len()];
    if size < start.len() as u64 {
        return Ok(false);
    }
    source.read_at(&mut start, 0)?;
    Ok(start == *MAGIC)
}

/// Reads and checks the header.
pub(crate) fn header(source: &impl ReadAt, size: u64, checks: Checks) -> Result<(Header, Compressed), Error> {
    let mut metadata = [0; METADATA_BYTES];
    read(source, &mut metadata, size)?;
    let field = |n: usize| u32_at(&metadata, FIELDS_AT + 4 * n).unwrap_or_default();
    let (code, count) = (field(0), field(4));
    let is_buffered = metadata[MAGIC.len()] == BUFFERED;
    let method = Method::of_file(code, Form::Compressed);
    let method = method.ok_or_else(|| Error::Header(format!("there is no aggregation method {code}")))?;
    let x_files_factor = f32_at(&metadata, FIELDS_AT + 8).unwrap_or_default();
    if !(0.0..=1.0).contains(&x_files_factor) {
        return Err(Error::Header(format!("its xFilesFactor is {x_files_factor}")));
    }
    if count == 0 || count > ARCHIVES_MAX {
        return Err(Error::Header(format!("it has {count} archives; the limit is {ARCHIVES_MAX}")));
    }
    let mut described = vec![0; METADATA_BYTES + count as usize * ARCHIVE_BYTES];
    read(source, &mut described, size)?;
    let described: Vec<Described> = described[METADATA_BYTES..]
        .chunks_exact(ARCHIVE_BYTES)
        .enumerate()
        .map(|(n, bytes)| Described::read(n, bytes, method))
        .collect::<Result<_, Error>>()?;
    let parts = parts(&described, is_buffered && method != Method::Mix)?;
    let length = parts.iter().map(|part| part.index + part.buffer).sum::<u64>()
        + (METADATA_BYTES + described.len() * ARCHIVE_BYTES) as u64;
    if length > HEADER_BYTES_MAX {
        return Err(Error::Header(format!("its header has {length} bytes; the limit is {HEADER_BYTES_MAX}")));
    }
    let archives: Vec<Archive> = described.iter().map(|described| described.archive).collect();
    let mut bytes = vec![0; length as usize];
    read(source, &mut bytes, size)?;
    if checks == Checks::All {
        check_sum(&mut bytes)?;
    }
    let mut rest = &bytes[METADATA_BYTES + described.len() * ARCHIVE_BYTES..];
    let blocks = described.iter().zip(&parts).map(|(described, part)| {
        let (index, behind) = rest.split_at_checked(part.index as usize).unwrap_or_default();
        let (buffer, behind) = behind.split_at_checked(part.buffer as usize).unwrap_or_default();
        rest = behind;
        described.blocks(index, buffer)
    });
    let compressed = Compressed { archives: blocks.collect() };
    let (form, header_bytes) = (Form::Compressed, length);
    Ok((Header { form, method, x_files_factor, archives, header_bytes }, compressed))
}

/// The description of an archive in the header.
struct Described {
    archive: Archive,
    block_bytes: u32,
    blocks: u32,
    current: u32,
}

impl Described {
    fn read(n: usize, bytes: &[u8], method: Method) -> Result<Self, Error> {
        let field = |at| u32_at(bytes, at).unwrap_or_default();
        let (step, points) = (field(4), field(8));
        let (block_bytes, blocks) = (field(12), field(16));
        if block_bytes > BLOCK_BYTES_MAX {
            let what = format!("blocks of {block_bytes} bytes; the limit is {BLOCK_BYTES_MAX}");
            return Err(Error::archive(n, what));
        }
        let is_mixed = method == Method::Mix && n > 0;
        let (method, behind) = match is_mixed {
            false => (Some(method), 24),
            true => (Method::of_archive(bytes[24], f32_at(bytes, 25).unwrap_or_default()), 29),
        };
        let method = method.ok_or_else(|| Error::archive(n, "it has no aggregation method"))?;
        let length = u64::from(block_bytes) * u64::from(blocks);
        let archive = Archive { step, points, method, offset: field(0).into(), bytes: length };
        Ok(Self { archive, block_bytes, blocks, current: field(behind) })
    }

    fn blocks(&self, index: &[u8], buffer: &[u8]) -> Blocks {
        let ranges = index.chunks_exact(RANGE_BYTES).map(|bytes| {
            let field = |at| u32_at(bytes, at).unwrap_or_default();
            Range { start: field(0), end: field(4), checksum: field(12) }
        });
        let buffered = buffer.chunks_exact(Point::BYTES).filter_map(Point::decode);
        Blocks {
            step: self.archive.step,
            size: self.block_bytes,
            current: self.current,
            index: ranges.collect(),
            buffered: buffered.filter(|point| point.time != 0).collect(),
        }
    }
}

/// Sizes in bytes of an archive's index and buffer, which follow the descriptions of archives.
struct Part {
    index: u64,
    buffer: u64,
}

fn parts(described: &[Described], is_buffered: bool) -> Result<Vec<Part>, Error> {
    let coarser = described.iter().skip(1).map(|next| Some(next.archive.step)).chain([None]);
    let parts = described.iter().zip(coarser).enumerate().map(|(n, (described, coarser))| {
        let buffer = match coarser {
            Some(coarser) if is_buffered => {
                let times = coarser.checked_div(described.archive.step);
                let times = times.ok_or_else(|| Error::archive(n, "its step is zero"))?;
                u64::from(times) * Point::BYTES as u64 * BUFFERED_INTERVALS
            }
            _ => 0,
        };
        Ok(Part { index: u64::from(described.blocks) * RANGE_BYTES as u64, buffer })
    });
    parts.collect()
}

/// Verifies the checksum of the header, which is computed with zeros in place of the checksum.
fn check_sum(header: &mut [u8]) -> Result<(), Error> {
    let stated = u32_at(header, CHECKSUM_AT).unwrap_or_default();
    header[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
    match checksum_of(header) {
        found if found == stated => Ok(()),
        found => Err(Error::HeaderChecksum { found, stated }),
    }
}
