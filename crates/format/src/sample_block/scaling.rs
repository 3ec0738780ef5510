//! Converts the values of a page to integers with small deltas, and back without loss of a bit.
//!
//! Most metrics are integers or decimals with few places: `m / 10^places` with an integer `m`; the result
//! is compared with the value's bits before it is used. Any other value (a stale marker, an infinity,
//! -0.0) is an exception: its bits are stored separately, and the integer before it takes its place.
//! Values without few decimal places are converted by their bits, in an order that maps close values to
//! close integers.
//!
//! A run that continues a classic histogram may be stored as its difference from the run before, so that
//! the observations of one bucket remain. Then the run's first integer is subtracted, and all integers
//! are divided by their common divisor.

use std::ops::Range;

use crate::codec::Reader;
use crate::codec::number_page::{BATCH, NumberPage, PageError};
use crate::codec::varint::{put_signed, put_varint};
use crate::error::Error;

/// Most decimal places.
const PLACES_MAX: u8 = 9;
/// Marks values that are converted by their bits.
const BY_BITS: u8 = 15;
const POWERS: [f64; PLACES_MAX as usize + 1] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Flags of the first byte, in addition to the places.
const CHAINED: u8 = 1 << 4;
const STEPPED: u8 = 1 << 5;
const EXCEPTIONS: u8 = 1 << 6;
/// Set by pages whose samples have start times.
pub(super) const STARTS: u8 = 1 << 7;
/// One exception is allowed per this many values: it takes about ten bytes.
const ROWS_PER_EXCEPTION: usize = 16;

/// Returns the rows at which runs end.
pub(super) fn ends_of(rows: impl Iterator<Item = u32>) -> Vec<u32> {
    let ends = rows.scan(0, |end, rows| {
        *end += rows;
        Some(*end)
    });
    ends.collect()
}

/// Integers that represent the values of runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Scaled {
    /// The remaining integer of each value.
    pub(super) rest: Vec<i64>,
    form: Form,
}

/// The parameters that convert integers to values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Form {
    places: u8,
    chained: bool,
    /// The factor of all integers.
    step: u64,
    /// The first integer of each run.
    firsts: Vec<i64>,
    /// Rows with exceptions and the bits of their values, ascending.
    exceptions: Vec<(u32, u64)>,
}

/// Returns the value's bits in an order in which close values are close.
#[inline]
fn ordered(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

#[inline]
fn from_ordered(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ (((ordered >> 63) as u64) >> 1) as i64) as u64)
}

/// Returns the integer of a value with this number of places.
#[inline]
fn integer(value: f64, places: u8) -> Option<i64> {
    /// Adding and subtracting it rounds a number below 2^51 to an integer.
    const ROUND: f64 = (3u64 << 51) as f64;
    let integer = match places {
        0 => value as i64,
        _ => ((value * POWERS[places as usize] + ROUND) - ROUND) as i64,
    };
    (decimal(integer, places).to_bits() == value.to_bits()).then_some(integer)
}

#[inline]
fn decimal(integer: i64, places: u8) -> f64 {
    match places {
        0 => integer as f64,
        _ => integer as f64 / POWERS[places as usize],
    }
}

/// Returns the number of places that all values but a few exceptions need; `None` when they need too
/// many.
fn places_of(values: &[f64]) -> Option<u8> {
    let (mut places, mut exceptions) = (0, 0);
    for value in values {
        if integer(*value, places).is_some() {
            continue;
        }
        match (places + 1..=PLACES_MAX).find(|more| integer(*value, *more).is_some()) {
            Some(more) => places = more,
            None => {
                exceptions += 1;
                if exceptions * ROWS_PER_EXCEPTION > values.len() + ROWS_PER_EXCEPTION {
                    return None;
                }
            }
        }
    }
    Some(places)
}

/// Whether values have few decimal places.
pub(super) fn has_few_places(values: &[f64]) -> bool {
    places_of(values).is_some()
}

/// Returns the number of bits of the deltas from row to row.
fn cost(integers: &[i64]) -> u64 {
    let distances = integers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).unsigned_abs());
    distances.map(|distance| u64::from(64 - distance.leading_zeros())).sum()
}

