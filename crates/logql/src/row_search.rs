//! Searches the lines of many rows at once for the alternatives of a line filter.
//!
//! **Invariants:** no hit spans two lines. A search reports exactly the rows whose lines match, or that the
//! lines do not allow it.

use std::ops::Range;

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use sandur_memory::job::spend;
use sandur_model::{BoundedRegex, LineColumn};

use crate::go_regex::compile_hir;
use crate::line_test::LineTest;

/// Bytes of lines that are searched between two checks whether the job may continue.
const PIECE_BYTES: usize = 256 << 10;

/// A way to find candidate rows in many lines at once.
#[derive(Clone, Debug)]
pub enum Search {
    /// Finds exactly the rows that contain the needle, which has no line break.
    Literal(Box<Finder<'static>>),
    /// Finds exactly the rows that contain one of the needles, which have no line break.
    Literals(aho_corasick::AhoCorasick),
    /// Finds exactly the rows that match, provided that no line contains a line break.
    Regex(BoundedRegex),
}

impl Search {
    /// The search for lines that match one of the alternatives of a filter, if there is one.
    pub fn new(tests: &[LineTest]) -> Option<Self> {
        match tests {
            [LineTest::Literal(finder)] if searchable(finder.needle()) => Some(Self::Literal(finder.clone())),
            [LineTest::Regex { hir, .. }] => {
                within_lines(hir).and_then(|h| compile_hir(&h).ok()).map(Self::Regex)
            }
            tests => {
                let needle = |test: &LineTest| match test {
                    LineTest::Literal(finder) if searchable(finder.needle()) => {
                        Some(finder.needle().to_vec())
                    }
                    _ => None,
                };
                let needles: Option<Vec<Vec<u8>>> = tests.iter().map(needle).collect();
                let automaton = aho_corasick::AhoCorasick::new(needles?).ok()?;
                Some(Self::Literals(automaton))
            }
        }
    }

    /// Appends the rows with a hit; returns false if the lines do not allow this search.
    pub fn find_rows(&self, lines: &LineColumn, rows: Range<u32>, out: &mut Vec<u32>) -> bool {
        let span = span_of(lines, rows.clone());
        if let Self::Regex(_) = self {
            let breaks = memchr::memchr_iter(b'\n', &lines.bytes[span.clone()]).count();
            if breaks != rows.len() - 1 {
                return false;
            }
        }
        let mut row = rows.start;
        while row < rows.end {
            let piece = row..self.piece_end(lines, row, rows.end);
            row = piece.end;
            if spend(span_of(lines, piece.clone()).len() + 64).is_err() {
                return true;
            }
            self.find_in(lines, piece, out);
        }
        true
    }

    /// The end of the rows from `row` on that are searched at once; at least one row.
    fn piece_end(&self, lines: &LineColumn, row: u32, end: u32) -> u32 {
        let most = match self {
            Self::Literal(_) | Self::Literals(_) => PIECE_BYTES,
            Self::Regex(regex) => regex.piece_bytes().min(PIECE_BYTES),
        };
        let last = lines.start(row as usize) + most;
        let rest = &lines.ends[row as usize + 1..end as usize];
        row + 1 + rest.partition_point(|end| *end as usize <= last) as u32
    }

    /// Appends the rows of a piece that have a hit.
    fn find_in(&self, lines: &LineColumn, rows: Range<u32>, out: &mut Vec<u32>) {
        let span = span_of(lines, rows.clone());
        let mut at = span.start;
        let mut row = rows.start;
        while at <= span.end {
            let Some(hit) = self.next(&lines.bytes, at..span.end) else { break };
            row = row_from(lines, row, rows.end, hit);
            out.push(row);
            at = lines.ends[row as usize] as usize + 1;
            row += 1;
            if row >= rows.end {
                break;
            }
        }
    }

    /// An offset in the line of the next hit.
    fn next(&self, bytes: &[u8], span: Range<usize>) -> Option<usize> {
        match self {
            Self::Literal(finder) => finder.find(&bytes[span.clone()]).map(|n| span.start + n),
            Self::Literals(automaton) => {
                automaton.find(aho_corasick::Input::new(bytes).span(span).earliest(true)).map(|m| m.start())
            }
            Self::Regex(regex) => {
                // The piece begins and ends at line boundaries.
                regex.half(&bytes[span.clone()]).ok().flatten().map(|hit| span.start + hit)
            }
        }
    }
}

/// The byte range of the rows' lines.
fn span_of(lines: &LineColumn, rows: Range<u32>) -> Range<usize> {
    lines.start(rows.start as usize)..lines.ends[rows.end as usize - 1] as usize
}

/// Whether a needle cannot match across two lines.
fn searchable(needle: &[u8]) -> bool {
    !needle.is_empty() && !needle.contains(&b'\n')
}

/// The row at or after `from` whose line or separator includes the offset. Hits are often close to each
/// other, so the search doubles its steps from one row.
fn row_from(lines: &LineColumn, from: u32, end: u32, offset: usize) -> u32 {
    let ends = &lines.ends[from as usize..end as usize];
    let mut step = 1;
    while step < ends.len() && (ends[step] as usize) < offset {
        step *= 2;
    }
    let low = step / 2;
    let high = (step + 1).min(ends.len());
    from + (low + ends[low..high].partition_point(|&e| (e as usize) < offset)) as u32
}

/// Rewrites an expression for text of many lines, so that it matches within each line as the original
/// matches the line alone. `None` if this is not possible. Valid only for lines without line breaks.
fn within_lines(hir: &Hir) -> Option<Hir> {
    Some(match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => {
            if literal.0.contains(&b'\n') {
                return None;
            }
            hir.clone()
        }
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.difference(&regex_syntax::hir::ClassUnicode::new([
                regex_syntax::hir::ClassUnicodeRange::new('\n', '\n'),
            ]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&regex_syntax::hir::ClassBytes::new([regex_syntax::hir::ClassBytesRange::new(
                b'\n', b'\n',
            )]));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Look(Look::Start | Look::StartLF) => Hir::look(Look::StartLF),
        HirKind::Look(Look::End | Look::EndLF) => Hir::look(Look::EndLF),
        HirKind::Look(look @ (Look::WordAscii | Look::WordAsciiNegate)) => Hir::look(*look),
        HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => {
            let mut repetition = repetition.clone();
            repetition.sub = Box::new(within_lines(&repetition.sub)?);
            Hir::repetition(repetition)
        }
        // Group positions are not needed to find rows.
        HirKind::Capture(capture) => within_lines(&capture.sub)?,
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(within_lines).collect::<Option<_>>()?),
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.iter().map(within_lines).collect::<Option<_>>()?)
        }
    })
}
