//! Stores the tokens of a pool: as numbers, or with repetitions removed and the rest as patterns of atoms
//! or as text.

use crate::codec::varint::put_varint;

use super::atoms::{Cutter, wide_bytes};
use super::column::{ColumnScratch, put_numbers};
use super::repeats::{ALL_NEW, Repeats};
use super::sink::Sink;
use super::split::Token;
use super::table::{ShapeTable, Split};
use super::words::{fold_bytes, same_bytes};

/// A pool of numbers: a column follows.
pub(super) const POOL_NUMBERS: u8 = 0;
/// A pool of tokens, plus the kind of repetitions.
pub(super) const POOL_TOKENS: u8 = 1;

/// The tokens are in the text, each followed by a line feed.
pub(super) const BODY_TEXT: u8 = 0;
/// The lengths of the tokens follow as a column; the tokens are in the text.
pub(super) const BODY_MEASURED: u8 = 1;
/// Patterns follow.
pub(super) const BODY_PATTERNS: u8 = 2;

/// Most patterns of a pool: their numbers are bytes.
pub(super) const MAX_PATTERNS: usize = 256;

/// Fewer tokens are stored as text.
const MIN_PATTERN_TOKENS: usize = 16;

/// Approximate bits that a repeated byte of text takes when it is stored again.
const BITS_PER_BYTE: u64 = 3;

/// Reusable memory for the tokens of a pool.
#[derive(Default)]
pub(super) struct TokenScratch {
    repeats: Repeats,
    different: Vec<Token>,
    patterns: ShapeTable,
    split: Split,
    /// The atoms of all tokens, the bytes of the wide ones, and the patterns of the tokens.
    atoms: Vec<u64>,
    wide: Vec<u8>,
    ids: Vec<u8>,
    plane: Vec<u8>,
    numbers: Vec<u64>,
    routes: Routes,
    column: ColumnScratch,
}

/// Assigns each atom of each pattern to a column.
#[derive(Default)]
struct Routes {
    /// Code of the atoms, their index in the pattern and the byte before them.
    columns: Vec<(u8, usize, u8)>,
    /// Start of each column among all atoms, and the end of the last.
    starts: Vec<usize>,
    /// Column of each atom, pattern by pattern.
    routes: Vec<usize>,
    /// Start of the routes of each pattern, and the end of the last.
    route_starts: Vec<usize>,
}

/// Stores the tokens of a pool; stores nothing if there are none.
pub(super) fn put_pool(lines: &[u8], tokens: &[Token], scratch: &mut TokenScratch, sink: &mut Sink) {
    if tokens.is_empty() {
        return;
    }
    let numbers = &mut scratch.numbers;
    numbers.clear();
    numbers.extend(tokens.iter().map_while(|token| token.number()));
    if numbers.len() == tokens.len() {
        sink.directory.push(POOL_NUMBERS);
        return put_numbers(numbers, &mut scratch.column, sink);
    }
    put_repeats(lines, tokens, scratch, sink);
    if find_patterns(lines, scratch) {
        sink.directory.push(BODY_PATTERNS);
        put_patterns(scratch, sink);
    } else {
        put_text(lines, scratch, sink);
    }
}

/// Stores the repetitions if that saves space, and leaves in the scratch the tokens that remain to be
/// stored.
fn put_repeats(lines: &[u8], tokens: &[Token], scratch: &mut TokenScratch, sink: &mut Sink) {
    let TokenScratch { repeats, different, plane, .. } = scratch;
    different.clear();
    let same = |a: usize, b: usize| tokens[a].is_same(tokens[b], lines);
    if let Some(choice) = repeats.find(tokens.len(), |i| tokens[i].hash(), same) {
        let bytes = |tokens: &mut dyn Iterator<Item = Token>| tokens.map(|t| t.len() as u64).sum::<u64>();
        different.extend(repeats.firsts().map(|first| tokens[first]));
        let saved = bytes(&mut tokens.iter().copied()) - bytes(&mut different.iter().copied());
        if choice.bits < saved * BITS_PER_BYTE {
            sink.directory.push(POOL_TOKENS + choice.tag);
            return repeats.put(choice, plane, sink);
        }
    }
    sink.directory.push(POOL_TOKENS + ALL_NEW);
    different.clear();
    different.extend_from_slice(tokens);
}

fn put_text(lines: &[u8], scratch: &mut TokenScratch, sink: &mut Sink) {
    let TokenScratch { different, numbers, column, .. } = scratch;
    let start = sink.text.len();
    for token in different.iter() {
        sink.text.extend_from_slice(&lines[token.start()..token.end()]);
        sink.text.push(b'\n');
    }
    if memchr::memchr_iter(b'\n', &sink.text[start..]).count() == different.len() {
        return sink.directory.push(BODY_TEXT);
    }
    sink.directory.push(BODY_MEASURED);
    sink.text.truncate(start);
    different.iter().for_each(|t| sink.text.extend_from_slice(&lines[t.start()..t.end()]));
    numbers.clear();
    numbers.extend(different.iter().map(|t| t.len() as u64));
    put_numbers(numbers, column, sink);
}

