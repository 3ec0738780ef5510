//! Decodes chunks of native histograms, with integer counts or with float counts.

use std::sync::Arc;

use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, CounterReset, SCHEMA_MAX, SCHEMA_MIN, Span};
use sandur_model::{FloatHistogram, STALE_BITS};

use crate::bits::{Bits, Xor};
use crate::error::Error;

/// Most buckets of one sign, custom bounds, or spans of a histogram.
pub const BUCKETS_MAX: u64 = 65_536;

/// What all histograms of a chunk have in common.
struct Layout {
    schema: i32,
    zero_threshold: f64,
    positive: Vec<Span>,
    negative: Vec<Span>,
    positive_count: usize,
    negative_count: usize,
    bounds: Arc<[f64]>,
    is_gauge: bool,
}

impl Layout {
    fn read(from: &mut Bits<'_>, flags: u8) -> Result<Self, Error> {
        let zero_threshold = match from.byte()? {
            0 => 0.0,
            255 => from.float()?,
            // A power of two from 2^-243 to 2^10.
            exponent => f64::from_bits((u64::from(exponent) + 1023 - 244) << 52),
        };
        let schema = from.varbit()?;
        let schema =
            i32::try_from(schema).map_err(|_| Error::Malformed { what: "the schema of a histogram" })?;
        if schema != CUSTOM_SCHEMA && !(SCHEMA_MIN..=SCHEMA_MAX).contains(&schema) {
            return Err(Error::Malformed { what: "the schema of a histogram" });
        }
        let (positive, positive_count) = spans(from)?;
        let (negative, negative_count) = spans(from)?;
        let bounds = if schema == CUSTOM_SCHEMA { bounds(from)? } else { Arc::default() };
        let is_gauge = flags & 0xC0 == 0xC0;
        Ok(Self {
            schema,
            zero_threshold,
            positive,
            negative,
            positive_count,
            negative_count,
            bounds,
            is_gauge,
        })
    }

    /// Returns the positive and the negative buckets. A stale marker has none: its chunk has no bits for
    /// them, so work for them would not be bounded by the size of the chunk.
    fn of_both_signs<'a, T>(&self, buckets: &'a [T], sum_bits: u64) -> (&'a [T], &'a [T]) {
        match sum_bits {
            STALE_BITS => (&[], &[]),
            _ => buckets.split_at(self.positive_count),
        }
    }

    fn histogram(&self, n: u64, counts: Counts) -> Result<FloatHistogram, Error> {
        let reset = match (self.is_gauge, n) {
            (true, _) => CounterReset::Gauge,
            // The chunk before may not exist any more, so nothing is known about the first one.
            (false, 0) => CounterReset::Unknown,
            (false, _) => CounterReset::NotReset,
        };
        if counts.sum.to_bits() == STALE_BITS {
            return Ok(FloatHistogram { sum: counts.sum, ..FloatHistogram::default() });
        }
        let invalid = |_| Error::Malformed { what: "the spans of a histogram" };
        Ok(FloatHistogram {
            reset,
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            zero_count: counts.zero_count,
            count: counts.count,
            sum: counts.sum,
            positive: Buckets::from_spans(&self.positive, counts.positive).map_err(invalid)?,
            negative: Buckets::from_spans(&self.negative, counts.negative).map_err(invalid)?,
            bounds: Arc::clone(&self.bounds),
        })
    }
}

struct Counts {
    count: f64,
    zero_count: f64,
    sum: f64,
    positive: Vec<f64>,
    negative: Vec<f64>,
}

fn within_limit(what: &'static str, found: u64) -> Result<usize, Error> {
    if found > BUCKETS_MAX {
        return Err(Error::TooLarge { what, found, limit: BUCKETS_MAX });
    }
    Ok(found as usize)
}

/// Reads spans; also returns the number of their buckets. Spans without buckets are joined with the next one,
/// so that the work for each histogram depends on its buckets, for which the chunk has bits.
fn spans(from: &mut Bits<'_>) -> Result<(Vec<Span>, usize), Error> {
    let count = within_limit("the number of spans of a histogram", from.varbit_unsigned()?)?;
    let (mut spans, mut buckets) = (Vec::<Span>::new(), 0u64);
    for _ in 0..count {
        let (length, offset) = (from.varbit_unsigned()?, from.varbit()?);
        buckets = buckets.saturating_add(length);
        within_limit("the number of buckets of a histogram", buckets)?;
        let offset =
            i32::try_from(offset).map_err(|_| Error::Malformed { what: "the spans of a histogram" })?;
        let span = Span { offset, length: length as u32 };
        match spans.as_mut_slice() {
            [_, .., last] if last.length == 0 && last.offset >= 0 && span.offset >= 0 => {
                match last.offset.checked_add(span.offset) {
                    Some(offset) => *last = Span { offset, ..span },
                    None => spans.push(span),
                }
            }
            _ => spans.push(span),
        }
    }
    Ok((spans, buckets as usize))
}

