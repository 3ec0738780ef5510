//! The decoder: reads shapes and pools, then puts the lines together.

use bytes::Bytes;
use sandur_model::LineColumn;

use crate::codec::reader::Reader;
use crate::codec::varint::unzigzag;
use crate::error::Error;

use super::clock::MAX_CLOCKS;
use super::column::get_numbers;
use super::layout::{Layout, MAX_LAYOUT, Writer};
use super::source::{Source, Streams};
use super::values::{Arena, SLACK, span};
use super::{BYTES_PER_SLOT, MAX_TEXT, PART, VERSION, stream_limit};

/// What follows the constant text of a part: the end of the line, else a clock, else a pool plus
/// [`MAX_CLOCKS`].
const LINE_END: u32 = u32::MAX;

/// Constant text of a shape, and what follows it.
#[derive(Clone, Copy)]
struct Part {
    text_at: u32,
    text_len: u32,
    then: u32,
}

/// The shapes of the lines.
struct Shapes {
    parts: Vec<Part>,
    /// First part of each shape.
    starts: Vec<u32>,
    pools: usize,
}

/// Decodes the lines of rows with these timestamps; separators included, they take `raw_len` bytes.
pub fn decode(bytes: &[u8], timestamps: &[i64], raw_len: usize) -> Result<LineColumn, Error> {
    let (version, streams) = bytes.split_first().ok_or(malformed("there are no bytes"))?;
    if *version != VERSION {
        let (found, supported) = (u16::from(*version), u16::from(VERSION));
        return Err(Error::Version { part: PART, found, supported });
    }
    if raw_len > MAX_TEXT {
        let (what, found, limit) = ("bytes of lines", raw_len as u64, MAX_TEXT as u64);
        return Err(Error::TooLarge { part: PART, what, found, limit });
    }
    let mut streams = Streams::read(streams, stream_limit(raw_len))?;
    let (mut source, text) = streams.source();
    let mut arena = Arena::new(text, raw_len);
    let pools = read_pool_lengths(&mut source.directory)?;
    let writers = read_clocks(&mut source.directory)?;
    let shapes = read_shapes(&mut source.directory, (writers.len(), pools.len()), &mut arena)?;
    let rows = read_rows(&mut source, shapes.starts.len(), timestamps.len())?;
    let sizes = shapes.slot_uses(&rows, raw_len)?;
    let mut offsets: [Vec<u64>; MAX_CLOCKS] = Default::default();
    for (offsets, &size) in offsets.iter_mut().zip(&sizes) {
        get_numbers(size, &mut source, offsets)?;
    }
    let sizes = &sizes[MAX_CLOCKS..];
    let mut cells = Vec::with_capacity(sizes.iter().sum());
    let mut cursors = Vec::with_capacity(sizes.len());
    for (&size, lengths) in sizes.iter().zip(&pools) {
        cursors.push(cells.len());
        let before = positions(&source, &arena);
        arena.read_pool(size, &mut source, &mut cells)?;
        if positions(&source, &arena) != std::array::from_fn(|i| before[i].saturating_add(lengths[i])) {
            return Err(malformed("a pool has other lengths than it says"));
        }
        if cells.len() != cursors[cursors.len() - 1] + size {
            return Err(malformed("a pool has too few tokens"));
        }
    }
    source.finish()?;
    let text = arena.finish()?;
    let offsets = offsets.map(Vec::into_iter);
    let values = Values { text: &text, cells: &cells, cursors, writers, offsets };
    assemble(&shapes, &rows, values, timestamps, raw_len)
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { part: PART, offset: 0, what }
}

/// Bytes of each pool in the directory, the text, the packed numbers, the short planes and the planes: a
/// reader that wants one pool can leave out the others.
type PoolLengths = [usize; 5];

fn read_pool_lengths(directory: &mut Reader<'_>) -> Result<Vec<PoolLengths>, Error> {
    let pools = directory.count("pools", directory.remaining() / 5)?;
    let mut lengths = Vec::with_capacity(pools);
    for _ in 0..pools {
        let mut length = || directory.count("bytes of a pool", MAX_TEXT * 8);
        lengths.push([length()?, length()?, length()?, length()?, length()?]);
    }
    Ok(lengths)
}

fn positions(source: &Source<'_>, arena: &Arena) -> PoolLengths {
    let [directory, bits, small, planes] = source.positions();
    [directory, arena.text_position(), bits, small, planes]
}

fn read_clocks(directory: &mut Reader<'_>) -> Result<Vec<Writer>, Error> {
    let count = directory.count("clocks", MAX_CLOCKS)?;
    let mut writers = Vec::with_capacity(count);
    for _ in 0..count {
        let len = directory.count("bytes of a layout", MAX_LAYOUT)?;
        let layout = Layout::compile(directory.bytes(len)?);
        writers.push(Writer::new(layout.ok_or_else(|| directory.malformed("no layout"))?));
    }
    Ok(writers)
}

/// Reads the shapes, whose slots hold one of so many clocks and pools.
fn read_shapes(
    directory: &mut Reader<'_>,
    (clocks, pools): (usize, usize),
    arena: &mut Arena,
) -> Result<Shapes, Error> {
    // a shape takes two bytes at least, and numbers of shapes are of 16 bits
    let count = directory.count("shapes", (directory.remaining() / 2).min(1 << 16))?;
    let (mut parts, mut starts) = (Vec::new(), Vec::with_capacity(count));
    for _ in 0..count {
        starts.push(parts.len() as u32);
        let slots = directory.count("slots of a shape", directory.remaining())?;
        for slot in 0..=slots {
            let text_len = directory.count("bytes of constant text", arena.text_left())? as u32;
            let text_at = arena.take_text(text_len as usize)? as u32;
            let then = if slot < slots { read_slot(directory, clocks, pools)? } else { LINE_END };
            parts.push(Part { text_at, text_len, then });
        }
    }
    Ok(Shapes { parts, starts, pools })
}