impl Scaled {
    /// Converts values of runs that end before the rows in `ends`. Runs of a `chain` all have the same
    /// length, and each is the next cumulative bucket of the same histogram.
    pub(super) fn of(values: &[f64], ends: &[u32], chain: bool) -> Self {
        let places = places_of(values).unwrap_or(BY_BITS);
        let mut exceptions = Vec::new();
        let mut rest = integers(values, places, &mut exceptions);
        if exceptions.len() * ROWS_PER_EXCEPTION > values.len() + ROWS_PER_EXCEPTION {
            // There are too many exceptions, so all values are converted by their bits.
            exceptions.clear();
            rest = values.iter().map(|value| ordered(*value)).collect();
            return Self::finish(rest, ends, Form { places: BY_BITS, exceptions, ..Form::default() });
        }
        let mut chained = false;
        if chain && places != BY_BITS && ends.len() > 1 {
            let width = ends[0] as usize;
            let mut differences = rest.clone();
            for row in width..rest.len() {
                differences[row] = rest[row].wrapping_sub(rest[row - width]);
            }
            chained = cost(&differences) < cost(&rest);
            if chained {
                rest = differences;
            }
        }
        Self::finish(rest, ends, Form { places, chained, exceptions, ..Form::default() })
    }

    fn finish(mut rest: Vec<i64>, ends: &[u32], mut form: Form) -> Self {
        let mut start = 0;
        for end in ends {
            let run = &mut rest[start..*end as usize];
            let first = run.first().copied().unwrap_or(0);
            form.firsts.push(first);
            run.iter_mut().for_each(|value| *value = value.wrapping_sub(first));
            start = *end as usize;
        }
        form.step = if form.places == BY_BITS { 1 } else { divisor(&rest) };
        if form.step > 1 {
            let step = form.step as i64;
            rest.iter_mut().for_each(|value| *value /= step);
        }
        Self { rest, form }
    }

    /// Appends the form that [`Form::get`] reads.
    pub(super) fn put(&self, out: &mut Vec<u8>, flags: u8) {
        let form = &self.form;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let stepped = flag(form.step > 1, STEPPED) | flag(!form.exceptions.is_empty(), EXCEPTIONS);
        out.push(form.places | flag(form.chained, CHAINED) | stepped | flags);
        let mut before = 0i64;
        for first in &form.firsts {
            put_signed(out, first.wrapping_sub(before));
            before = *first;
        }
        if form.step > 1 {
            put_varint(out, form.step);
        }
        if !form.exceptions.is_empty() {
            put_varint(out, form.exceptions.len() as u64);
            let mut before = 0;
            for (row, bits) in &form.exceptions {
                put_varint(out, u64::from(row - before));
                out.extend_from_slice(&bits.to_le_bytes());
                before = *row;
            }
        }
    }
}

/// Converts all values to integers; an exception gets the integer of the row before.
fn integers(values: &[f64], places: u8, exceptions: &mut Vec<(u32, u64)>) -> Vec<i64> {
    let mut before = None;
    let mut out = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        let found = match places {
            BY_BITS => value.is_finite().then(|| ordered(*value)),
            places => integer(*value, places),
        };
        match found {
            Some(integer) => {
                if before.is_none() {
                    // Exceptions before the first integer get that integer.
                    out.fill(integer);
                }
                before = Some(integer);
            }
            None => exceptions.push((row as u32, value.to_bits())),
        }
        out.push(found.or(before).unwrap_or(0));
    }
    out
}

