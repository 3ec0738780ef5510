//! The order of lines in the slices of a segment, and the pieces into which a slice is divided. A *line*
//! is a block of 64 bytes of one page's filter.
//!
//! **By place**, since version 6 of log blocks. A key is in the line at the same fraction of each page's
//! slice. The pages of a segment are divided into classes by the number of their lines per slice: class
//! `c` has the pages with 2^c to 2^(c+1) - 1 lines. A class has 2^c buckets; line `b` of `n` is in bucket
//! `b * 2^c / n`, rounded down. A slice consists of the classes in ascending order, each of its buckets in
//! order, each of the lines of its pages in order. The lines of a key are then in two adjacent buckets
//! of each class, so a test reads a small part of a slice. Pieces end with buckets.
//!
//! **By page**, in older blocks: all lines of the first page, then those of the second, and so on. A
//! slice is one piece.
//!
//! Invariant: the order and the pieces follow from the number of lines of each page alone, and are the
//! same in all slices of a segment.

use std::ops::Range;

use super::filter::KeyPlace;

/// A piece is closed once it has this many lines: 16 KiB.
const PIECE_LINES: u32 = 256;

/// Where the lines of pages are in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceOrder {
    lines: Lines,
    /// The first line of each piece, then the number of lines.
    cuts: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Lines {
    /// The first line of each page.
    ByPage(Vec<u32>),
    ByPlace(Vec<Class>),
}

/// Pages with 2^`log2` to 2^(`log2` + 1) - 1 lines per slice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    log2: u32,
    /// The positions of its pages in the segment, and their lines per slice.
    pages: Vec<(u16, u32)>,
    /// The first line of each bucket, then the end of the last one.
    starts: Vec<u32>,
}

impl Class {
    /// The first of a page's lines that is in this bucket or a later one.
    fn first(&self, lines: u32, bucket: u32) -> u32 {
        (u64::from(bucket) * u64::from(lines)).div_ceil(1 << self.log2) as u32
    }

    fn bucket(&self, line: u32, lines: u32) -> u32 {
        ((u64::from(line) << self.log2) / u64::from(lines)) as u32
    }

    /// The buckets that have the lines of a key.
    fn buckets_of(&self, place: &KeyPlace) -> Range<u32> {
        let last = place.line(1 << self.log2);
        last.saturating_sub(1)..last + 1
    }

    /// Calls `visit` with each page and its line for a key.
    fn each_line(&self, place: &KeyPlace, mut visit: impl FnMut(usize, u32)) {
        let buckets = self.buckets_of(place);
        // The next line of each bucket.
        let mut next: [u32; 2] = [0, 1].map(|n| self.starts[(buckets.start + n).min(buckets.end) as usize]);
        for &(page, lines) in &self.pages {
            let line = place.line(lines);
            let bucket = self.bucket(line, lines);
            let ahead = line - self.first(lines, bucket);
            visit(page as usize, next[(bucket - buckets.start) as usize] + ahead);
            for (bucket, next) in buckets.clone().zip(&mut next) {
                *next += self.first(lines, bucket + 1) - self.first(lines, bucket);
            }
        }
    }
}

impl SliceOrder {
    /// The order by page. `lines` has the number of lines per slice of each page.
    pub(super) fn by_page(lines: &[u32]) -> Self {
        let mut starts = Vec::with_capacity(lines.len());
        let mut at = 0;
        for count in lines {
            starts.push(at);
            at += count;
        }
        Self { lines: Lines::ByPage(starts), cuts: if at > 0 { vec![0, at] } else { vec![0] } }
    }

    /// The order by place. Takes time and memory in proportion to the lines of a slice at most.
    pub(super) fn by_place(lines: &[u32]) -> Self {
        let (mut classes, mut cuts, mut at) = (Vec::new(), vec![0], 0);
        for log2 in 0..u32::BITS {
            let of_class =
                (0u16..).zip(lines.iter().copied()).filter(|(_, lines)| lines.checked_ilog2() == Some(log2));
            let mut class = Class { log2, pages: of_class.collect(), starts: Vec::new() };
            if class.pages.is_empty() {
                continue;
            }
            for bucket in 0..1u32 << log2 {
                class.starts.push(at);
                let of_page =
                    |&(_, lines): &(u16, u32)| class.first(lines, bucket + 1) - class.first(lines, bucket);
                at += class.pages.iter().map(of_page).sum::<u32>();
                if at - cuts[cuts.len() - 1] >= PIECE_LINES {
                    cuts.push(at);
                }
            }
            class.starts.push(at);
            classes.push(class);
        }
        if cuts[cuts.len() - 1] < at {
            cuts.push(at);
        }
        Self { lines: Lines::ByPlace(classes), cuts }
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
                for class in classes {
                    let Range { start, end } = class.buckets_of(place);
                    let lines = class.starts[start as usize]..class.starts[end as usize];
                    (self.piece_of(lines.start)..=self.piece_of(lines.end - 1)).for_each(&mut found);
                }
            }
        }
    }

    /// Calls `visit` with each page that has a filter, and its line for a key. `lines` are those that
    /// the order was made of.
    pub(super) fn each_line(&self, lines: &[u32], place: &KeyPlace, mut visit: impl FnMut(usize, u32)) {
        match &self.lines {
            Lines::ByPage(starts) => {
                let pages = starts.iter().zip(lines).enumerate();
                let pages = pages.filter(|(_, (_, lines))| **lines > 0);
                pages.for_each(|(page, (start, lines))| visit(page, start + place.line(*lines)));
            }
            Lines::ByPlace(classes) => classes.iter().for_each(|class| class.each_line(place, &mut visit)),
        }
    }

    /// Calls `visit` with runs of lines of pages in the order of a slice: the page, the first line of
    /// the run in the page, and the length of the run.
    pub(super) fn each_run(&self, lines: &[u32], mut visit: impl FnMut(usize, Range<u32>)) {
        match &self.lines {
            Lines::ByPage(_) => lines.iter().enumerate().for_each(|(page, lines)| visit(page, 0..*lines)),
            Lines::ByPlace(classes) => {
                for class in classes {
                    for bucket in 0..1u32 << class.log2 {
                        for &(page, lines) in &class.pages {
                            let run = class.first(lines, bucket)..class.first(lines, bucket + 1);
                            visit(page as usize, run);
                        }
                    }
                }
            }
        }
    }

    /// Bytes that it takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let lines = match &self.lines {
            Lines::ByPage(starts) => starts.len() * 4,
            Lines::ByPlace(classes) => classes
                .iter()
                .map(|class| size_of::<Class>() + class.pages.len() * 8 + class.starts.len() * 4)
                .sum(),
        };
        (self.cuts.len() * 4 + lines) as u64
    }
}
