//! The order of lines in the slices of a segment, and the pieces into which a slice is divided. A *line*
//! is a block of 64 bytes of one page's filter.
//!
//! **By place**, since version 6 of log blocks. Pages with the same number of lines per slice are a class.
//! A slice consists of the classes, those with fewer lines first. A class begins with the first line of
//! each of its pages, then the second line of each, and so on. A key is in the same line of all pages of
//! a class, so its lines are adjacent, and a test reads a small part of a slice. Filters have few
//! different sizes, so there are few classes.
//!
//! **By page**, in older blocks: all lines of the first page, then those of the second, and so on. A
//! slice is one piece.
//!
//! Invariant: the order and the pieces follow from the number of lines of each page alone, and are the
//! same in all slices of a segment.

use std::collections::BTreeMap;
use std::ops::Range;

use super::filter::KeyPlace;

/// A piece is closed once it has this many lines: 4 KiB.
const PIECE_LINES: u32 = 64;

/// Where the lines of pages are in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceOrder {
    lines: Lines,
    /// The first line of each piece, then the number of lines.
    cuts: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Lines {
    /// The first line of each page, and the page's number of lines.
    ByPage(Vec<(u32, u32)>),
    ByPlace(Vec<Class>),
}

/// Pages with the same number of lines per slice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    lines: u32,
    /// The positions of its pages in the segment.
    pages: Vec<u16>,
    /// The first line of the class in a slice.
    start: u32,
}

impl Class {
    /// The lines of its pages that may have a key.
    fn lines_of(&self, place: &KeyPlace) -> Range<u32> {
        self.lines_at(place.line(self.lines))
    }

    /// The lines of its pages with this number.
    fn lines_at(&self, line: u32) -> Range<u32> {
        let pages = self.pages.len() as u32;
        let start = self.start + line * pages;
        start..start + pages
    }
}

/// The lines of one page in a slice: the first, and every one that many lines later.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLines {
    start: u32,
    step: u32,
    pub(super) count: u32,
}

impl PageLines {
    /// Those within a range of lines, each with its number in the page.
    pub(super) fn within(self, lines: Range<u32>) -> impl Iterator<Item = (u32, u32)> {
        let Self { start, step, count } = self;
        let first = lines.start.saturating_sub(start).div_ceil(step).min(count);
        let end = lines.end.saturating_sub(start).div_ceil(step).min(count);
        (first..end).map(move |number| (number, start + number * step))
    }
}

impl SliceOrder {
    /// The order by page. `lines` has the number of lines per slice of each page.
    pub(super) fn by_page(lines: &[u32]) -> Self {
        let mut at = 0;
        let of_page = |count: &u32| {
            at += count;
            (at - count, *count)
        };
        let starts = lines.iter().map(of_page).collect();
        Self { lines: Lines::ByPage(starts), cuts: if at > 0 { vec![0, at] } else { vec![0] } }
    }

    /// The order by place. Takes time and memory in proportion to the lines of a slice at most.
    pub(super) fn by_place(lines: &[u32]) -> Self {
        let mut pages: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
        for (page, lines) in (0..).zip(lines).filter(|(_, lines)| **lines > 0) {
            pages.entry(*lines).or_default().push(page);
        }
        let (mut classes, mut cuts, mut at, mut cut) = (Vec::new(), vec![0], 0, 0);
        for (lines, pages) in pages {
            let class = Class { lines, pages, start: at };
            for line in 0..lines {
                at = class.lines_at(line).end;
                if at - cut >= PIECE_LINES {
                    cuts.push(at);
                    cut = at;
                }
            }
            classes.push(class);
        }
        if cut < at {
            cuts.push(at);
        }
        Self { lines: Lines::ByPlace(classes), cuts }
    }

    /// Whether it is the order by page.
    pub(super) fn is_by_page(&self) -> bool {
        matches!(self.lines, Lines::ByPage(_))
    }

    /// The number of lines of a slice.
    pub(super) fn len(&self) -> u32 {
        self.cuts.last().copied().unwrap_or(0)
    }

    /// The number of pieces of a slice.
    pub(super) fn pieces(&self) -> usize {
        self.cuts.len() - 1
    }

    /// The lines of a piece.
    pub(super) fn piece(&self, piece: usize) -> Range<u32> {
        self.cuts[piece]..self.cuts[piece + 1]
    }

    /// The piece that has a line.
    pub(super) fn piece_of(&self, line: u32) -> usize {
        self.cuts.partition_point(|start| *start <= line) - 1
    }

    /// Calls `found` with the pieces that have the lines of a key.
    pub(super) fn each_piece(&self, place: &KeyPlace, mut found: impl FnMut(usize)) {
        match &self.lines {
            Lines::ByPage(_) => (0..self.pieces()).for_each(found),
            Lines::ByPlace(classes) => {
                for lines in classes.iter().map(|class| class.lines_of(place)) {
                    (self.piece_of(lines.start)..=self.piece_of(lines.end - 1)).for_each(&mut found);
                }
            }
        }
    }

    /// Calls `visit` with each page that has a filter, and its line for a key.
    pub(super) fn each_line(&self, place: &KeyPlace, mut visit: impl FnMut(usize, u32)) {
        match &self.lines {
            Lines::ByPage(starts) => {
                for (page, (start, lines)) in starts.iter().enumerate().filter(|(_, (_, lines))| *lines > 0) {
                    visit(page, start + place.line(*lines));
                }
            }
            Lines::ByPlace(classes) => {
                for class in classes {
                    let pages = class.pages.iter().zip(class.lines_of(place));
                    pages.for_each(|(page, line)| visit(usize::from(*page), line));
                }
            }
        }
    }

    /// Calls `visit` with the page and the number in the page of each line, in the order of a slice.
    pub(super) fn each(&self, mut visit: impl FnMut(usize, u32)) {
        match &self.lines {
            Lines::ByPage(starts) => {
                for (page, (_, lines)) in starts.iter().enumerate() {
                    (0..*lines).for_each(|line| visit(page, line));
                }
            }
            Lines::ByPlace(classes) => {
                for class in classes {
                    for line in 0..class.lines {
                        class.pages.iter().for_each(|page| visit(usize::from(*page), line));
                    }
                }
            }
        }
    }

    /// The lines of a page in a slice.
    pub(super) fn lines_of_page(&self, page: usize) -> PageLines {
        let (start, step, count) = match &self.lines {
            Lines::ByPage(starts) => starts.get(page).map_or((0, 1, 0), |(start, lines)| (*start, 1, *lines)),
            Lines::ByPlace(classes) => {
                let of_class = |class: &Class| {
                    let at = class.pages.binary_search(&(page as u16)).ok()? as u32;
                    Some((class.start + at, class.pages.len() as u32, class.lines))
                };
                classes.iter().find_map(of_class).unwrap_or((0, 1, 0))
            }
        };
        PageLines { start, step, count }
    }

    /// Bytes that it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let lines = match &self.lines {
            Lines::ByPage(starts) => starts.len() * 8,
            Lines::ByPlace(classes) => {
                classes.iter().map(|class| size_of::<Class>() + class.pages.len() * 2).sum()
            }
        };
        (self.cuts.len() * 4 + lines) as u64
    }
}