/// Returns the largest number that divides all; 1 when all are zero.
fn divisor(values: &[i64]) -> u64 {
    let mut divisor = 0u64;
    for value in values {
        let value = value.unsigned_abs();
        if divisor == 0 {
            divisor = value;
        } else if value % divisor != 0 {
            divisor = gcd(divisor, value % divisor);
        }
        if divisor == 1 {
            break;
        }
    }
    // 2^63, which only `i64::MIN` can give, does not fit into an `i64`.
    if divisor > i64::MAX as u64 { 1 } else { divisor.max(1) }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Form {
    /// Reads the form of runs that end before these rows. Also returns the flags that are not part of it.
    pub(super) fn get(reader: &mut Reader<'_>, ends: &[u32]) -> Result<(Self, u8), Error> {
        let flags = reader.u8()?;
        let places = flags & 0x0f;
        if places > PLACES_MAX && places != BY_BITS {
            return Err(reader.malformed("a page has an unknown number of decimal places"));
        }
        let chained = flags & CHAINED != 0;
        let width = ends.first().copied().unwrap_or(0);
        if chained && (0..).zip(ends).any(|(n, end)| u64::from(*end) != (n + 1) * u64::from(width)) {
            return Err(reader.malformed("runs that are coded by each other have different lengths"));
        }
        let (mut firsts, mut first) = (Vec::with_capacity(ends.len()), 0i64);
        for _ in ends {
            first = first.wrapping_add(reader.signed()?);
            firsts.push(first);
        }
        let step = if flags & STEPPED != 0 { reader.varint()? } else { 1 };
        let exceptions = match flags & EXCEPTIONS != 0 {
            true => get_exceptions(reader, ends.last().copied().unwrap_or(0))?,
            false => Vec::new(),
        };
        Ok((Self { places, chained, step, firsts, exceptions }, flags & STARTS))
    }

    /// Whether a value of these rows may be a stale marker: only exceptions, and values converted by
    /// their bits, may be.
    pub(super) fn may_be_stale(&self, kept: &[Range<u32>]) -> bool {
        let is_kept = |(row, _): &(u32, u64)| kept.iter().any(|rows| rows.contains(row));
        self.places == BY_BITS || self.exceptions.iter().any(is_kept)
    }

    /// Returns the values of these rows of each run; the runs end before the rows in `ends`.
    pub(super) fn values(
        &self,
        numbers: Numbers<'_>,
        ends: &[u32],
        kept: &[Range<u32>],
    ) -> Result<Vec<f64>, PageError> {
        let mut values = Vec::with_capacity(kept.iter().map(Range::len).sum());
        match self.chained {
            true => self.chained_values(numbers, ends, kept, &mut values)?,
            false => self.plain_values(numbers, ends, kept, &mut values)?,
        }
        let mut begins = Vec::new();
        if !self.exceptions.is_empty() {
            begins.extend(ends_of(kept.iter().map(|rows| rows.len() as u32)));
        }
        for (row, bits) in &self.exceptions {
            let run = ends.partition_point(|end| end <= row);
            if kept[run].contains(row) {
                values[(begins[run] - (kept[run].end - row)) as usize] = f64::from_bits(*bits);
            }
        }
        Ok(values)
    }

    fn plain_values(
        &self,
        mut numbers: Numbers<'_>,
        ends: &[u32],
        kept: &[Range<u32>],
        values: &mut Vec<f64>,
    ) -> Result<(), PageError> {
        let last = kept.iter().map(|rows| rows.end).max().unwrap_or(0);
        let (mut buffer, mut start, mut run) = ([0; BATCH], 0u32, 0);
        while start < last {
            let batch = numbers.next(&mut buffer)?;
            let end = start + batch.len() as u32;
            while run < ends.len() {
                let rows = kept[run].start.max(start)..kept[run].end.min(end);
                if !rows.is_empty() {
                    let rest = &mut batch[(rows.start - start) as usize..(rows.end - start) as usize];
                    self.scale(rest, self.firsts[run]);
                    extend_values(values, rest, self.places);
                }
                if ends[run] > end {
                    break;
                }
                run += 1;
            }
            start = end;
        }
        Ok(())
    }

    /// Converts runs that are stored as differences from the run before: rows that some runs keep need
    /// all runs.
    fn chained_values(
        &self,
        mut numbers: Numbers<'_>,
        ends: &[u32],
        kept: &[Range<u32>],
        values: &mut Vec<f64>,
    ) -> Result<(), PageError> {
        let width = ends.first().copied().unwrap_or(0);
        let begins = (0..).map(|run| run * width);
        let inside = |(rows, begin): (&Range<u32>, u32)| (!rows.is_empty()).then(|| rows.start - begin);
        let first = kept.iter().zip(begins.clone()).filter_map(inside).min().unwrap_or(0) as usize;
        let (mut rest, mut buffer) = (Vec::with_capacity(ends.len() * width as usize), [0; BATCH]);
        while rest.len() < ends.len() * width as usize {
            rest.extend_from_slice(numbers.next(&mut buffer)?);
        }
        let mut below: Vec<i64> = Vec::new();
        for ((run, rows), begin) in rest.chunks_exact_mut(width.max(1) as usize).zip(kept).zip(begins) {
            let (run, number) = (&mut run[first..], (begin / width.max(1)) as usize);
            self.scale(run, self.firsts[number]);
            run.iter_mut().zip(&below).for_each(|(value, below)| *value = value.wrapping_add(*below));
            below.clear();
            below.extend_from_slice(run);
            if !rows.is_empty() {
                let own = (rows.start - begin) as usize - first..(rows.end - begin) as usize - first;
                extend_values(values, &run[own], self.places);
            }
        }
        Ok(())
    }

    fn scale(&self, rest: &mut [i64], first: i64) {
        match self.step as i64 {
            1 => rest.iter_mut().for_each(|value| *value = value.wrapping_add(first)),
            step => rest.iter_mut().for_each(|value| *value = value.wrapping_mul(step).wrapping_add(first)),
        }
    }
}

/// The remaining integers of a page.
pub(super) enum Numbers<'a> {
    /// This many zeros.
    Zeros(usize),
    /// Encoded integers.
    Page(NumberPage<'a>),
}

impl Numbers<'_> {
    fn next<'o>(&mut self, out: &'o mut [i64; BATCH]) -> Result<&'o mut [i64], PageError> {
        match self {
            Self::Zeros(left) => {
                let count = (*left).min(BATCH);
                *left -= count;
                out.fill(0);
                Ok(&mut out[..count])
            }
            Self::Page(page) => page.next(out),
        }
    }
}

