//! Native histograms of a page.
//!
//! Layout: a byte that says whether there are start times ([`super::starts`]), these; the distinct
//! shapes; packed per row: number of its shape, hint of a counter reset (0 to 3, plus 4 when it was sent
//! with integer counts); the sums; the counts. A shape is a schema (zigzag), the bits of the zero
//! threshold, the custom bounds, the indices of the positive and of the negative buckets. The counts of
//! consecutive rows of one run with one shape are transposed: first all their counts, then their zero
//! counts, then those of each bucket, so that slowly growing numbers are adjacent. Sums and counts are
//! encoded like the values of floats, each with its own table.

use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;
use sandur_model::histogram::{Buckets, CounterReset, FloatHistogram};

use super::PART_PAGE;
use super::scaling::{Form, Numbers, STARTS, Scaled, ends_of};
use super::starts;
use crate::codec::Reader;
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::number_page::{Moments, NumberScratch, NumberTable};
use crate::codec::numbers::compress;
use crate::codec::varint::{put_blob, put_signed, put_varint, unzigzag, zigzag};
use crate::error::Error;

/// Most sums, counts and bucket counts of a page.
pub(super) const NUMBERS_MAX: u32 = 1 << 21;
const LEVEL: usize = 6;
/// Counts of a histogram other than those of buckets.
const FIXED_COUNTS: usize = 2;
/// Added to the hint of a reset: the histogram was sent with integer counts.
const INTEGER: u64 = 4;

/// Histograms of a page, row by row.
pub(super) struct HistogramColumns {
    pub(super) histograms: Vec<Arc<FloatHistogram>>,
    pub(super) integers: Vec<bool>,
    pub(super) starts: Vec<i64>,
}

/// The properties of a histogram other than its numbers.
#[derive(Clone, Debug, Default)]
struct Shape {
    schema: i32,
    zero_threshold: f64,
    bounds: Arc<[f64]>,
    positive: Vec<i32>,
    negative: Vec<i32>,
}

impl Shape {
    fn put(histogram: &FloatHistogram, out: &mut Vec<u8>) {
        put_signed(out, i64::from(histogram.schema));
        out.extend_from_slice(&histogram.zero_threshold.to_bits().to_le_bytes());
        put_varint(out, histogram.bounds.len() as u64);
        histogram.bounds.iter().for_each(|bound| out.extend_from_slice(&bound.to_bits().to_le_bytes()));
        for buckets in [&histogram.positive, &histogram.negative] {
            put_varint(out, buckets.indices.len() as u64);
            let mut before = 0i64;
            let distance = |index: &i32| {
                let distance = i64::from(*index) - before;
                before = i64::from(*index);
                zigzag(distance)
            };
            put_packed(out, &buckets.indices.iter().map(distance).collect::<Vec<_>>());
        }
    }

    fn get(reader: &mut Reader<'_>, counts_max: u64) -> Result<Self, Error> {
        let schema = i32::try_from(reader.signed()?);
        let schema = schema.map_err(|_| reader.malformed("the schema of a histogram is out of bounds"))?;
        let zero_threshold = f64::from_bits(reader.u64()?);
        let mut bounds = Vec::new();
        for _ in 0..reader.count_of(size_of::<f64>())? {
            bounds.push(f64::from_bits(reader.u64()?));
        }
        let positive = get_indices(reader, counts_max)?;
        let negative = get_indices(reader, counts_max - positive.len() as u64)?;
        Ok(Self { schema, zero_threshold, bounds: bounds.into(), positive, negative })
    }

    fn counts(&self) -> usize {
        FIXED_COUNTS + self.positive.len() + self.negative.len()
    }
}

fn get_indices(reader: &mut Reader<'_>, most: u64) -> Result<Vec<i32>, Error> {
    let count = reader.count("buckets of a histogram", most as usize)?;
    let distances = get_packed(reader, count, unzigzag)?;
    let mut indices: Vec<i32> = Vec::with_capacity(count);
    let mut index = 0i64;
    for distance in distances {
        index = index.saturating_add(distance);
        let valid = i32::try_from(index).ok().filter(|index| indices.last().is_none_or(|last| last < index));
        indices.push(valid.ok_or_else(|| reader.malformed("buckets are out of order or out of bounds"))?);
    }
    Ok(indices)
}

