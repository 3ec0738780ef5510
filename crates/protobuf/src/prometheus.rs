//! Prometheus's messages in requests of remote write 1.0 and in answers of remote read:
//! `WriteRequest{timeseries=1: TimeSeries}` and `QueryResult{timeseries=1: TimeSeries}` with
//! `TimeSeries{labels=1:{name=1, value=2}, samples=2:{value=1, timestamp=2}, histograms=4}`.
//!
//! Integers that are 0 are left out, as proto3 does; floats and oneof fields are always written.

use sandur_model::FloatHistogram;
use sandur_model::histogram::{Buckets, IntegerHistogram};

use crate::{Writer, zigzag};

/// Adds a series of floats to a request or a result: labels, and samples as milliseconds and value.
pub fn series<'a>(
    request: &mut impl Writer,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    samples: impl IntoIterator<Item = (i64, f64)>,
) {
    request.message(1, |series| {
        labels(series, pairs);
        samples.into_iter().for_each(|(time_ms, value)| sample(series, time_ms, value));
    });
}

/// Adds labels to a series.
pub fn labels<'a>(series: &mut impl Writer, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, value) in pairs {
        series.message(1, |label| {
            label.bytes(1, name.as_bytes());
            label.bytes(2, value.as_bytes());
        });
    }
}

/// Adds a sample to a series; also of remote write 2.0. There are very many samples, so the message is
/// composed before it is appended.
#[inline]
pub fn sample(series: &mut impl Writer, time_ms: i64, value: f64) {
    /// Bytes of the value and its tag.
    const VALUE_BYTES: usize = 9;
    /// Bytes of the two tags, the length and the value; the time has at most ten, and a tag.
    const BYTES_MAX: usize = 2 + VALUE_BYTES + 11;
    let mut bytes = [0; BYTES_MAX];
    bytes[0] = 2 << 3 | 2;
    bytes[2] = 1 << 3 | 1;
    bytes[3..2 + VALUE_BYTES].copy_from_slice(&value.to_le_bytes());
    let mut length = 2 + VALUE_BYTES;
    if time_ms != 0 {
        bytes[length] = 2 << 3;
        let mut rest = time_ms as u64;
        while rest >= 0x80 {
            length += 1;
            bytes[length] = rest as u8 | 0x80;
            rest >>= 7;
        }
        bytes[length + 1] = rest as u8;
        length += 2;
    }
    bytes[1] = (length - 2) as u8;
    series.put(&bytes[..length]);
}

/// Adds a histogram to a series, with integers as counts or with floats.
pub fn histogram(series: &mut impl Writer, time_ms: i64, of: &FloatHistogram, integer: bool) {
    series.message(4, |histogram| {
        match integer {
            true => histogram.varint(1, of.count as u64),
            false => histogram.double(2, of.count),
        }
        histogram.double(3, of.sum);
        histogram.number(4, zigzag(i64::from(of.schema)));
        histogram.double(5, of.zero_threshold);
        match integer {
            true => histogram.varint(6, of.zero_count as u64),
            false => histogram.double(7, of.zero_count),
        }
        buckets(histogram, 8, &of.negative, integer);
        buckets(histogram, 11, &of.positive, integer);
        histogram.number(14, of.reset as u64);
        histogram.number(15, time_ms as u64);
        histogram.doubles(16, of.bounds.iter().copied());
    });
}

/// Adds buckets: spans in this field, differences of integers in the next one, or floats in the one after.
fn buckets(histogram: &mut impl Writer, field: u32, buckets: &Buckets, integer: bool) {
    spans(histogram, field, buckets);
    if integer {
        let before = [0.0].iter().chain(&buckets.counts);
        let differences =
            buckets.counts.iter().zip(before).map(|(count, before)| *count as i64 - *before as i64);
        histogram.packed(field + 1, differences.map(zigzag));
    } else {
        histogram.doubles(field + 2, buckets.counts.iter().copied());
    }
}

fn spans(histogram: &mut impl Writer, field: u32, buckets: &Buckets) {
    for span in buckets.spans() {
        histogram.message(field, |message| {
            message.number(1, zigzag(i64::from(span.offset)));
            message.number(2, u64::from(span.length));
        });
    }
}

/// Writes histograms with integer counts that have the same schema, buckets and bounds: what they have in
/// common is encoded once. The messages are those of [`histogram`].
pub struct IntegerHistograms {
    /// The schema and the zero threshold.
    scale: Vec<u8>,
    negative: Vec<u8>,
    positive: Vec<u8>,
    bounds: Vec<u8>,
    message: Vec<u8>,
}

