//! An opened encoded column: shapes and rows are decoded, the contents of slots are read on demand.
//!
//! Clocks and pools are *fields*: numbers below [`MAX_CLOCKS`] are clocks, the others pools. The lengths
//! of the pools give the place of each pool in the streams, so each can be read without the others.
//!
//! **Invariants.** A field is read at most once, so all texts together stay within the arena's bound. A
//! partial read is checked as strictly as a complete one.

use std::ops::Range;

use bytes::Bytes;

use crate::codec::reader::Reader;
use crate::error::Error;

use super::clock::MAX_CLOCKS;
use super::column::get_numbers;
use super::layout::{Layout, MAX_LAYOUT, Writer};
use super::source::{Place, Source, Streams};
use super::values::Arena;
use super::{BYTES_PER_SLOT, MAX_TEXT, PART, VERSION, stream_limit};

/// What follows the constant text of a part: the end of the line, or else a field.
pub(super) const LINE_END: u32 = u32::MAX;

/// Constant text of a shape, and the field after it.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) text_at: u32,
    pub(super) text_len: u32,
    pub(super) then: u32,
}

/// The shapes of the lines.
pub(super) struct Shapes {
    pub(super) parts: Vec<Part>,
    /// First part of each shape.
    pub(super) starts: Vec<u32>,
}

/// A clock or a pool.
struct Field {
    /// Number of slots of all rows that hold it.
    slots: usize,
    /// The place of a pool in the streams.
    place: Range<Place>,
    /// Index of its first cell, once it was read.
    cells_at: Option<usize>,
}

/// The encoded lines of a page, read on demand.
pub struct ShapedLines {
    pub(super) streams: Streams,
    pub(super) arena: Arena,
    pub(super) writers: Vec<Writer>,
    pub(super) shapes: Shapes,
    /// The shape of each row.
    pub(super) rows: Vec<u16>,
    fields: Vec<Field>,
    /// The place of the clocks' offsets.
    offsets: Range<Place>,
    /// Cells that were read: spans of the tokens of pools, and offsets of clocks.
    pub(super) cells: Vec<u64>,
    pub(super) raw_len: usize,
}

/// What is wrong with the token of a clock that is no timestamp.
pub(super) const OUT_OF_RANGE: &str = "a timestamp is out of range";

pub(super) fn malformed(what: &'static str) -> Error {
    Error::Malformed { part: PART, offset: 0, what }
}

