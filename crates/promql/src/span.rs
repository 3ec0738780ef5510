//! Places in the text of a query.

use std::fmt;

/// Bytes of the text, from the first to the one after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte after the last.
    pub end: u32,
}

impl Span {
    /// From the first byte to the one after the last.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// From the begin of this to the end of the other.
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }

    /// Line and column of its begin, one-based, in the text.
    pub fn place(self, text: &str) -> Place {
        if text.is_empty() {
            return Place { line: 0, column: 0 };
        }
        let before = text.as_bytes().get(..self.start as usize).unwrap_or(text.as_bytes());
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let begin = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Place { line, column: before.len() - begin + 1 }
    }
}

/// A line and a column, one-based; columns are bytes. Line 0: an empty text has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The byte in it.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str("unknown position"),
            line => write!(f, "{line}:{}", self.column),
        }
    }
}