/// Appends the values that the integers represent.
#[allow(unsafe_code)]
fn extend_values(values: &mut Vec<f64>, integers: &[i64], places: u8) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the features that the function requires.
        return unsafe { extend_avx2(values, integers, places) };
    }
    extend(values, integers, places);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn extend_avx2(values: &mut Vec<f64>, integers: &[i64], places: u8) {
    extend(values, integers, places);
}

#[inline(always)]
fn extend(values: &mut Vec<f64>, integers: &[i64], places: u8) {
    /// Integers closer to zero are converted in vectors: they are put into the lowest bits of 3 x 2^51.
    const NEAR: i64 = 1 << 51;
    const BASE: f64 = (3u64 << 51) as f64;
    if places == BY_BITS {
        return values.extend(integers.iter().map(|integer| from_ordered(*integer)));
    }
    let start = values.len();
    let away = integers.iter().fold(0, |all, integer| all | integer.wrapping_add(NEAR) as u64);
    if away < 2 * NEAR as u64 {
        let near =
            |integer: &i64| f64::from_bits((*integer).wrapping_add(BASE.to_bits() as i64) as u64) - BASE;
        values.extend(integers.iter().map(near));
    } else {
        values.extend(integers.iter().map(|integer| *integer as f64));
    }
    if places > 0 {
        let power = POWERS[places as usize];
        values[start..].iter_mut().for_each(|value| *value /= power);
    }
}

