//! The native histograms of a batch.
//!
//! Layout (empty without histograms): packed numbers of histograms of each series; then each histogram:
//! flags (u8), timestamp (signed LEB128, difference from the one before), start time (signed LEB128,
//! difference from the timestamp, only if flagged), schema (signed LEB128), zero threshold and sum (eight
//! bytes each), counts of the zero bucket and of all observations; positive and negative buckets: number
//! of spans (LEB128), offset (signed LEB128) and length (LEB128) of each, a count for each bucket; number
//! of custom bounds (LEB128), eight bytes for each.
//!
//! Counts have eight bytes each, unless all counts of a histogram are integers: then those of the zero
//! bucket and of all observations are LEB128, and those of buckets are signed LEB128 differences from the
//! bucket before.

use std::ops::Range;
use std::sync::Arc;

use sandur_model::histogram::{Buckets, CounterReset, Span};
use sandur_model::{FloatHistogram, HistogramSample, SampleBatch};

use crate::codec::Reader;
use crate::codec::bitpack::{get_packed_u32, put_packed};
use crate::codec::varint::{put_signed, put_varint};
use crate::error::Error;

const INTEGER: u8 = 1;
const HAS_START: u8 = 1 << 1;
const WHOLE: u8 = 1 << 2;
const RESET_SHIFT: u32 = 3;
const FLAGS_MAX: u8 = 0x1F;

/// The largest integer up to which every integer is exactly a float: 2^53.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Appends the histograms. Fails for an invalid one, which readers would refuse.
pub(super) fn put(batch: &SampleBatch, out: &mut Vec<u8>) -> Result<(), Error> {
    if batch.histograms.is_empty() {
        return Ok(());
    }
    put_packed(out, &batch.series.iter().map(|s| s.histograms.len() as u64).collect::<Vec<u64>>());
    // What most histograms take at most. It is less than what the batch takes.
    let usual = |of: &FloatHistogram| 40 + 2 * (of.positive.len() + of.negative.len());
    out.reserve(batch.histograms.iter().map(|sample| usual(&sample.histogram)).sum());
    let (mut before, mut spans) = (0i64, [Encoded::default(), Encoded::default()]);
    for sample in &batch.histograms {
        sample.histogram.validate().map_err(|_| Error::Misuse("a histogram is not valid"))?;
        put_sample(sample, std::mem::replace(&mut before, sample.timestamp), (&mut spans, out));
    }
    Ok(())
}

/// The spans of the last histogram in the output. The next one nearly always has the same.
#[derive(Default)]
struct Encoded<'a> {
    indices: &'a [i32],
    at: Range<usize>,
}

