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
    let mut before = 0i64;
    for sample in &batch.histograms {
        sample.histogram.validate().map_err(|_| Error::Misuse("a histogram is not valid"))?;
        put_sample(sample, std::mem::replace(&mut before, sample.timestamp), out);
    }
    Ok(())
}

fn put_sample(sample: &HistogramSample, before: i64, out: &mut Vec<u8>) {
    let HistogramSample { timestamp, start, integer, histogram } = sample;
    let buckets = || histogram.positive.counts.iter().chain(&histogram.negative.counts);
    let whole = buckets().chain([&histogram.zero_count, &histogram.count]).all(|count| is_whole(*count));
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
    for buckets in [&histogram.positive, &histogram.negative] {
        put_buckets(buckets, whole, out);
    }
    put_varint(out, histogram.bounds.len() as u64);
    histogram.bounds.iter().for_each(|bound| put_float(out, *bound));
}

/// Whether a count is an integer that is restored bit for bit when stored as one.
fn is_whole(count: f64) -> bool {
    (0.0..=WHOLE_MAX).contains(&count) && (count as u64 as f64).to_bits() == count.to_bits()
}

fn put_float(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

fn put_buckets(buckets: &Buckets, whole: bool, out: &mut Vec<u8>) {
    let spans = buckets.spans();
    put_varint(out, spans.len() as u64);
    for span in spans {
        put_signed(out, span.offset.into());
        put_varint(out, span.length.into());
    }
    let mut before = 0i64;
    for count in &buckets.counts {
        match whole {
            true => put_signed(out, *count as i64 - std::mem::replace(&mut before, *count as i64)),
            false => put_float(out, *count),
        }
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
