//! Runs line filters over complete pages. A filter searches the bytes of many rows at once, and finds the
//! row only for a hit, so that an absent needle costs one pass over memory.

use std::ops::Range;

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use sandur_base::job::spend;
use sandur_model::{BoundedRegex, LineColumn};

use crate::go_regex::compile_hir;
use crate::stage::{LineFilter, LineTest};

/// The line filters before all other stages.
pub struct PageFilter {
    filters: Vec<Prepared>,
    hits: Vec<u32>,
}

struct Prepared {
    filter: LineFilter,
    /// A copy for this worker, so that workers do not contend for it.
    search: Option<Search>,
}

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

impl PageFilter {
    /// A page filter for these line filters, in order.
    pub fn new(filters: impl Iterator<Item = LineFilter>) -> Self {
        let prepared = filters.filter(|f| !f.passes_all());
        let prepared = prepared.map(|filter| Prepared { search: filter.search().cloned(), filter });
        Self { filters: prepared.collect(), hits: Vec::new() }
    }

    /// Whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Appends the rows of `rows` whose lines pass, in order.
    pub fn select(&mut self, lines: &LineColumn, rows: Range<u32>, out: &mut Vec<u32>) {
        if rows.is_empty() {
            return;
        }
        // The most selective search runs first: a positive one, if there is any.
        let first = self.filters.iter().position(|f| !f.filter.negated && f.search.is_some());
        let first = first.or_else(|| self.filters.iter().position(|f| f.search.is_some()));
        let start = out.len();
        let searched = first.is_some_and(|n| {
            self.hits.clear();
            let Prepared { filter, search } = &self.filters[n];
            let found = search.as_ref().is_some_and(|s| s.find_rows(lines, rows.clone(), &mut self.hits));
            if found {
                if filter.negated {
                    complement(&self.hits, rows.clone(), out);
                } else {
                    out.extend_from_slice(&self.hits);
                }
            }
            found
        });
        if !searched {
            out.extend(rows);
        }
        let rest = || self.filters.iter().enumerate().filter(|(n, _)| !searched || Some(*n) != first);
        if rest().next().is_none() {
            return;
        }
        let mut kept = start;
        for n in start..out.len() {
            let row = out[n];
            let line = lines.line(row as usize);
            if rest().all(|(_, f)| f.filter.passes(line)) {
                out[kept] = row;
                kept += 1;
            }
        }
        out.truncate(kept);
    }
}

fn complement(hits: &[u32], rows: Range<u32>, out: &mut Vec<u32>) {
    let mut next = rows.start;
    for &hit in hits {
        out.extend(next..hit);
        next = hit + 1;
    }
    out.extend(next..rows.end);
}

impl Search {
    /// The search of a filter, if it has one.
    pub fn new(filter: &LineFilter) -> Option<Self> {
        match filter.tests.as_slice() {
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
    fn find_rows(&self, lines: &LineColumn, rows: Range<u32>, out: &mut Vec<u32>) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse_log;

    fn column(lines: &[&str]) -> LineColumn {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for line in lines {
            bytes.extend_from_slice(line.as_bytes());
            ends.push(bytes.len() as u32);
            bytes.push(b'\n');
        }
        LineColumn { bytes: bytes.into(), ends }
    }

    fn check(filters: &str, lines: &[&str]) {
        let log = parse_log(&format!(r#"{{a="b"}} {filters}"#)).unwrap();
        let list: Vec<LineFilter> = log.stages.iter().map(|s| s.line_filter().unwrap().clone()).collect();
        let column = column(lines);
        for start in 0..lines.len() as u32 {
            for end in start..=lines.len() as u32 {
                let mut found = Vec::new();
                PageFilter::new(list.iter().cloned()).select(&column, start..end, &mut found);
                let passes = |row: &u32| list.iter().all(|f| f.passes(lines[*row as usize].as_bytes()));
                let expected: Vec<u32> = (start..end).filter(passes).collect();
                assert_eq!(found, expected, "{filters} on {start}..{end} of {lines:?}");
            }
        }
    }

    #[test]
    fn page_filters_agree_with_line_filters() {
        let plain = ["GET /a 200", "", "POST /b 500 error", "GET /c 404", "x", "error error", "tail 500", ""];
        let breaks = ["a\nb", "b", "a", "\n", "error\n500", "500 x"];
        for filters in [
            r#"|= "error""#,
            r#"!= "error""#,
            r#"|= "GET" |= "200""#,
            r#"|= "GET" != "200""#,
            r#"!= "GET" != "error""#,
            r#"|= "404" or "500""#,
            r#"!= "404" or "500""#,
            r#"|~ "^$""#,
            r#"|~ "^GET""#,
            r#"|~ "0$""#,
            r#"!~ "0$""#,
            r#"|~ "(?i)ERROR""#,
            r#"|~ "\\s5""#,
            r#"|~ "[^a-z]$""#,
            r#"|~ "a\\nb""#,
            r#"|~ "\\b500\\b""#,
            r#"|~ "error|404""#,
            r#"|~ "e(r+)o" |= "500""#,
            r#"|~ ".*x.*""#,
            r#"|= "\n""#,
            r#"|> "<_>500<_>""#,
            r#"!> "<_>500""#,
            r#"|= """#,
            r#"|~ "(?s)a.b""#,
        ] {
            check(filters, &plain);
            check(filters, &breaks);
        }
    }
}
