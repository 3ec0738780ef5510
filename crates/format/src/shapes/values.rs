//! Reads pools: the text of every token, and the span of each row's tokens.

use std::ops::Range;

use crate::codec::reader::Reader;
use crate::error::Error;

use super::PART;
use super::atoms::{MAX_ATOM, is_atom, is_in_range, wide_bytes, write_narrow, write_wide};
use super::column::get_numbers;
use super::numbers::{NUMBER_LIMIT, write_number};
use super::repeats::get_repeated;
use super::source::Source;
use super::tokens::{BODY_MEASURED, BODY_PATTERNS, BODY_TEXT, MAX_PATTERNS, POOL_NUMBERS, POOL_TOKENS};

/// The arena grows by this much more than is needed.
const GROWTH: usize = 64 << 10;

/// Copies may read this many bytes beyond what they need.
pub(super) const SLACK: usize = 32;

/// The text stream, followed by the texts that are written from atoms.
pub(super) struct Arena {
    bytes: Vec<u8>,
    /// End of the text stream, the read position in it, and the end of the part that may be read now.
    text_len: usize,
    text_at: usize,
    text_end: usize,
    /// End of the texts so far, and their limit.
    at: usize,
    limit: usize,
}

/// Returns the cell of a text in the arena: the position, and the length in the high bits.
#[inline(always)]
fn cell(at: usize, len: usize) -> u64 {
    at as u64 | (len as u64) << 32
}

/// Returns position and length of a cell.
#[inline(always)]
pub(super) fn span(cell: u64) -> (usize, usize) {
    (cell as u32 as usize, (cell >> 32) as usize)
}

impl Arena {
    /// Returns an arena with the text stream, and space for the texts of `raw_len` bytes of lines.
    pub(super) fn new(text: Vec<u8>, raw_len: usize) -> Self {
        let text_len = text.len();
        Self {
            bytes: text,
            text_len,
            text_at: 0,
            text_end: text_len,
            at: text_len,
            limit: text_len + raw_len,
        }
    }

    /// Reads the next `len` bytes of the text stream, and returns their position.
    pub(super) fn take_text(&mut self, len: usize) -> Result<usize, Error> {
        let at = self.text_at;
        if len > self.text_end - at {
            return Err(malformed("the text ends early"));
        }
        self.text_at += len;
        Ok(at)
    }

    /// Returns the read position in the text stream.
    pub(super) fn text_position(&self) -> usize {
        self.text_at
    }

    /// Returns the bytes of the text stream that are left.
    pub(super) fn text_left(&self) -> usize {
        self.text_end - self.text_at
    }

    /// Moves to a part of the text stream; reads cannot leave this part.
    pub(super) fn enter(&mut self, part: Range<usize>) {
        (self.text_at, self.text_end) = (part.start, part.end);
    }

    /// Returns a part of the text stream.
    pub(super) fn text(&self, part: Range<usize>) -> &[u8] {
        &self.bytes[part]
    }

