//! Decodes native histograms of remote write, whose message is the same in both versions.
//!
//! `Histogram{count_int=1, count_float=2, sum=3, schema=4, zero_threshold=5, zero_count_int=6,
//! zero_count_float=7, negative_spans=8, negative_deltas=9, negative_counts=10, positive_spans=11,
//! positive_deltas=12, positive_counts=13, reset_hint=14, timestamp=15, custom_values=16,
//! start_timestamp=17}`. With integer counts a bucket is the difference from the one before it. Counts
//! are kept as floats, which hold integers up to 2^53 exactly.

use sandur_model::FloatHistogram;
use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, CounterReset, HistogramError, Span};
use sandur_protobuf::{Reader, Wire, unzigzag};

use super::builder::{NewHistogram, SampleBuilder};
use crate::error::Error;
use crate::memory::DecoderMemory;

/// Most bytes of memory per byte of the message: a delta of one byte becomes eight bytes twice, each in a
/// list that doubles, and an index.
const EXPANSION: u64 = 40;

/// Decodes a histogram and adds it to the open series.
pub(crate) fn read(builder: &mut SampleBuilder<'_>, message: Reader<'_>) -> Result<(), Error> {
    let most = message.rest().len() as u64 * EXPANSION;
    let memory: DecoderMemory = builder.memory().clone();
    memory.take(most)?;
    let outcome = match parts(message)?.build() {
        Ok(new) => builder.histogram(new),
        Err(why) => {
            builder.refuse_histogram(&why);
            Ok(())
        }
    };
    memory.give(most);
    outcome
}

#[derive(Default)]
struct Parts {
    count: Number,
    zero_count: Number,
    sum: f64,
    schema: i32,
    zero_threshold: f64,
    negative: Side,
    positive: Side,
    reset: u64,
    time_ms: i64,
    start_ms: i64,
    bounds: Vec<f64>,
}

/// A count that is an integer or a float. Integer counts of a histogram are checked against its buckets.
#[derive(Clone, Copy)]
enum Number {
    Integer(u64),
    Float(f64),
}

impl Default for Number {
    fn default() -> Self {
        Self::Integer(0)
    }
}

impl Number {
    fn as_float(self) -> f64 {
        match self {
            Self::Integer(count) => count as f64,
            Self::Float(count) => count,
        }
    }
}

#[derive(Default)]
struct Side {
    spans: Vec<Span>,
    deltas: Vec<i64>,
    counts: Vec<f64>,
}

fn parts(mut message: Reader<'_>) -> Result<Parts, Error> {
    let mut parts = Parts::default();
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Varint) => parts.count = Number::Integer(message.varint()?),
            (2, Wire::Fixed64) => parts.count = Number::Float(message.double()?),
            (3, Wire::Fixed64) => parts.sum = message.double()?,
            (4, Wire::Varint) => parts.schema = unzigzag(message.varint()?) as i32,
            (5, Wire::Fixed64) => parts.zero_threshold = message.double()?,
            (6, Wire::Varint) => parts.zero_count = Number::Integer(message.varint()?),
            (7, Wire::Fixed64) => parts.zero_count = Number::Float(message.double()?),
            (8, Wire::Bytes) => parts.negative.spans.push(span(message.message()?)?),
            (9, wire) => integers(&mut message, wire, &mut parts.negative.deltas)?,
            (10, wire) => doubles(&mut message, wire, &mut parts.negative.counts)?,
            (11, Wire::Bytes) => parts.positive.spans.push(span(message.message()?)?),
            (12, wire) => integers(&mut message, wire, &mut parts.positive.deltas)?,
            (13, wire) => doubles(&mut message, wire, &mut parts.positive.counts)?,
            (14, Wire::Varint) => parts.reset = message.varint()?,
            (15, Wire::Varint) => parts.time_ms = message.varint()? as i64,
            (16, wire) => doubles(&mut message, wire, &mut parts.bounds)?,
            (17, Wire::Varint) => parts.start_ms = message.varint()? as i64,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(parts)
}

impl Parts {
    /// Returns the histogram, or the message why it is invalid.
    fn build(self) -> Result<NewHistogram, String> {
        let integer = matches!(self.count, Number::Integer(_));
        let text_of = |error: HistogramError| error.to_string();
        let histogram = FloatHistogram {
            reset: match self.reset {
                1 => CounterReset::Reset,
                2 => CounterReset::NotReset,
                3 => CounterReset::Gauge,
                _ => CounterReset::Unknown,
            },
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            zero_count: self.zero_count.as_float(),
            count: self.count.as_float(),
            sum: self.sum,
            positive: self.positive.buckets(integer).map_err(text_of)?,
            negative: self.negative.buckets(integer).map_err(text_of)?,
            bounds: if self.schema == CUSTOM_SCHEMA { self.bounds.into() } else { Default::default() },
        };
        if integer {
            check_count(&histogram)?;
        }
        Ok(NewHistogram { time_ms: self.time_ms, start_ms: self.start_ms, integer, histogram })
    }
}

/// Checks that a histogram of integers has the same count as its buckets together, or a larger one if
/// some observations were NaN.
pub(super) fn check_count(histogram: &FloatHistogram) -> Result<(), String> {
    let buckets = histogram.positive.counts.iter().chain(&histogram.negative.counts);
    let found = buckets.sum::<f64>() + histogram.zero_count;
    let count = histogram.count;
    match histogram.sum.is_nan() {
        true if found > count => Err(format!(
            "{found} observations found in buckets, but the Count field is {count}: histogram's observation \
             count should be at least the number of observations found in the buckets"
        )),
        false if found != count => Err(format!(
            "{found} observations found in buckets, but the Count field is {count}: histogram's observation \
             count should equal the number of observations found in the buckets (in absence of NaN)"
        )),
        _ => Ok(()),
    }
}

impl Side {
    fn buckets(self, integer: bool) -> Result<Buckets, HistogramError> {
        let counts = if integer { absolute(&self.deltas)? } else { self.counts };
        Buckets::from_spans(&self.spans, counts)
    }
}

fn absolute(deltas: &[i64]) -> Result<Vec<f64>, HistogramError> {
    let mut count = 0i64;
    let counts = deltas.iter().map(|delta| {
        count = count.checked_add(*delta).ok_or(HistogramError::NegativeCount)?;
        if count < 0 { Err(HistogramError::NegativeCount) } else { Ok(count as f64) }
    });
    counts.collect()
}

fn span(mut message: Reader<'_>) -> Result<Span, Error> {
    let mut span = Span { offset: 0, length: 0 };
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Varint) => span.offset = unzigzag(message.varint()?) as i32,
            (2, Wire::Varint) => span.length = message.varint()? as u32,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(span)
}

/// Reads signed integers, packed or single.
fn integers(message: &mut Reader<'_>, wire: Wire, into: &mut Vec<i64>) -> Result<(), Error> {
    match wire {
        Wire::Varint => into.push(unzigzag(message.varint()?)),
        Wire::Bytes => {
            let mut packed = message.message()?;
            while !packed.is_at_end() {
                into.push(unzigzag(packed.varint()?));
            }
        }
        _ => message.skip(wire)?,
    }
    Ok(())
}

/// Reads floats, packed or single.
pub(super) fn doubles(message: &mut Reader<'_>, wire: Wire, into: &mut Vec<f64>) -> Result<(), Error> {
    match wire {
        Wire::Fixed64 => into.push(message.double()?),
        Wire::Bytes => {
            let mut packed = message.message()?;
            while !packed.is_at_end() {
                into.push(packed.double()?);
            }
        }
        _ => message.skip(wire)?,
    }
    Ok(())
}