fn put_sample<'a>(
    sample: &'a HistogramSample,
    before: i64,
    (spans, out): (&mut [Encoded<'a>; 2], &mut Vec<u8>),
) {
    let HistogramSample { timestamp, start, integer, histogram } = sample;
    let [positive, negative] = [&histogram.positive, &histogram.negative];
    let whole = [&[histogram.zero_count, histogram.count][..], &positive.counts, &negative.counts];
    let whole = whole.into_iter().all(are_whole);
    let reset = histogram.reset as u8;
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(*integer, INTEGER) | flag(*start != 0, HAS_START) | flag(whole, WHOLE);
    out.push(flags | reset << RESET_SHIFT);
    put_signed(out, timestamp.wrapping_sub(before));
    if *start != 0 {
        put_signed(out, start.wrapping_sub(*timestamp));
    }
    put_signed(out, histogram.schema.into());
    put_float(out, histogram.zero_threshold);
    put_float(out, histogram.sum);
    for count in [histogram.zero_count, histogram.count] {
        match whole {
            true => put_varint(out, count as u64),
            false => put_float(out, count),
        }
    }
    for (buckets, spans) in [positive, negative].into_iter().zip(spans) {
        put_spans(buckets, spans, out);
        put_counts(&buckets.counts, whole, out);
    }
    put_varint(out, histogram.bounds.len() as u64);
    histogram.bounds.iter().for_each(|bound| put_float(out, *bound));
}

/// Whether counts are integers that are restored bit for bit when stored as such. Without an early end, so
/// that several are compared at a time.
fn are_whole(counts: &[f64]) -> bool {
    counts.iter().fold(true, |all, count| all & is_whole(*count))
}

/// Whether a count is an integer that is restored bit for bit when stored as one.
#[inline]
fn is_whole(count: f64) -> bool {
    /// Added to a float up to 2^52 and subtracted again, it rounds the float to an integer.
    const ROUND: f64 = WHOLE_MAX / 2.0;
    let rounded = if count < ROUND { (count + ROUND) - ROUND } else { count };
    (count.to_bits() >> 63 == 0) & (rounded.to_bits() == count.to_bits()) & (count <= WHOLE_MAX)
}

fn put_float(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_spans<'a>(buckets: &'a Buckets, last: &mut Encoded<'a>, out: &mut Vec<u8>) {
    if !last.at.is_empty() && last.indices == buckets.indices {
        return out.extend_from_within(last.at.clone());
    }
    let (start, spans) = (out.len(), buckets.spans());
    put_varint(out, spans.len() as u64);
    for span in spans {
        put_signed(out, span.offset.into());
        put_varint(out, span.length.into());
    }
    *last = Encoded { indices: &buckets.indices, at: start..out.len() };
}

fn put_counts(counts: &[f64], whole: bool, out: &mut Vec<u8>) {
    if !whole {
        return counts.iter().for_each(|count| put_float(out, *count));
    }
    let mut before = 0i64;
    for count in counts {
        put_signed(out, *count as i64 - std::mem::replace(&mut before, *count as i64));
    }
}

/// Reads `count` histograms.
pub(super) fn get(reader: &mut Reader<'_>, count: usize, batch: &mut SampleBatch) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    let mut start = 0u32;
    let counts = get_packed_u32(reader, batch.series.len())?;
    for (series, of_series) in batch.series.iter_mut().zip(counts) {
        let end = start.checked_add(of_series).filter(|end| *end as usize <= count);
        let end = end.ok_or_else(|| reader.malformed("series have more histograms than there are"))?;
        series.histograms = start..end;
        start = end;
    }
    if start as usize != count {
        return Err(reader.malformed("there are more histograms than the series state"));
    }
    let mut before = 0i64;
    for _ in 0..count {
        let sample = get_sample(reader, before)?;
        before = sample.timestamp;
        batch.histograms.push(sample);
    }
    Ok(())
}

fn get_sample(reader: &mut Reader<'_>, before: i64) -> Result<HistogramSample, Error> {
    let flags = reader.u8()?;
    if flags > FLAGS_MAX {
        return Err(reader.malformed("a histogram has unknown flags"));
    }
    let timestamp = before.wrapping_add(reader.signed()?);
    let start = match flags & HAS_START {
        0 => 0,
        _ => timestamp.wrapping_add(reader.signed()?),
    };
    let whole = flags & WHOLE != 0;
    let mut histogram = FloatHistogram {
        reset: CounterReset::ALL[usize::from(flags >> RESET_SHIFT)],
        schema: i32::try_from(reader.signed()?).map_err(|_| reader.malformed("a schema is out of range"))?,
        zero_threshold: get_float(reader)?,
        sum: get_float(reader)?,
        ..FloatHistogram::default()
    };
    for count in [&mut histogram.zero_count, &mut histogram.count] {
        *count = match whole {
            true => reader.varint()? as f64,
            false => get_float(reader)?,
        };
    }
    histogram.positive = get_buckets(reader, whole)?;
    histogram.negative = get_buckets(reader, whole)?;
    let bounds = reader.count_of(size_of::<f64>())?;
    histogram.bounds = (0..bounds).map(|_| get_float(reader)).collect::<Result<_, Error>>()?;
    histogram.validate().map_err(|_| reader.malformed("a histogram is not valid"))?;
    let (integer, histogram) = (flags & INTEGER != 0, Arc::new(histogram));
    Ok(HistogramSample { timestamp, start, integer, histogram })
}

fn get_float(reader: &mut Reader<'_>) -> Result<f64, Error> {
    reader.u64().map(f64::from_bits)
}

fn get_buckets(reader: &mut Reader<'_>, whole: bool) -> Result<Buckets, Error> {
    // A span takes at least two bytes, a count one.
    let span_count = reader.count_of(2)?;
    let (mut spans, mut total) = (Vec::with_capacity(span_count), 0u64);
    for _ in 0..span_count {
        let offset = i32::try_from(reader.signed()?);
        let offset = offset.map_err(|_| reader.malformed("the offset of a span is out of range"))?;
        let length = reader.varint32()?;
        total += u64::from(length);
        spans.push(Span { offset, length });
    }
    if total > reader.remaining() as u64 {
        return Err(reader.malformed("there are fewer buckets than the spans state"));
    }
    let mut counts = Vec::with_capacity(total as usize);
    let mut before = 0i64;
    for _ in 0..total {
        counts.push(match whole {
            true => {
                before = before.wrapping_add(reader.signed()?);
                before as f64
            }
            false => get_float(reader)?,
        });
    }
    Buckets::from_spans(&spans, counts).map_err(|_| reader.malformed("spans do not match their buckets"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Compares with a conversion to an integer and back.
    fn check_whole(count: f64) {
        let expected =
            (0.0..=WHOLE_MAX).contains(&count) && (count as u64 as f64).to_bits() == count.to_bits();
        assert_eq!(is_whole(count), expected, "{count} {:016x}", count.to_bits());
    }

    #[test]
    fn counts_that_are_integers_are_recognized() {
        let edges = [0.0, -0.0, 0.5, 1.0, -1.0, 1e300, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN];
        edges.into_iter().chain([f64::NEG_INFINITY, f64::from_bits(u64::MAX)]).for_each(check_whole);
        for exponent in 0..64 {
            let power = (1u64 << exponent) as f64;
            for count in [power - 1.0, power - 0.5, power, power + 0.5, power + 1.0, power.next_up()] {
                check_whole(count);
                check_whole(count.next_down());
            }
        }
    }

    proptest! {
        #[test]
        fn any_counts_that_are_integers_are_recognized(
            bits in any::<u64>(),
            integer in any::<u64>(),
            by in 0u32..64,
        ) {
            check_whole(f64::from_bits(bits));
            check_whole((integer >> by) as f64);
            check_whole((integer >> by) as f64 / 2.0);
        }
    }
}