    /// Returns all texts so far.
    pub(super) fn texts(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends [`SLACK`] bytes, if they are not present.
    pub(super) fn pad(&mut self) {
        if self.bytes.len() < self.at + SLACK {
            self.bytes.resize(self.at + SLACK, 0);
        }
    }

    /// Reserves `len` more bytes.
    #[inline(always)]
    fn reserve(&mut self, len: usize) -> Result<(), Error> {
        if self.at > self.limit {
            return Err(malformed("the values are longer than the lines"));
        }
        if self.at + len > self.bytes.len() {
            self.bytes.resize(self.at + len + GROWTH, 0);
        }
        Ok(())
    }

    /// Reads a pool of `len` tokens and appends their cells.
    pub(super) fn read_pool(
        &mut self,
        len: usize,
        source: &mut Source<'_>,
        cells: &mut Vec<u64>,
    ) -> Result<(), Error> {
        if len == 0 {
            return Ok(());
        }
        match source.directory.u8()? {
            POOL_NUMBERS => self.read_numbers(len, source, cells),
            kind => get_repeated(kind - POOL_TOKENS, len, source, cells, |source, len, cells| {
                self.read_body(len, source, cells)
            }),
        }
    }

    fn read_numbers(
        &mut self,
        len: usize,
        source: &mut Source<'_>,
        cells: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let mut numbers = Vec::new();
        get_numbers(len, source, &mut numbers)?;
        for number in numbers {
            if number >= NUMBER_LIMIT {
                return Err(source.directory.malformed("a number has too many digits"));
            }
            self.reserve(24)?;
            let out = self.bytes[self.at..].first_chunk_mut().expect("reserved");
            let len = write_number(number, out);
            cells.push(cell(self.at, len));
            self.at += len;
        }
        Ok(())
    }

    fn read_body(&mut self, len: usize, source: &mut Source<'_>, cells: &mut Vec<u64>) -> Result<(), Error> {
        match source.directory.u8()? {
            BODY_TEXT => self.read_text(len, cells),
            BODY_MEASURED => {
                let mut lengths = Vec::new();
                get_numbers(len, source, &mut lengths)?;
                for length in lengths {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    cells.push(cell(self.take_text(length)?, length));
                }
                Ok(())
            }
            BODY_PATTERNS => {
                let patterns = Patterns::read(source, self)?;
                self.read_patterns(&patterns, len, source, cells)
            }
            _ => Err(source.directory.malformed("unknown kind of tokens")),
        }
    }

    fn read_text(&mut self, len: usize, cells: &mut Vec<u64>) -> Result<(), Error> {
        let text = &self.bytes[self.text_at..self.text_end];
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text).take(len) {
            cells.push(cell(self.text_at + start, end - start));
            start = end + 1;
        }
        self.text_at += start;
        // If a token is missing, there are fewer cells than rows, which the caller checks.
        Ok(())
    }

    fn read_patterns(
        &mut self,
        patterns: &Patterns,
        len: usize,
        source: &mut Source<'_>,
        cells: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let ids = source.plane(len)?;
        let sizes = patterns.column_sizes(&ids, self.limit).ok_or(malformed("unknown pattern"))?;
        let mut columns = Vec::with_capacity(sizes.len());
        for (&code, &size) in patterns.codes.iter().zip(&sizes) {
            columns.push(Column::read(code, size, source)?);
        }
        for &id in ids.iter() {
            let (from, to) = patterns.ranges[id as usize];
            let start = self.at;
            self.reserve(patterns.longest[id as usize])?;
            for part in &patterns.parts[from..to] {
                self.copy_text(part.text_at, part.text_len);
                if let Some(column) = columns.get_mut(part.column) {
                    let out = self.bytes[self.at..].first_chunk_mut().expect("reserved");
                    self.at += column.write_next(out);
                }
            }
            cells.push(cell(start, self.at - start));
        }
        Ok(())
    }

    /// Appends a piece of the text stream.
    #[inline(always)]
    fn copy_text(&mut self, from: usize, len: usize) {
        let (text, out) = self.bytes.split_at_mut(self.text_len);
        let to = self.at - self.text_len;
        match (text.get(from..from + 16), out.get_mut(to..to + 16)) {
            (Some(text), Some(out)) if len <= 16 => out.copy_from_slice(text),
            _ => out[to..to + len].copy_from_slice(&text[from..from + len]),
        }
        self.at += len;
    }
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { part: PART, offset: 0, what }
}

/// Constant text of a pattern, and the column of the atom that follows it.
pub(super) struct Part {
    pub(super) text_at: usize,
    pub(super) text_len: usize,
    /// [`NO_COLUMN`] at the end of a pattern.
    column: usize,
}

const NO_COLUMN: usize = usize::MAX;

/// The patterns of a pool.
pub(super) struct Patterns {
    parts: Vec<Part>,
    /// First part of each pattern, and the part after its last.
    ranges: Vec<(usize, usize)>,
    /// Most bytes that writing each pattern may touch.
    longest: Vec<usize>,
    /// Codes of the columns.
    codes: Vec<u8>,
}