impl IntegerHistograms {
    /// A writer of histograms like this one.
    pub fn new(layout: &FloatHistogram) -> Self {
        let [mut scale, mut negative, mut positive, mut bounds] = [const { Vec::new() }; 4];
        scale.number(4, zigzag(i64::from(layout.schema)));
        scale.double(5, layout.zero_threshold);
        spans(&mut negative, 8, &layout.negative);
        spans(&mut positive, 11, &layout.positive);
        bounds.doubles(16, layout.bounds.iter().copied());
        Self { scale, negative, positive, bounds, message: Vec::new() }
    }

    /// Adds a histogram to a series.
    pub fn add(&mut self, series: &mut impl Writer, one: &IntegerHistogram<'_>) {
        let message = &mut self.message;
        message.clear();
        message.varint(1, one.count);
        message.double(3, one.sum);
        message.put(&self.scale);
        message.varint(6, one.zero_count);
        for (field, spans, deltas) in [(9, &self.negative, one.negative), (12, &self.positive, one.positive)]
        {
            message.put(spans);
            if !deltas.is_empty() {
                // The integers have ten bytes each at most.
                message.reserve(10 * deltas.len());
                message.message(field, |packed| {
                    deltas.iter().for_each(|delta| packed.raw_varint(zigzag(*delta)))
                });
            }
        }
        message.number(14, one.reset as u64);
        message.number(15, one.time_ms as u64);
        message.put(&self.bounds);
        series.bytes(4, message);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use sandur_model::histogram::CounterReset;

    use super::*;

    #[test]
    fn a_sample_has_the_fields_of_its_message() {
        let times = [0, 1, 127, 128, 16_383, 16_384, 1_795_132_800_000, i64::MAX, -1, i64::MIN];
        for time_ms in times {
            for value in [0.0, -0.0, 1.5, f64::NAN, f64::INFINITY] {
                let (mut found, mut expected) = (vec![7], vec![7]);
                sample(&mut found, time_ms, value);
                expected.message(2, |sample| {
                    sample.double(1, value);
                    sample.number(2, time_ms as u64);
                });
                assert_eq!(found, expected, "{time_ms} {value}");
            }
        }
    }

    fn layout() -> impl Strategy<Value = FloatHistogram> {
        let indices = || prop::collection::btree_set(-30i32..60, 0..20);
        let bounds = prop::collection::vec(any::<f64>(), 0..4);
        (indices(), indices(), -53i32..9, any::<f64>(), bounds).prop_map(
            |(positive, negative, schema, zero_threshold, bounds)| {
                let buckets = |of: BTreeSet<i32>| Buckets {
                    counts: vec![0.0; of.len()],
                    indices: of.into_iter().collect(),
                };
                FloatHistogram {
                    schema,
                    zero_threshold,
                    positive: buckets(positive),
                    negative: buckets(negative),
                    bounds: bounds.into(),
                    ..FloatHistogram::default()
                }
            },
        )
    }

    proptest! {
        /// Writes integer histograms of one layout in both ways, and compares the bytes.
        #[test]
        fn integer_histograms_have_the_same_bytes_as_single_ones(
            layout in layout(),
            rows in prop::collection::vec(
                (prop::collection::vec(0u64..1 << 53, 40), 0u32..60, any::<f64>(), any::<i64>(), 0usize..4),
                1..5,
            ),
        ) {
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let mut writer = IntegerHistograms::new(&layout);
            for (counts, shift, sum, time_ms, reset) in rows {
                let counts: Vec<u64> = counts.iter().map(|count| count >> shift).collect();
                let (count, zero_count, rest) = (counts[0], counts[1], &counts[2..]);
                let (positive, rest) = rest.split_at(layout.positive.len());
                let negative = &rest[..layout.negative.len()];
                let reset = CounterReset::ALL[reset];
                let mut one = FloatHistogram { reset, sum, ..layout.clone() };
                (one.count, one.zero_count) = (count as f64, zero_count as f64);
                one.positive.counts = positive.iter().map(|count| *count as f64).collect();
                one.negative.counts = negative.iter().map(|count| *count as f64).collect();
                histogram(&mut expected, time_ms, &one, true);
                let deltas = |counts: &[u64]| -> Vec<i64> {
                    let before = [0].iter().chain(counts);
                    counts.iter().zip(before).map(|(count, before)| *count as i64 - *before as i64).collect()
                };
                let (positive, negative) = (&deltas(positive), &deltas(negative));
                let numbers = IntegerHistogram { time_ms, reset, count, zero_count, sum, positive, negative };
                writer.add(&mut found, &numbers);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