/// Returns shape and number of rows of each stretch of consecutive rows with one shape within a run.
fn stretches(shapes: &[u32], run_ends: &[u32]) -> Vec<(u32, u32)> {
    let (mut all, mut start): (Vec<(u32, u32)>, usize) = (Vec::new(), 0);
    for end in run_ends {
        for (n, shape) in shapes[start..*end as usize].iter().enumerate() {
            match all.last_mut() {
                Some((last, rows)) if n > 0 && last == shape => *rows += 1,
                _ => all.push((*shape, 1)),
            }
        }
        start = *end as usize;
    }
    all
}

fn reset_code(reset: CounterReset) -> u64 {
    match reset {
        CounterReset::Unknown => 0,
        CounterReset::Reset => 1,
        CounterReset::NotReset => 2,
        CounterReset::Gauge => 3,
    }
}

fn put_values(out: &mut Vec<u8>, values: &[f64], ends: &[u32]) -> Result<(), Error> {
    let scaled = Scaled::of(values, ends, false);
    scaled.put(out, 0);
    if scaled.rest.iter().all(|rest| *rest == 0) {
        put_varint(out, 0);
        return Ok(());
    }
    let chunk = compress(&scaled.rest, vec![values.len()], 1, LEVEL, Moments::Stored)?;
    put_blob(out, &chunk.table);
    put_blob(out, &chunk.pages);
    Ok(())
}

fn get_values(reader: &mut Reader<'_>, ends: &[u32]) -> Result<Vec<f64>, Error> {
    let (form, _) = Form::get(reader, ends)?;
    let count = ends.last().copied().unwrap_or(0) as usize;
    let (offset, table) = (reader.offset(), reader.blob()?);
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let kept: Vec<Range<u32>> = begins.zip(ends).map(|(begin, end)| begin..*end).collect();
    if table.is_empty() {
        return form
            .values(Numbers::Zeros(count), ends, &kept)
            .map_err(|error| error.within(PART_PAGE, offset));
    }
    let (table, mut scratch) = (NumberTable::new(table, PART_PAGE, offset)?, NumberScratch::default());
    let page = table.page(reader.blob()?, count, Moments::Stored, &mut scratch);
    let values = page.and_then(|page| form.values(Numbers::Page(page), ends, &kept));
    values.map_err(|error| error.within(PART_PAGE, offset))
}

