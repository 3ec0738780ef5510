//! The encoder: splits the lines, sorts the variable tokens into pools, and stores shapes and pools.

use crate::codec::varint::zigzag;

use super::clock::MAX_CLOCKS;
use super::column::{ColumnScratch, put_numbers};
use super::pools::Pools;
use super::sink::Sink;
use super::split::{Splitter, VARIABLE};
use super::table::ShapeTable;
use super::tokens::{TokenScratch, put_pool};
use super::{BYTES_PER_SLOT, MAX_TEXT, VERSION, stream_limit};

/// Fewer lines are not encoded.
const MIN_ROWS: usize = 32;

/// At most one new shape per this many lines.
const ROWS_PER_SHAPE: usize = 4;

/// New shapes that are allowed for any number of lines.
const FREE_SHAPES: usize = 16;

/// zstd's size of the lines is estimated from two pieces: each is this fraction (1/64) of the lines, but
/// at least this many bytes.
const SAMPLE_PART: usize = 64;
const SAMPLE_BYTES: usize = 16 << 10;

/// Reusable memory of the encoder; its contents between calls do not affect results.
#[derive(Default)]
pub struct ShapeScratch {
    splitter: Splitter,
    shapes: ShapeTable,
    /// The shape of each row.
    rows: Vec<u32>,
    pools: Pools,
    sink: Sink,
    tokens: TokenScratch,
    numbers: Vec<u64>,
    column: ColumnScratch,
    plane: Vec<u8>,
}

/// Memory for encoding up to this many bytes of lines is kept for the next lines; more is released.
const KEPT: usize = 4 << 20;

/// Appends the encoded lines to `out` and returns true. Returns false, and leaves `out` unchanged, when
/// the lines have too little in common, or plain zstd would store them about as well.
///
/// `lines` holds every line followed by one `\n`; `ends` are the offsets of these separators;
/// `timestamps` are the rows' in nanoseconds since the epoch. The same lines give the same bytes,
/// whatever `scratch` was used for before.
pub fn encode(
    lines: &[u8],
    ends: &[u32],
    timestamps: &[i64],
    scratch: &mut ShapeScratch,
    out: &mut Vec<u8>,
) -> bool {
    if ends.len() < MIN_ROWS || ends.len() != timestamps.len() || !is_well_formed(lines, ends) {
        return false;
    }
    let encoded = split_lines(lines, ends, timestamps, scratch) && put_lines(lines, scratch, out);
    if lines.len() > KEPT {
        *scratch = ShapeScratch::default();
    }
    encoded
}

/// Stores the split lines, unless that saves too little.
fn put_lines(lines: &[u8], scratch: &mut ShapeScratch, out: &mut Vec<u8>) -> bool {
    let ShapeScratch { splitter, shapes, rows, pools, sink, .. } = scratch;
    pools.plan(shapes);
    pools.fill(rows, &splitter.tokens);
    sink.clear();
    put_clocks(splitter, sink);
    put_shapes(shapes, pools, sink);
    put_rows(scratch);
    let ShapeScratch { pools, sink, tokens, .. } = scratch;
    for pool in 0..pools.len() {
        let pooled = pools.tokens(pool);
        sink.put_pool(|sink| put_pool(lines, pooled, tokens, sink));
    }
    if sink.longest() > stream_limit(lines.len()) / 2 {
        return false;
    }
    let start = out.len();
    out.push(VERSION);
    sink.finish(out);
    let pays = pays(lines, out.len() - start, sink);
    if !pays {
        out.truncate(start);
    }
    pays
}

/// Whether `lines` consists of lines that are each followed by a separator.
fn is_well_formed(lines: &[u8], ends: &[u32]) -> bool {
    let mut start = 0;
    let separated = ends.iter().all(|&end| {
        let fine = end as usize >= start && lines.get(end as usize) == Some(&b'\n');
        start = end as usize + 1;
        fine
    });
    separated && start == lines.len() && lines.len() <= MAX_TEXT
}

fn split_lines(lines: &[u8], ends: &[u32], timestamps: &[i64], scratch: &mut ShapeScratch) -> bool {
    let ShapeScratch { splitter, shapes, rows, .. } = scratch;
    let limit = ends.len() / ROWS_PER_SHAPE + FREE_SHAPES;
    shapes.reset(limit + 1);
    rows.clear();
    splitter.reset(lines, ends, timestamps);
    let mut start = 0;
    for (&end, &timestamp) in ends.iter().zip(timestamps) {
        let end = end as usize;
        splitter.split(lines, (start, end), timestamp);
        rows.push(shapes.add(&mut splitter.split, lines, end));
        if shapes.len() > limit {
            return false;
        }
        start = end + 1;
    }
    splitter.slots() <= lines.len() / BYTES_PER_SLOT
}

fn put_clocks(splitter: &Splitter, sink: &mut Sink) {
    let clocks = &splitter.clocks.clocks;
    sink.put(clocks.len() as u64);
    for clock in clocks {
        let pattern = clock.layout().pattern();
        sink.put(pattern.len() as u64);
        sink.directory.extend_from_slice(pattern);
    }
}

fn put_shapes(shapes: &ShapeTable, pools: &Pools, sink: &mut Sink) {
    sink.put(shapes.len() as u64);
    let mut routes = pools.routes().iter();
    for shape in shapes.shapes() {
        let (slots, constants) = (shapes.slots(shape), shapes.constants(shape));
        sink.put(slots.len() as u64);
        let mut tail = constants.len();
        for slot in slots {
            tail -= slot.constant();
            sink.put(slot.constant() as u64);
            sink.put(match slot.code() {
                VARIABLE => {
                    *routes.next().expect("each variable slot has a route") as u64 + MAX_CLOCKS as u64
                }
                clock => u64::from(clock) - 1,
            });
        }
        sink.put(tail as u64);
        sink.text.extend_from_slice(constants);
    }
}

fn put_rows(scratch: &mut ShapeScratch) {
    let ShapeScratch { splitter, shapes, rows, sink, numbers, column, plane, .. } = scratch;
    plane.clear();
    if shapes.len() <= 256 {
        plane.extend(rows.iter().map(|&shape| shape as u8));
    } else {
        plane.extend(rows.iter().flat_map(|&shape| (shape as u16).to_le_bytes()));
    }
    sink.put_plane(plane);
    for offsets in &splitter.offsets {
        numbers.clear();
        numbers.extend(offsets.iter().map(|&offset| zigzag(offset)));
        put_numbers(numbers, column, sink);
    }
}

/// Whether `stored` bytes are 5 % less than zstd alone would need. Mostly a sample decides.
fn pays(lines: &[u8], stored: usize, sink: &mut Sink) -> bool {
    let (mut sampled, mut compressed) = (0, 0);
    for part in [1, 3] {
        let from = lines.len() / 4 * part;
        let len = (lines.len() / SAMPLE_PART).max(SAMPLE_BYTES);
        let piece = &lines[from..(from + len).min(lines.len())];
        sampled += piece.len();
        compressed += sink.compressed_len(piece);
    }
    let estimate = compressed * lines.len() / sampled;
    // Long lines that repeat compress much better together than in pieces.
    stored * 10 < estimate * 7 || stored * 20 < sink.compressed_len(lines) * 19
}
