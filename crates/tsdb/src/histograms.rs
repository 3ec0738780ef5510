//! Decodes chunks of native histograms, with integer counts or with float counts.

use std::sync::Arc;

use sandur_model::histogram::{
    Buckets, CUSTOM_SCHEMA, CounterReset, IntegerHistogram, SCHEMA_MAX, SCHEMA_MIN, Span,
};
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

    /// What is known about a reset before the histogram of this number.
    fn reset(&self, n: u64) -> CounterReset {
        match (self.is_gauge, n) {
            (true, _) => CounterReset::Gauge,
            // The chunk before may not exist any more, so nothing is known about the first one.
            (false, 0) => CounterReset::Unknown,
            (false, _) => CounterReset::NotReset,
        }
    }

    /// A histogram of the layout, in which all counts are zero.
    fn template(&self) -> Result<FloatHistogram, Error> {
        let (positive, negative) = (vec![0.0; self.positive_count], vec![0.0; self.negative_count]);
        self.histogram(0, Counts { count: 0.0, zero_count: 0.0, sum: 0.0, positive, negative })
    }

    fn histogram(&self, n: u64, counts: Counts) -> Result<FloatHistogram, Error> {
        if counts.sum.to_bits() == STALE_BITS {
            return Ok(stale_marker());
        }
        let invalid = |_| Error::Malformed { what: "the spans of a histogram" };
        Ok(FloatHistogram {
            reset: self.reset(n),
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

fn stale_marker() -> FloatHistogram {
    FloatHistogram { sum: f64::from_bits(STALE_BITS), ..FloatHistogram::default() }
}

/// Histograms with integer counts that have the same buckets, in the form of their chunk.
#[derive(Clone, Debug)]
pub struct IntegerHistograms {
    /// A histogram of the layout of those that are no stale markers.
    layout: FloatHistogram,
    rows: Vec<IntegerRow>,
    /// Differences of the counts of buckets, row by row; none of stale markers.
    deltas: Vec<i64>,
}

#[derive(Clone, Copy, Debug)]
struct IntegerRow {
    time_ms: i64,
    reset: CounterReset,
    count: u64,
    zero_count: u64,
    sum: f64,
    /// The position of its first difference.
    deltas: usize,
}

impl IntegerHistograms {
    /// The number of histograms.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A histogram with the schema, the buckets and the bounds of all that are no stale markers.
    pub fn layout(&self) -> &FloatHistogram {
        &self.layout
    }

    /// The histograms. Stale markers have the stale bits as their sum, and no buckets.
    pub fn iter(&self) -> impl Iterator<Item = IntegerHistogram<'_>> {
        let positive = self.layout.positive.len();
        self.rows.iter().map(move |row| {
            let buckets = match row.sum.to_bits() {
                STALE_BITS => 0,
                _ => positive + self.layout.negative.len(),
            };
            let own = &self.deltas[row.deltas..row.deltas + buckets];
            let (positive, negative) = own.split_at(positive.min(buckets));
            let IntegerRow { time_ms, reset, count, zero_count, sum, .. } = *row;
            IntegerHistogram { time_ms, reset, count, zero_count, sum, positive, negative }
        })
    }

    /// The histogram with float counts.
    pub fn as_float(&self, of: &IntegerHistogram<'_>) -> FloatHistogram {
        if of.sum.to_bits() == STALE_BITS {
            return stale_marker();
        }
        let buckets = |layout: &Buckets, deltas: &[i64]| Buckets {
            indices: layout.indices.clone(),
            counts: absolute(deltas),
        };
        FloatHistogram {
            reset: of.reset,
            zero_count: of.zero_count as f64,
            count: of.count as f64,
            sum: of.sum,
            positive: buckets(&self.layout.positive, of.positive),
            negative: buckets(&self.layout.negative, of.negative),
            bounds: Arc::clone(&self.layout.bounds),
            ..self.layout
        }
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

/// The counts of buckets of which these are the differences.
fn absolute(deltas: &[i64]) -> Vec<f64> {
    let mut current = 0i64;
    let counts = deltas.iter().map(|delta| {
        current = current.wrapping_add(*delta);
        current as f64
    });
    counts.collect()
}

/// Returns the histograms of a chunk with integer counts whose times are wanted. `take` is called with the
/// memory of each as a [`FloatHistogram`] before it is added.
pub fn decode_integers(
    data: &[u8],
    is_wanted: impl Fn(i64) -> bool,
    mut take: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Option<IntegerHistograms>, Error> {
    let mut from = Bits::new(data);
    let count = from.read(16)?;
    if count == 0 {
        return Ok(None);
    }
    let flags = from.byte()?;
    let layout = Layout::read(&mut from, flags)?;
    let mut time = Twice { value: from.varbit()?, delta: 0 };
    let mut total = Twice { value: from.varbit_unsigned()? as i64, delta: 0 };
    let mut zeros = Twice { value: from.varbit_unsigned()? as i64, delta: 0 };
    let mut sum = Xor::new(from.float()?);
    let mut buckets = vec![Twice::default(); layout.positive_count + layout.negative_count];
    from.varbits(&mut buckets, |bucket, value| bucket.value = value)?;
    let template = layout.template();
    let mut found =
        IntegerHistograms { layout: FloatHistogram::default(), rows: Vec::new(), deltas: Vec::new() };
    for n in 0..count {
        if n > 0 {
            time.read(&mut from)?;
            total.read(&mut from)?;
            zeros.read(&mut from)?;
            sum.read(&mut from)?;
            if sum.bits != STALE_BITS {
                from.varbits(&mut buckets, |bucket, change| {
                    bucket.delta = bucket.delta.wrapping_add(change);
                    bucket.value = bucket.value.wrapping_add(bucket.delta);
                })?;
            }
        }
        let is_stale = sum.bits == STALE_BITS;
        if let (false, Err(error)) = (is_stale, &template) {
            return Err(error.clone());
        }
        if !is_wanted(time.value) {
            continue;
        }
        // A stale marker has none: see `Layout::of_both_signs`.
        let own = if is_stale { &[][..] } else { &buckets };
        take((size_of::<FloatHistogram>() + 12 * own.len()) as u64)?;
        let reset = layout.reset(n);
        let (count, zero_count, sum) = (total.value as u64, zeros.value as u64, sum.value());
        let row =
            IntegerRow { time_ms: time.value, reset, count, zero_count, sum, deltas: found.deltas.len() };
        found.rows.push(row);
        found.deltas.extend(own.iter().map(|bucket| bucket.value));
    }
    found.layout = template.unwrap_or_default();
    Ok(Some(found))
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
