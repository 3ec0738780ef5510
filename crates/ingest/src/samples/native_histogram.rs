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

/// Most bytes of memory per byte of the message: a delta of one byte becomes a count and an index, or eight
/// bytes twice, each in a list that doubles, and an index, if the sender did not pack the deltas together.
const EXPANSION: u64 = 40;
/// Most spans for which the memory of a list is kept for the next histogram.
const SPANS_KEPT_MAX: usize = 64;
/// The largest number of observations up to which every sum of counts is exactly a float: 2^53.
const EXACT_MAX: u64 = 1 << 53;

/// Lists of spans that one histogram after the other uses.
type SpanLists = [Vec<Span>; 2];

/// Decodes a histogram and adds it to the open series.
pub(crate) fn read(builder: &mut SampleBuilder<'_>, message: Reader<'_>) -> Result<(), Error> {
    let most = message.rest().len() as u64 * EXPANSION;
    let memory: DecoderMemory = builder.memory().clone();
    memory.take(most)?;
    let mut parts = Parts::with(std::mem::take(&mut builder.spans));
    parts.read(message)?;
    let built = parts.build()?;
    builder.spans = parts.into_lists();
    let outcome = match built {
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
struct Parts<'a> {
    count: Number,
    zero_count: Number,
    sum: f64,
    schema: i32,
    zero_threshold: f64,
    negative: Side<'a>,
    positive: Side<'a>,
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

/// The buckets of one sign.
#[derive(Default)]
struct Side<'a> {
    spans: Vec<Span>,
    deltas: Deltas<'a>,
    counts: Vec<f64>,
}

/// Differences of integer counts.
#[derive(Default)]
enum Deltas<'a> {
    #[default]
    None,
    /// All of them, as every known sender writes them.
    Packed(Reader<'a>),
    /// They were gathered from several fields.
    Gathered(Vec<i64>),
}

impl<'a> Parts<'a> {
    fn with([negative, positive]: SpanLists) -> Self {
        let side = |spans| Side { spans, ..Side::default() };
        Self { negative: side(negative), positive: side(positive), ..Self::default() }
    }

    fn into_lists(self) -> SpanLists {
        [self.negative, self.positive].map(|Side { mut spans, .. }| {
            spans.clear();
            if spans.capacity() <= SPANS_KEPT_MAX { spans } else { Vec::new() }
        })
    }

    fn read(&mut self, mut message: Reader<'a>) -> Result<(), Error> {
        while let Some(key) = message.key()? {
            match key {
                (1, Wire::Varint) => self.count = Number::Integer(message.varint()?),
                (2, Wire::Fixed64) => self.count = Number::Float(message.double()?),
                (3, Wire::Fixed64) => self.sum = message.double()?,
                (4, Wire::Varint) => self.schema = unzigzag(message.varint()?) as i32,
                (5, Wire::Fixed64) => self.zero_threshold = message.double()?,
                (6, Wire::Varint) => self.zero_count = Number::Integer(message.varint()?),
                (7, Wire::Fixed64) => self.zero_count = Number::Float(message.double()?),
                (8, Wire::Bytes) => self.negative.spans.push(span(message.message()?)?),
                (9, wire) => self.negative.deltas.add(&mut message, wire)?,
                (10, wire) => doubles(&mut message, wire, &mut self.negative.counts)?,
                (11, Wire::Bytes) => self.positive.spans.push(span(message.message()?)?),
                (12, wire) => self.positive.deltas.add(&mut message, wire)?,
                (13, wire) => doubles(&mut message, wire, &mut self.positive.counts)?,
                (14, Wire::Varint) => self.reset = message.varint()?,
                (15, Wire::Varint) => self.time_ms = message.varint()? as i64,
                (16, wire) => doubles(&mut message, wire, &mut self.bounds)?,
                (17, Wire::Varint) => self.start_ms = message.varint()? as i64,
                (_, wire) => message.skip(wire)?,
            }
        }
        Ok(())
    }

    /// Returns the histogram, or the message why it is invalid.
    fn build(&mut self) -> Result<Result<NewHistogram, String>, Error> {
        let integer = matches!(self.count, Number::Integer(_));
        let negative = self.negative.counts(integer)?;
        let positive = self.positive.counts(integer)?;
        Ok(self.histogram(integer, [negative, positive]))
    }

    fn histogram(&mut self, integer: bool, sides: [Counts; 2]) -> Result<NewHistogram, String> {
        let [negative, positive] = sides;
        let buckets = |side: &Side<'_>, counts: Counts| -> Result<Buckets, String> {
            let counts = if counts.is_valid { Ok(counts.counts) } else { Err(HistogramError::NegativeCount) };
            counts.and_then(|counts| Buckets::from_spans(&side.spans, counts)).map_err(|e| e.to_string())
        };
        let zeros = match self.zero_count {
            Number::Integer(count) => Some(count),
            Number::Float(_) => None,
        };
        let observed = zeros.map(|zeros| zeros.saturating_add(positive.total).saturating_add(negative.total));
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
            positive: buckets(&self.positive, positive)?,
            negative: buckets(&self.negative, negative)?,
            bounds: match self.schema {
                CUSTOM_SCHEMA => std::mem::take(&mut self.bounds).into(),
                _ => Default::default(),
            },
        };
        // Up to this limit the floats in `check_count` would add up to the same number.
        let exact = observed.filter(|observed| *observed <= EXACT_MAX).map(|observed| observed as f64);
        if integer && (exact != Some(histogram.count) || histogram.sum.is_nan()) {
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

/// The counts of buckets of one sign.
#[derive(Default)]
struct Counts {
    counts: Vec<f64>,
    /// The sum of integer counts, or the largest integer if it does not fit.
    total: u64,
    /// Whether no integer count is negative or too large.
    is_valid: bool,
}

impl Side<'_> {
    /// Takes the counts: of integers, which the differences give, or of floats.
    fn counts(&mut self, integer: bool) -> Result<Counts, Error> {
        let deltas = std::mem::take(&mut self.deltas);
        if !integer {
            deltas.each(|_| ())?;
            return Ok(Counts { counts: std::mem::take(&mut self.counts), total: 0, is_valid: true });
        }
        let (mut counts, mut count, mut total) = (Vec::with_capacity(deltas.len()), 0i64, 0u64);
        let mut is_valid = true;
        deltas.each(|delta| {
            let (next, is_too_large) = count.overflowing_add(delta);
            is_valid &= !is_too_large && next >= 0;
            total = total.saturating_add(next as u64);
            counts.push(next as f64);
            count = next;
        })?;
        Ok(Counts { counts, total, is_valid })
    }
}

impl<'a> Deltas<'a> {
    /// Adds a field: packed integers, or a single one.
    fn add(&mut self, message: &mut Reader<'a>, wire: Wire) -> Result<(), Error> {
        match (wire, &*self) {
            (Wire::Bytes, Self::None) => *self = Self::Packed(message.message()?),
            (Wire::Bytes, _) => {
                let more = message.message()?;
                let list = self.gathered()?;
                Self::Packed(more).each(|delta| list.push(delta))?;
            }
            (Wire::Varint, _) => {
                let delta = unzigzag(message.varint()?);
                self.gathered()?.push(delta);
            }
            (wire, _) => message.skip(wire)?,
        }
        Ok(())
    }

    fn gathered(&mut self) -> Result<&mut Vec<i64>, Error> {
        if !matches!(self, Self::Gathered(_)) {
            let mut list = Vec::new();
            std::mem::take(self).each(|delta| list.push(delta))?;
            *self = Self::Gathered(list);
        }
        match self {
            Self::Gathered(list) => Ok(list),
            Self::None | Self::Packed(_) => Err(Error::malformed("protobuf", 0, "no list of differences")),
        }
    }

    /// The number of differences, unless they are malformed: each ends with a byte below 0x80.
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Packed(packed) => packed.rest().iter().filter(|byte| **byte < 0x80).count(),
            Self::Gathered(list) => list.len(),
        }
    }

    fn each(self, mut each: impl FnMut(i64)) -> Result<(), Error> {
        match self {
            Self::None => {}
            Self::Packed(mut packed) => packed.packed_varints(|delta| each(unzigzag(delta)))?,
            Self::Gathered(list) => list.into_iter().for_each(each),
        }
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandur_protobuf::{Writer as _, zigzag};

    use super::*;

    /// Decodes a message: a histogram and whether it is of integers, or why it is refused; nothing if it is
    /// malformed.
    fn built(message: &[u8]) -> Option<Result<(FloatHistogram, bool), String>> {
        let mut parts = Parts::default();
        parts.read(Reader::new(message)).ok()?;
        let built = parts.build().ok()?;
        Some(built.map(|new| (new.histogram, new.integer)))
    }

    /// Adds the differences one by one: to counts, or nothing if a count is negative or too large.
    fn slowly(deltas: &[i64]) -> Option<Vec<f64>> {
        let mut count = 0i64;
        let counts = deltas.iter().map(|delta| {
            count = count.checked_add(*delta).filter(|count| *count >= 0)?;
            Some(count as f64)
        });
        counts.collect()
    }

    proptest! {
        #[test]
        fn differences_are_the_same_however_they_are_packed(
            deltas in prop::collection::vec(prop_oneof![0i64..9, -3i64..900, any::<i64>()], 0..20),
            few in prop::collection::vec(0i64..900, 0..20),
            is_small in any::<bool>(),
            cut in any::<prop::sample::Index>(),
            (miscounted, is_nan, is_float) in (0u64..2, any::<bool>(), any::<bool>()),
        ) {
            let deltas = if is_small { few } else { deltas };
            let expected = slowly(&deltas);
            let total: f64 = expected.iter().flatten().sum::<f64>() + 2.0;
            let write = |fill: &dyn Fn(&mut Vec<u8>)| {
                let mut message = Vec::new();
                message.message(11, |span| span.number(2, deltas.len() as u64));
                fill(&mut message);
                match is_float {
                    true => message.double(2, total),
                    false => message.varint(1, (total as u64).saturating_add(miscounted)),
                }
                message.double(3, if is_nan { f64::NAN } else { 1.5 });
                message.varint(6, 2);
                message
            };
            let packed =
                |message: &mut Vec<u8>, some: &[i64]| message.packed(12, some.iter().copied().map(zigzag));
            let (first, second) = deltas.split_at(cut.index(deltas.len() + 1));
            let whole = write(&|message| packed(message, &deltas));
            let split = write(&|message| [first, second].iter().for_each(|some| packed(message, some)));
            let single = write(&|message| deltas.iter().for_each(|one| message.varint(12, zigzag(*one))));
            let shown = |message: &[u8]| format!("{:?}", built(message));
            prop_assert_eq!(shown(&whole), shown(&split));
            prop_assert_eq!(shown(&whole), shown(&single));
            match (built(&whole), expected) {
                (Some(Ok((found, true))), Some(counts)) => {
                    prop_assert_eq!(&found.positive.counts, &counts);
                    prop_assert!(check_count(&found).is_ok());
                }
                (Some(Ok((_, integer))), _) => prop_assert!(!integer),
                (Some(Err(_)), counts) => {
                    let is_valid = counts.is_some() && miscounted == 0 && total < EXACT_MAX as f64;
                    prop_assert!(!is_valid || is_float);
                }
                (None, _) => prop_assert!(false, "the message is well-formed"),
            }
        }
    }

    #[test]
    fn differences_that_are_cut_short_or_too_long_are_malformed() {
        for packed in [&b"\x80"[..], b"\x02\xFF", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"] {
            for integer in [true, false] {
                let mut message = Vec::new();
                if integer {
                    message.varint(1, 1)
                } else {
                    message.double(2, 1.0)
                }
                message.bytes(12, packed);
                assert!(built(&message).is_none(), "{packed:?}");
                message.bytes(12, &[0]);
                assert!(built(&message).is_none(), "{packed:?}, then another field");
            }
        }
        let longer_than_the_message = b"\x62\x05\x02";
        assert!(built(longer_than_the_message).is_none());
    }
}