/// Appends histograms, whose runs end before the rows in `run_ends`, and returns how many numbers they
/// have.
pub(super) fn put(
    out: &mut Vec<u8>,
    histograms: &[Arc<FloatHistogram>],
    integers: &[bool],
    start_times: &[i64],
    run_ends: &[u32],
) -> Result<u32, Error> {
    out.push(if start_times.is_empty() { 0 } else { STARTS });
    if !start_times.is_empty() {
        starts::put(out, start_times);
    }
    let mut known: HashMap<Vec<u8>, u32> = HashMap::default();
    let (mut shapes, mut bytes_of_shapes, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for histogram in histograms {
        bytes.clear();
        Shape::put(histogram, &mut bytes);
        let next = known.len() as u32;
        shapes.push(*known.entry(bytes.clone()).or_insert_with(|| {
            bytes_of_shapes.extend_from_slice(&bytes);
            next
        }));
    }
    put_varint(out, known.len() as u64);
    out.extend_from_slice(&bytes_of_shapes);
    put_packed(out, &shapes.iter().map(|shape| u64::from(*shape)).collect::<Vec<_>>());
    let hint = |(row, histogram): (usize, &Arc<FloatHistogram>)| {
        let integer = integers.get(row).copied().unwrap_or(false);
        reset_code(histogram.reset) | if integer { INTEGER } else { 0 }
    };
    put_packed(out, &histograms.iter().enumerate().map(hint).collect::<Vec<_>>());
    let sums: Vec<f64> = histograms.iter().map(|histogram| histogram.sum).collect();
    put_values(out, &sums, run_ends)?;
    let (mut counts, mut lengths, mut row) = (Vec::new(), Vec::new(), 0);
    for (_, rows) in stretches(&shapes, run_ends) {
        let some = &histograms[row..row + rows as usize];
        row += rows as usize;
        counts.extend(some.iter().map(|histogram| histogram.count));
        counts.extend(some.iter().map(|histogram| histogram.zero_count));
        lengths.extend([rows; FIXED_COUNTS]);
        let first = &some[0];
        for bucket in 0..first.positive.counts.len() {
            counts.extend(some.iter().map(|histogram| histogram.positive.counts[bucket]));
            lengths.push(rows);
        }
        for bucket in 0..first.negative.counts.len() {
            counts.extend(some.iter().map(|histogram| histogram.negative.counts[bucket]));
            lengths.push(rows);
        }
    }
    let numbers = (sums.len() + counts.len()) as u64;
    if numbers > u64::from(NUMBERS_MAX) {
        let (part, what, limit) = (PART_PAGE, "buckets of histograms", u64::from(NUMBERS_MAX));
        return Err(Error::TooLarge { part, what, found: numbers, limit });
    }
    put_values(out, &counts, &ends_of(lengths.into_iter()))?;
    Ok(numbers as u32)
}

/// Reads the histograms of runs that end before these rows, and their start times. `numbers` is their
/// number of numbers in the directory.
pub(super) fn get(
    reader: &mut Reader<'_>,
    run_ends: &[u32],
    numbers: u32,
) -> Result<HistogramColumns, Error> {
    let rows = run_ends.last().copied().unwrap_or(0) as usize;
    let start_times = if reader.u8()? & STARTS != 0 { starts::get(reader, rows)? } else { Vec::new() };
    let count = reader.count("shapes of histograms", rows)?;
    let (mut shapes, mut left) = (Vec::new(), u64::from(numbers));
    for _ in 0..count {
        // Every shape has a row, so all shapes together have no more counts than the page.
        let shape = Shape::get(reader, left)?;
        left = left.saturating_sub(shape.counts() as u64);
        shapes.push(shape);
    }
    let shape_of = get_packed_u32(reader, rows)?;
    let resets = get_packed_u32(reader, rows)?;
    if shape_of.iter().any(|shape| *shape as usize >= count) || resets.iter().any(|reset| *reset > 7) {
        return Err(reader.malformed("a histogram has an unknown shape or hint"));
    }
    let stretches = stretches(&shape_of, run_ends);
    let counts_of = |(shape, rows): &(u32, u32)| shapes[*shape as usize].counts() as u64 * u64::from(*rows);
    if rows as u64 + stretches.iter().map(counts_of).sum::<u64>() != u64::from(numbers) {
        return Err(reader.malformed("histograms and their page differ in their number of buckets"));
    }
    let sums = get_values(reader, run_ends)?;
    let lengths = stretches
        .iter()
        .flat_map(|(shape, rows)| std::iter::repeat_n(*rows, shapes[*shape as usize].counts()));
    let counts = get_values(reader, &ends_of(lengths))?;
    let mut histograms = Vec::with_capacity(rows);
    let mut at = 0;
    for (shape, length) in stretches {
        let (shape, length) = (&shapes[shape as usize], length as usize);
        for n in 0..length {
            let row = histograms.len();
            let mut column = (at + n..).step_by(length.max(1)).map(|index| counts[index]);
            let (count, zero_count) = (column.next().unwrap_or(0.0), column.next().unwrap_or(0.0));
            let mut buckets = |indices: &[i32]| Buckets {
                indices: indices.to_vec(),
                counts: column.by_ref().take(indices.len()).collect(),
            };
            let (positive, negative) = (buckets(&shape.positive), buckets(&shape.negative));
            histograms.push(Arc::new(FloatHistogram {
                reset: reset_of(resets[row]),
                schema: shape.schema,
                zero_threshold: shape.zero_threshold,
                zero_count,
                count,
                sum: sums[row],
                positive,
                negative,
                bounds: Arc::clone(&shape.bounds),
            }));
        }
        at += length * shape.counts();
    }
    let integers = resets.iter().map(|reset| u64::from(*reset) & INTEGER != 0).collect();
    Ok(HistogramColumns { histograms, integers, starts: start_times })
}

fn reset_of(code: u32) -> CounterReset {
    match code & 3 {
        1 => CounterReset::Reset,
        2 => CounterReset::NotReset,
        3 => CounterReset::Gauge,
        _ => CounterReset::Unknown,
    }
}