fn bounds(from: &mut Bits<'_>) -> Result<Arc<[f64]>, Error> {
    let count = within_limit("the number of bounds of a histogram", from.varbit_unsigned()?)?;
    let mut bounds = Vec::new();
    for _ in 0..count {
        bounds.push(match from.varbit_unsigned()? {
            0 => from.float()?,
            // Thousandths, plus one.
            thousandths => (thousandths - 1) as f64 / 1000.0,
        });
    }
    Ok(bounds.into())
}

/// A value that is stored as the difference of differences.
#[derive(Clone, Copy, Default)]
struct Twice {
    value: i64,
    delta: i64,
}

impl Twice {
    #[inline]
    fn read(&mut self, from: &mut Bits<'_>) -> Result<(), Error> {
        self.delta = self.delta.wrapping_add(from.varbit()?);
        self.value = self.value.wrapping_add(self.delta);
        Ok(())
    }
}

/// Reads absolute values of `count` buckets, of which the file has the differences.
fn absolute(buckets: &[Twice]) -> Vec<f64> {
    let mut current = 0i64;
    buckets
        .iter()
        .map(|bucket| {
            current = current.wrapping_add(bucket.value);
            current as f64
        })
        .collect()
}

/// Calls `each` for each histogram of a chunk with integer counts, until it fails.
pub fn decode_integers(
    data: &[u8],
    mut each: impl FnMut(i64, FloatHistogram) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut from = Bits::new(data);
    let count = from.read(16)?;
    if count == 0 {
        return Ok(());
    }
    let flags = from.byte()?;
    let layout = Layout::read(&mut from, flags)?;
    let mut time = Twice { value: from.varbit()?, delta: 0 };
    let mut total = Twice { value: from.varbit_unsigned()? as i64, delta: 0 };
    let mut zeros = Twice { value: from.varbit_unsigned()? as i64, delta: 0 };
    let mut sum = Xor::new(from.float()?);
    let mut buckets = vec![Twice::default(); layout.positive_count + layout.negative_count];
    for bucket in &mut buckets {
        bucket.value = from.varbit()?;
    }
    for n in 0..count {
        if n > 0 {
            time.read(&mut from)?;
            total.read(&mut from)?;
            zeros.read(&mut from)?;
            sum.read(&mut from)?;
            if sum.bits != STALE_BITS {
                for bucket in &mut buckets {
                    bucket.read(&mut from)?;
                }
            }
        }
        let (positive, negative) = layout.of_both_signs(&buckets, sum.bits);
        let counts = Counts {
            count: total.value as u64 as f64,
            zero_count: zeros.value as u64 as f64,
            sum: sum.value(),
            positive: absolute(positive),
            negative: absolute(negative),
        };
        each(time.value, layout.histogram(n, counts)?)?;
    }
    Ok(())
}

/// Calls `each` for each histogram of a chunk with float counts, until it fails.
pub fn decode_floats(
    data: &[u8],
    mut each: impl FnMut(i64, FloatHistogram) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut from = Bits::new(data);
    let count = from.read(16)?;
    if count == 0 {
        return Ok(());
    }
    let flags = from.byte()?;
    let layout = Layout::read(&mut from, flags)?;
    let mut time = Twice { value: from.varbit()?, delta: 0 };
    let mut total = Xor::new(from.float()?);
    let mut zeros = Xor::new(from.float()?);
    let mut sum = Xor::new(from.float()?);
    let mut buckets = vec![Xor::default(); layout.positive_count + layout.negative_count];
    for bucket in &mut buckets {
        bucket.bits = from.read(64)?;
    }
    for n in 0..count {
        if n > 0 {
            time.read(&mut from)?;
            total.read(&mut from)?;
            zeros.read(&mut from)?;
            sum.read(&mut from)?;
            if sum.bits != STALE_BITS {
                for bucket in &mut buckets {
                    bucket.read(&mut from)?;
                }
            }
        }
        let (positive, negative) = layout.of_both_signs(&buckets, sum.bits);
        let values = |buckets: &[Xor]| buckets.iter().map(Xor::value).collect();
        let counts = Counts {
            count: total.value(),
            zero_count: zeros.value(),
            sum: sum.value(),
            positive: values(positive),
            negative: values(negative),
        };
        each(time.value, layout.histogram(n, counts)?)?;
    }
    Ok(())
}