impl Patterns {
    pub(super) fn read(source: &mut Source<'_>, arena: &mut Arena) -> Result<Self, Error> {
        let directory = &mut source.directory;
        let count = directory.count("patterns of a pool", MAX_PATTERNS)?;
        let (mut parts, mut ranges, mut longest) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let from = parts.len();
            let atoms = directory.count("atoms of a pattern", directory.remaining())?;
            let mut bytes = SLACK;
            for atom in 0..=atoms {
                let text_len = directory.count("bytes of constant text", arena.text_left())?;
                let text_at = arena.take_text(text_len)?;
                let column = if atom < atoms { read_column_number(directory)? } else { NO_COLUMN };
                parts.push(Part { text_at, text_len, column });
                bytes += text_len + MAX_ATOM;
            }
            ranges.push((from, parts.len()));
            longest.push(bytes);
        }
        let columns = directory.count("columns of a pool", directory.remaining())?;
        let codes = directory.bytes(columns)?.to_vec();
        let known = |part: &Part| part.column == NO_COLUMN || part.column < columns;
        if !parts.iter().all(known) || !codes.iter().all(|&code| is_atom(code)) {
            return Err(directory.malformed("an atom is in no column or of no kind"));
        }
        Ok(Self { parts, ranges, longest, codes })
    }

    /// Returns the parts of each pattern.
    pub(super) fn all(&self) -> impl Iterator<Item = &[Part]> {
        self.ranges.iter().map(|&(from, to)| &self.parts[from..to])
    }

    /// Returns the code of the atom that follows a part; `None` at the end of a pattern.
    pub(super) fn code_after(&self, part: &Part) -> Option<u8> {
        self.codes.get(part.column).copied()
    }

    /// Returns the number of atoms of each column for tokens with these patterns; `None` when a pattern
    /// does not exist, or there are more atoms than `limit` bytes can hold.
    fn column_sizes(&self, ids: &[u8], limit: usize) -> Option<Vec<usize>> {
        let mut uses = [0; MAX_PATTERNS];
        ids.iter().for_each(|&id| uses[id as usize] += 1);
        let mut sizes = vec![0; self.codes.len()];
        let mut total = 0_usize;
        for (pattern, &uses) in uses.iter().enumerate().filter(|(_, uses)| **uses > 0) {
            let &(from, to) = self.ranges.get(pattern)?;
            for part in self.parts[from..to].iter().filter(|part| part.column != NO_COLUMN) {
                sizes[part.column] += uses;
                total = total.saturating_add(uses);
            }
        }
        (total <= limit).then_some(sizes)
    }
}

fn read_column_number(directory: &mut Reader<'_>) -> Result<usize, Error> {
    // A higher number could not be declared later: the directory has too few bytes.
    directory.count("columns of a pool", directory.remaining())
}

/// The remaining atoms of a column.
enum Column<'a> {
    Narrow { code: u8, values: std::vec::IntoIter<u64> },
    Wide { code: u8, width: usize, bytes: &'a [u8], positions: std::vec::IntoIter<u64> },
}

impl<'a> Column<'a> {
    fn read(code: u8, len: usize, source: &mut Source<'a>) -> Result<Self, Error> {
        let mut values = Vec::new();
        let Some(width) = wide_bytes(code) else {
            get_numbers(len, source, &mut values)?;
            if !values.iter().all(|&value| is_in_range(value, code)) {
                return Err(source.directory.malformed("a number has too many digits"));
            }
            return Ok(Self::Narrow { code, values: values.into_iter() });
        };
        let kind = source.directory.u8()?;
        let mut bytes: &'a [u8] = &[];
        get_repeated(kind, len, source, &mut values, |source, len, positions| {
            bytes = source.bits.bytes(len * width)?;
            positions.extend((0..len as u64).map(|i| i * width as u64));
            Ok(())
        })?;
        Ok(Self::Wide { code, width, bytes, positions: values.into_iter() })
    }

    /// Writes the next atom; the patterns determine that there is one.
    #[inline(always)]
    fn write_next(&mut self, out: &mut [u8; MAX_ATOM]) -> usize {
        match self {
            Self::Narrow { code, values } => write_narrow(values.next().unwrap_or(0), *code, out),
            Self::Wide { code, width, bytes, positions } => {
                let at = positions.next().unwrap_or(0) as usize;
                bytes.get(at..at + *width).map_or(0, |bytes| write_wide(bytes, *code, out))
            }
        }
    }
}