/// Splits the tokens into atoms; false when that gives too many patterns.
fn find_patterns(lines: &[u8], scratch: &mut TokenScratch) -> bool {
    let TokenScratch { different, patterns, split, atoms, wide, ids, .. } = scratch;
    if different.len() < MIN_PATTERN_TOKENS {
        return false;
    }
    patterns.reset(MAX_PATTERNS + 1);
    atoms.clear();
    wide.clear();
    ids.clear();
    for (done, token) in different.iter().enumerate() {
        Cutter { text: lines, split, atoms, wide }.cut(token.start(), token.end());
        let pattern = patterns.add(split, lines, token.end());
        if patterns.len() > MAX_PATTERNS.min(12 + done / 6) {
            return false;
        }
        ids.push(pattern as u8);
    }
    true
}

impl Routes {
    /// Assigns all atoms to columns.
    fn plan(&mut self, patterns: &ShapeTable) {
        self.columns.clear();
        self.routes.clear();
        self.route_starts.clear();
        let mut sizes = Vec::new();
        for pattern in patterns.shapes() {
            self.route_starts.push(self.routes.len());
            let constants = patterns.constants(pattern);
            let mut at = 0;
            for (place, slot) in patterns.slots(pattern).iter().enumerate() {
                at += slot.constant();
                let before = if slot.constant() > 0 { constants[at - 1] } else { 0 };
                let key = (slot.code(), place, before);
                let known = self.columns.iter().position(|column| *column == key);
                let column = known.unwrap_or(self.columns.len());
                if column == self.columns.len() {
                    self.columns.push(key);
                    sizes.push(0);
                }
                sizes[column] += pattern.uses as usize;
                self.routes.push(column);
            }
        }
        self.route_starts.push(self.routes.len());
        self.starts.clear();
        self.starts.push(0);
        for size in sizes {
            self.starts.push(self.starts.last().expect("pushed above") + size);
        }
    }

    /// Sorts the atoms of all tokens, whose patterns are `ids`, into columns.
    fn fill(&self, ids: &[u8], atoms: &[u64], out: &mut Vec<u64>) {
        out.clear();
        out.resize(atoms.len(), 0);
        let mut cursors = self.starts.clone();
        let mut rest = atoms;
        for &id in ids {
            let routes = &self.routes[self.route_starts[id as usize]..self.route_starts[id as usize + 1]];
            let (now, later) = rest.split_at(routes.len());
            rest = later;
            for (&route, &atom) in routes.iter().zip(now) {
                out[cursors[route]] = atom;
                cursors[route] += 1;
            }
        }
    }
}

fn put_patterns(scratch: &mut TokenScratch, sink: &mut Sink) {
    let TokenScratch { patterns, atoms, wide, ids, numbers, routes, column, repeats, plane, .. } = scratch;
    routes.plan(patterns);
    routes.fill(ids, atoms, numbers);
    sink.put(patterns.len() as u64);
    let mut route = routes.routes.iter();
    for pattern in patterns.shapes() {
        let (slots, constants) = (patterns.slots(pattern), patterns.constants(pattern));
        sink.put(slots.len() as u64);
        let mut tail = constants.len();
        for (slot, &column) in slots.iter().zip(&mut route) {
            tail -= slot.constant();
            put_varint(&mut sink.directory, slot.constant() as u64);
            put_varint(&mut sink.directory, column as u64);
        }
        sink.put(tail as u64);
        sink.text.extend_from_slice(constants);
    }
    sink.put(routes.columns.len() as u64);
    routes.columns.iter().for_each(|&(code, ..)| sink.directory.push(code));
    sink.put_plane(ids);
    for (&(code, ..), range) in routes.columns.iter().zip(routes.starts.windows(2)) {
        let values = &numbers[range[0]..range[1]];
        match wide_bytes(code) {
            Some(width) => put_wide(wide, values, width, (repeats, plane), sink),
            None => put_numbers(values, column, sink),
        }
    }
}

/// Stores the wide atoms of `width` bytes at `positions` of `wide`.
fn put_wide(
    wide: &[u8],
    positions: &[u64],
    width: usize,
    (repeats, plane): (&mut Repeats, &mut Vec<u8>),
    sink: &mut Sink,
) {
    let at = |i: usize| positions[i] as usize;
    let hash = |i: usize| fold_bytes(0, &wide[at(i)..at(i) + width]);
    let same = |a: usize, b: usize| same_bytes((wide, at(a)), (wide, at(b)), width);
    let found = repeats.find(positions.len(), hash, same);
    let repeated = positions.len() - repeats.firsts().count();
    let choice = found.filter(|choice| choice.bits < (repeated * width * 8) as u64);
    sink.directory.push(choice.map_or(ALL_NEW, |choice| choice.tag));
    match choice {
        Some(choice) => {
            repeats.put(choice, plane, sink);
            repeats
                .firsts()
                .for_each(|first| sink.bits.extend_from_slice(&wide[at(first)..at(first) + width]));
        }
        None => (0..positions.len()).for_each(|i| sink.bits.extend_from_slice(&wide[at(i)..at(i) + width])),
    }
}