fn read_slot(directory: &mut Reader<'_>, clocks: usize, pools: usize) -> Result<u32, Error> {
    let slot = directory.count("clocks and pools", MAX_CLOCKS + pools)?;
    if slot == MAX_CLOCKS + pools || (slot < MAX_CLOCKS && slot >= clocks) {
        return Err(directory.malformed("a slot holds a clock or pool that is not there"));
    }
    Ok(slot as u32)
}

/// The shape of each row.
fn read_rows(source: &mut Source<'_>, shapes: usize, rows: usize) -> Result<Vec<u16>, Error> {
    let numbers: Vec<u16> = if shapes <= 256 {
        source.plane(rows)?.iter().map(|&number| u16::from(number)).collect()
    } else {
        let plane = source.plane(rows * 2)?;
        plane.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
    };
    match numbers.iter().max() {
        Some(&highest) if usize::from(highest) >= shapes => Err(malformed("a row has an unknown shape")),
        _ => Ok(numbers),
    }
}

impl Shapes {
    /// The parts of a shape, and those of the shapes after it.
    #[inline(always)]
    fn parts_from(&self, shape: u16) -> &[Part] {
        &self.parts[self.starts[usize::from(shape)] as usize..]
    }

    /// How many slots of the rows each clock and pool fills.
    fn slot_uses(&self, rows: &[u16], raw_len: usize) -> Result<Vec<usize>, Error> {
        let mut uses = vec![0_usize; self.starts.len()];
        rows.iter().for_each(|&shape| uses[usize::from(shape)] += 1);
        let mut sizes = vec![0; MAX_CLOCKS + self.pools];
        let mut total = 0_usize;
        for (shape, &uses) in uses.iter().enumerate().filter(|(_, uses)| **uses > 0) {
            for part in self.parts_from(shape as u16).iter().take_while(|part| part.then != LINE_END) {
                sizes[part.then as usize] += uses;
                total = total.saturating_add(uses);
            }
        }
        if total > raw_len / BYTES_PER_SLOT {
            return Err(malformed("there are too many slots"));
        }
        Ok(sizes)
    }
}

/// What the slots hold.
struct Values<'a> {
    text: &'a [u8],
    /// The tokens of all pools.
    cells: &'a [u64],
    /// The next token of each pool.
    cursors: Vec<usize>,
    writers: Vec<Writer>,
    offsets: [std::vec::IntoIter<u64>; MAX_CLOCKS],
}

/// Lines that are being put together.
struct Output {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Output {
    /// Appends `text[from..from + len]`; false when that is more than there should be.
    #[inline(always)]
    fn copy(&mut self, text: &[u8], from: usize, len: usize) -> bool {
        let at = self.at;
        self.at += len;
        // most pieces are short: copying a little too much is quicker than copying just enough
        if len <= SLACK
            && let Some(out) = self.bytes.get_mut(at..at + SLACK)
            && let Some(text) = text.get(from..from + SLACK)
        {
            out[..SLACK / 2].copy_from_slice(&text[..SLACK / 2]);
            if len > SLACK / 2 {
                out[SLACK / 2..].copy_from_slice(&text[SLACK / 2..]);
            }
            return true;
        }
        if let (Some(out), Some(text)) = (self.bytes.get_mut(at..at + len), text.get(from..from + len)) {
            out.copy_from_slice(text);
            return true;
        }
        false
    }
}

fn assemble(
    shapes: &Shapes,
    rows: &[u16],
    mut values: Values<'_>,
    timestamps: &[i64],
    raw_len: usize,
) -> Result<LineColumn, Error> {
    let mut out = Output { bytes: vec![0; raw_len + SLACK], at: 0, len: raw_len };
    let mut ends = Vec::with_capacity(rows.len());
    for (&shape, &timestamp) in rows.iter().zip(timestamps) {
        for part in shapes.parts_from(shape) {
            if !out.copy(values.text, part.text_at as usize, part.text_len as usize) {
                return Err(malformed("the lines are too long"));
            }
            let fits = match part.then {
                LINE_END => break,
                pool if pool >= MAX_CLOCKS as u32 => {
                    let cursor = &mut values.cursors[pool as usize - MAX_CLOCKS];
                    let (from, len) = span(values.cells[*cursor]);
                    *cursor += 1;
                    out.copy(values.text, from, len)
                }
                clock => values.copy_timestamp(clock as usize, timestamp, &mut out),
            };
            if !fits {
                return Err(malformed("the lines are too long"));
            }
        }
        if out.at >= out.len {
            return Err(malformed("the lines are too long"));
        }
        ends.push(out.at as u32);
        out.bytes[out.at] = b'\n';
        out.at += 1;
    }
    if out.at != out.len {
        return Err(malformed("the lines are too short"));
    }
    out.bytes.truncate(raw_len);
    Ok(LineColumn { bytes: Bytes::from(out.bytes), ends })
}

impl Values<'_> {
    #[inline(always)]
    fn copy_timestamp(&mut self, clock: usize, timestamp: i64, out: &mut Output) -> bool {
        let writer = &mut self.writers[clock];
        let offset = unzigzag(self.offsets[clock].next().unwrap_or(0));
        let shift = offset.checked_mul(writer.layout().unit);
        let instant = shift.and_then(|shift| timestamp.checked_add(shift));
        let len = writer.len();
        instant.is_some_and(|instant| out.copy(writer.write(instant), 0, len))
    }
}