fn get_exceptions(reader: &mut Reader<'_>, rows: u32) -> Result<Vec<(u32, u64)>, Error> {
    let count = reader.count("exceptions of a page", (rows as usize).min(reader.remaining() / 9))?;
    let (mut exceptions, mut row) = (Vec::with_capacity(count), 0u32);
    for _ in 0..count {
        row = row.saturating_add(reader.varint32()?);
        if row >= rows {
            return Err(reader.malformed("an exception is not within its page"));
        }
        exceptions.push((row, reader.u64()?));
    }
    Ok(exceptions)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::number_page::{Moments, NumberScratch, NumberTable};
    use crate::codec::numbers::compress;

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    fn round_trip(values: &[f64], ends: &[u32], chain: bool) -> Scaled {
        let scaled = Scaled::of(values, ends, chain);
        let mut bytes = Vec::new();
        scaled.put(&mut bytes, STARTS);
        let mut reader = Reader::new("test", 0, &bytes);
        let (form, flags) = Form::get(&mut reader, ends).unwrap();
        reader.finish().unwrap();
        assert_eq!((&form, flags), (&scaled.form, STARTS));
        check_values(&scaled, &form, values, ends);
        scaled
    }

    /// Checks all rows, and only the middle ones of some runs.
    fn check_values(scaled: &Scaled, form: &Form, values: &[f64], ends: &[u32]) {
        let moved = scaled.rest.clone();
        let chunk = compress(&moved, vec![moved.len()], 1, 4, Moments::Stored).unwrap();
        let table = NumberTable::new(&chunk.table, "test", 0).unwrap();
        let begins = || std::iter::once(0).chain(ends.iter().copied());
        let all: Vec<Range<u32>> = begins().zip(ends).map(|(begin, end)| begin..*end).collect();
        let some = all.iter().enumerate().map(|(n, rows)| match n % 3 {
            0 => rows.start + rows.len() as u32 / 3..rows.end - rows.len() as u32 / 4,
            1 => rows.start..rows.start,
            _ => rows.clone(),
        });
        for kept in [all.clone(), some.collect()] {
            let mut scratch = NumberScratch::default();
            let page = table.page(&chunk.pages, moved.len(), Moments::Stored, &mut scratch).unwrap();
            let found = form.values(Numbers::Page(page), ends, &kept).unwrap();
            let expected: Vec<f64> = kept
                .iter()
                .flat_map(|rows| values[rows.start as usize..rows.end as usize].to_vec())
                .collect();
            assert_eq!(bits(&found), bits(&expected), "{kept:?}");
        }
    }

    const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

    #[test]
    fn extreme_numbers_keep_their_bits() {
        let edges = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::MIN,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            STALE,
            f64::MIN_POSITIVE,
            5e-324,
            9_007_199_254_740_993.0,
            -9.223372036854776e18,
            1e300,
            0.1,
            1e-9,
            2_251_799_813_685_249.5,
            123_456_789.123_456_78,
            f64::from_bits(u64::MAX),
            f64::from_bits(1 << 63 | 1),
        ];
        round_trip(&edges, &[edges.len() as u32], false);
        for a in edges {
            for b in edges {
                round_trip(&[a, b, a], &[1, 3], false);
                round_trip(&[a, b, b, a], &[2, 4], true);
            }
        }
    }

    #[test]
    fn decimals_become_small_integers() {
        let values: Vec<f64> = (0..100).map(|n| (12_345_600 + n * 25) as f64 / 100.0).collect();
        let scaled = round_trip(&values, &[100], false);
        assert_eq!((scaled.form.places, scaled.form.step), (2, 25));
        assert_eq!(scaled.rest, (0..100).collect::<Vec<i64>>());
    }

    #[test]
    fn a_stale_marker_is_stored_as_an_exception() {
        let mut values: Vec<f64> = (0..100).map(f64::from).collect();
        values[99] = STALE;
        let scaled = round_trip(&values, &[100], false);
        assert_eq!((scaled.form.places, scaled.form.exceptions.len()), (0, 1));
        assert_eq!(scaled.rest[98..], [98, 98]);
    }

    #[test]
    fn buckets_are_stored_as_differences_from_the_one_below() {
        let values: Vec<f64> =
            (0..3).flat_map(|b| (0..50).map(move |n| f64::from(n * 10 * (b + 1)))).collect();
        let scaled = round_trip(&values, &[50, 100, 150], true);
        assert!(scaled.form.chained);
    }

    proptest! {
        #[test]
        fn any_values_keep_their_bits(
            values in prop::collection::vec(any::<u64>(), 1..60),
            more in prop::collection::vec((-1000i64..1000, 0u8..12), 1..60),
            chain in any::<bool>(),
        ) {
            let raw: Vec<f64> = values.iter().map(|bits| f64::from_bits(*bits)).collect();
            round_trip(&raw, &[raw.len() as u32], chain);
            let decimals: Vec<f64> =
                more.iter().map(|(m, places)| *m as f64 / 10f64.powi(i32::from(*places))).collect();
            let half = decimals.len() as u32 / 2;
            if half > 0 {
                round_trip(&decimals[..half as usize * 2], &[half, half * 2], chain);
            }
        }
    }
}
