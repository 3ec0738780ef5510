//! Places in the text of a query.

use std::fmt;

/// A range of bytes in the text of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The end, exclusive.
    pub end: u32,
}

impl Span {
    /// The range from `start` to `end`, exclusive.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The range from the start of this one to the end of the other.
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end }
    }

    /// The line and column of its start.
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

/// A line and a column in the text of a query, one-based. Columns count bytes. Line 0 stands for an empty
/// text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column in bytes.
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
