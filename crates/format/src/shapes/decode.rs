//! Assembles lines: all of them, or those of some rows.

use bytes::Bytes;
use sandur_model::LineColumn;

use crate::codec::varint::unzigzag;
use crate::error::Error;

use super::clock::MAX_CLOCKS;
use super::layout::Writer;
use super::opened::{LINE_END, ShapedLines, Shapes, malformed};
use super::values::{SLACK, span};

/// Decodes the lines of rows with these timestamps; including separators, they take `raw_len` bytes.
pub fn decode(bytes: &[u8], timestamps: &[i64], raw_len: usize) -> Result<LineColumn, Error> {
    ShapedLines::open(&Bytes::copy_from_slice(bytes), timestamps.len(), raw_len)?.lines(timestamps)
}

impl ShapedLines {
    /// Returns the lines of all rows, which have these timestamps.
    pub fn lines(&mut self, timestamps: &[i64]) -> Result<LineColumn, Error> {
        self.read_all()?;
        let every = |_: usize| true;
        let (mut out, ends) = self.assemble(timestamps, every)?;
        if out.at != out.len {
            return Err(malformed("the lines are too short"));
        }
        out.bytes.truncate(self.raw_len);
        Ok(LineColumn { bytes: Bytes::from(out.bytes), ends })
    }

    /// Returns the lines of the `wanted` rows; the others are empty. Reads only the fields of the shapes
    /// of wanted rows.
    pub fn lines_of(&mut self, timestamps: &[i64], wanted: &[bool]) -> Result<LineColumn, Error> {
        let mut seen = vec![false; self.shapes.starts.len()];
        let rows = self.rows.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        rows.for_each(|(&shape, _)| seen[usize::from(shape)] = true);
        let mut needed = vec![false; self.fields()];
        for (shape, _) in seen.iter().enumerate().filter(|(_, seen)| **seen) {
            self.shapes.slots(shape as u16).for_each(|field| needed[field] = true);
        }
        self.read_fields(&needed)?;
        let (mut out, ends) = self.assemble(timestamps, |row| wanted.get(row).copied().unwrap_or(false))?;
        out.bytes.truncate(out.at);
        Ok(LineColumn { bytes: Bytes::from(out.bytes), ends })
    }

    /// Returns the token of a slot of a row with this timestamp, whose field has this cell for it; `None` if
    /// it is a timestamp out of range.
    #[inline(always)]
    pub(super) fn token(&mut self, field: usize, cell: u64, timestamp: i64) -> Option<&[u8]> {
        if field >= MAX_CLOCKS {
            let (at, len) = span(cell);
            return Some(&self.arena.texts()[at..at + len]);
        }
        let writer = &mut self.writers[field];
        let len = writer.len();
        let instant = instant_of(cell, timestamp, writer)?;
        Some(&writer.write(instant)[..len])
    }

    /// Assembles the wanted lines, whose fields were read.
    #[inline(always)]
    fn assemble(
        &mut self,
        timestamps: &[i64],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(Output, Vec<u32>), Error> {
        let cursors = (0..self.fields()).map(|field| self.cells_at(field).unwrap_or(0)).collect();
        let Self { shapes, rows, arena, cells, writers, raw_len, .. } = self;
        let mut values = Values { text: arena.texts(), cells, cursors, writers };
        let mut out = Output { bytes: vec![0; *raw_len + SLACK], at: 0, len: *raw_len };
        let mut ends = Vec::with_capacity(rows.len());
        for (row, (&shape, &timestamp)) in rows.iter().zip(timestamps).enumerate() {
            if wanted(row) {
                if !values.put_line(shapes, shape, timestamp, &mut out) {
                    return Err(malformed("the lines are too long"));
                }
            } else {
                shapes.slots(shape).for_each(|field| values.cursors[field] += 1);
            }
            if out.at >= out.len {
                return Err(malformed("the lines are too long"));
            }
            ends.push(out.at as u32);
            out.bytes[out.at] = b'\n';
            out.at += 1;
        }
        Ok((out, ends))
    }
}

/// The contents of the slots.
struct Values<'a> {
    text: &'a [u8],
    cells: &'a [u64],
    /// The next cell of each field.
    cursors: Vec<usize>,
    writers: &'a mut [Writer],
}

/// Lines that are being assembled.
struct Output {
    bytes: Vec<u8>,
    at: usize,
    len: usize,
}

impl Output {
    /// Appends `text[from..from + len]`; false when the lines would become too long.
    #[inline(always)]
    fn copy(&mut self, text: &[u8], from: usize, len: usize) -> bool {
        let at = self.at;
        self.at += len;
        // Most pieces are short: copying a fixed length is faster than copying the exact length.
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

impl Values<'_> {
    /// Appends the next line; false when it is longer than the remaining space.
    #[inline(always)]
    fn put_line(&mut self, shapes: &Shapes, shape: u16, timestamp: i64, out: &mut Output) -> bool {
        for part in shapes.parts_from(shape) {
            if !out.copy(self.text, part.text_at as usize, part.text_len as usize) {
                return false;
            }
            if part.then == LINE_END {
                break;
            }
            let cursor = &mut self.cursors[part.then as usize];
            let cell = self.cells[*cursor];
            *cursor += 1;
            let fits = if part.then >= MAX_CLOCKS as u32 {
                let (from, len) = span(cell);
                out.copy(self.text, from, len)
            } else {
                let writer = &mut self.writers[part.then as usize];
                let len = writer.len();
                instant_of(cell, timestamp, writer)
                    .is_some_and(|instant| out.copy(writer.write(instant), 0, len))
            };
            if !fits {
                return false;
            }
        }
        true
    }
}

/// Returns the instant of a slot with this offset from its row's timestamp.
#[inline(always)]
fn instant_of(offset: u64, timestamp: i64, writer: &Writer) -> Option<i64> {
    let shift = unzigzag(offset).checked_mul(writer.layout().unit);
    shift.and_then(|shift| timestamp.checked_add(shift))
}