impl ShapedLines {
    /// Opens the lines of `rows` rows; including separators, they take `raw_len` bytes.
    pub fn open(bytes: &Bytes, rows: usize, raw_len: usize) -> Result<Self, Error> {
        let version = *bytes.first().ok_or(malformed("there are no bytes"))?;
        if version != VERSION {
            let (found, supported) = (u16::from(version), u16::from(VERSION));
            return Err(Error::Version { part: PART, found, supported });
        }
        if raw_len > MAX_TEXT {
            let (what, found, limit) = ("bytes of lines", raw_len as u64, MAX_TEXT as u64);
            return Err(Error::TooLarge { part: PART, what, found, limit });
        }
        let mut streams = Streams::read(&bytes.slice(1..), stream_limit(raw_len))?;
        let text = streams.take_text();
        let end = streams.end(text.len());
        let mut arena = Arena::new(text, raw_len);
        let mut source = streams.source(&([0; 5]..end));
        let pools = read_pool_lengths(&mut source.directory)?;
        let writers = read_clocks(&mut source.directory)?;
        let shapes = read_shapes(&mut source.directory, (writers.len(), pools.len()), &mut arena)?;
        let rows = read_rows(&mut source, shapes.starts.len(), rows)?;
        let [directory, bits, small, planes] = source.positions();
        let offsets = [directory, arena.text_position(), bits, small, planes];
        let slots = shapes.slots_of_fields(&rows, pools.len(), raw_len)?;
        let (fields, pools_at) = place_fields(&slots, &pools, offsets, end)?;
        arena.pad();
        let offsets = offsets..pools_at;
        Ok(Self { streams, arena, writers, shapes, rows, fields, offsets, cells: Vec::new(), raw_len })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of fields.
    pub(super) fn fields(&self) -> usize {
        self.fields.len()
    }

    /// Returns the index of the first cell of a field, if it was read.
    pub(super) fn cells_at(&self, field: usize) -> Option<usize> {
        self.fields[field].cells_at
    }

    /// Returns the place of a pool in the streams.
    pub(super) fn place(&self, pool: usize) -> Range<Place> {
        self.fields[pool].place.clone()
    }

    /// Reads the cells of a field, unless they were read before.
    pub(super) fn read_field(&mut self, field: usize) -> Result<(), Error> {
        if self.fields[field].cells_at.is_some() {
            return Ok(());
        }
        if field < MAX_CLOCKS {
            return self.read_offsets();
        }
        let Field { slots, place, .. } = &self.fields[field];
        let start = self.cells.len();
        let mut source = self.streams.source(place);
        self.arena.enter(place.start[1]..place.end[1]);
        self.arena.read_pool(*slots, &mut source, &mut self.cells)?;
        if source.finish().is_err() || self.arena.text_left() > 0 {
            return Err(malformed("a pool's lengths differ from the stated ones"));
        }
        if self.cells.len() != start + slots {
            return Err(malformed("a pool has too few tokens"));
        }
        self.arena.pad();
        self.fields[field].cells_at = Some(start);
        Ok(())
    }

    /// Reads the cells of the wanted fields.
    pub(super) fn read_fields(&mut self, wanted: &[bool]) -> Result<(), Error> {
        (0..wanted.len()).filter(|field| wanted[*field]).try_for_each(|field| self.read_field(field))
    }

    /// Reads the offsets of all clocks: the length of each column is known only after reading it.
    fn read_offsets(&mut self) -> Result<(), Error> {
        let mut source = self.streams.source(&self.offsets);
        for clock in &mut self.fields[..MAX_CLOCKS] {
            clock.cells_at = Some(self.cells.len());
            get_numbers(clock.slots, &mut source, &mut self.cells)?;
        }
        source.finish()
    }

    /// Reads all fields, and checks that no bytes are left over.
    pub(super) fn read_all(&mut self) -> Result<(), Error> {
        let slots: usize = self.fields.iter().map(|field| field.slots).sum();
        self.cells.reserve(slots.saturating_sub(self.cells.len()));
        (0..self.fields.len()).try_for_each(|field| self.read_field(field))
    }
}

/// Bytes of each pool in the streams: a reader of one pool can skip the others.
type PoolLengths = Place;

fn read_pool_lengths(directory: &mut Reader<'_>) -> Result<Vec<PoolLengths>, Error> {
    let pools = directory.count("pools", directory.remaining() / 5)?;
    let mut lengths = Vec::with_capacity(pools);
    for _ in 0..pools {
        let mut length = || directory.count("bytes of a pool", MAX_TEXT * 8);
        lengths.push([length()?, length()?, length()?, length()?, length()?]);
    }
    Ok(lengths)
}

/// Returns the fields, and the place of the first pool. Checks that the last pool ends where the streams
/// end.
fn place_fields(
    slots: &[usize],
    pools: &[PoolLengths],
    from: Place,
    end: Place,
) -> Result<(Vec<Field>, Place), Error> {
    let mut at = end;
    for (stream, at) in at.iter_mut().enumerate() {
        let all: usize = pools.iter().map(|lengths| lengths[stream]).sum();
        let start = at.checked_sub(all).filter(|start| *start >= from[stream]);
        *at = start.ok_or(malformed("the pools are longer than the streams"))?;
    }
    let start = at;
    if start[1] != from[1] {
        return Err(malformed("text is left over"));
    }
    let clock = |slots: &usize| Field { slots: *slots, place: from..from, cells_at: None };
    let mut fields: Vec<Field> = slots[..MAX_CLOCKS].iter().map(clock).collect();
    for (lengths, &slots) in pools.iter().zip(&slots[MAX_CLOCKS..]) {
        let next = std::array::from_fn(|stream| at[stream] + lengths[stream]);
        fields.push(Field { slots, place: at..next, cells_at: None });
        at = next;
    }
    Ok((fields, start))
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

/// Reads the shapes, whose slots hold one of these clocks and pools.
fn read_shapes(
    directory: &mut Reader<'_>,
    (clocks, pools): (usize, usize),
    arena: &mut Arena,
) -> Result<Shapes, Error> {
    // A shape takes at least two bytes, and shape numbers have 16 bits.
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
    Ok(Shapes { parts, starts })
}

fn read_slot(directory: &mut Reader<'_>, clocks: usize, pools: usize) -> Result<u32, Error> {
    let slot = directory.count("clocks and pools", MAX_CLOCKS + pools)?;
    if slot == MAX_CLOCKS + pools || (slot < MAX_CLOCKS && slot >= clocks) {
        return Err(directory.malformed("a slot holds a clock or pool that does not exist"));
    }
    Ok(slot as u32)
}

/// Reads the shape of each row.
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
    /// Returns the parts of a shape, followed by those of the shapes after it.
    #[inline(always)]
    pub(super) fn parts_from(&self, shape: u16) -> &[Part] {
        &self.parts[self.starts[usize::from(shape)] as usize..]
    }

    /// Returns the fields of a shape's slots, in order.
    pub(super) fn slots(&self, shape: u16) -> impl Iterator<Item = usize> {
        let parts = self.parts_from(shape).iter().take_while(|part| part.then != LINE_END);
        parts.map(|part| part.then as usize)
    }

    /// Returns the number of slots of the rows for each field.
    fn slots_of_fields(&self, rows: &[u16], pools: usize, raw_len: usize) -> Result<Vec<usize>, Error> {
        let mut uses = vec![0_usize; self.starts.len()];
        rows.iter().for_each(|&shape| uses[usize::from(shape)] += 1);
        let mut slots = vec![0; MAX_CLOCKS + pools];
        let mut total = 0_usize;
        for (shape, &uses) in uses.iter().enumerate().filter(|(_, uses)| **uses > 0) {
            for field in self.slots(shape as u16) {
                slots[field] += uses;
                total = total.saturating_add(uses);
            }
        }
        if total > raw_len / BYTES_PER_SLOT {
            return Err(malformed("there are too many slots"));
        }
        Ok(slots)
    }
}
