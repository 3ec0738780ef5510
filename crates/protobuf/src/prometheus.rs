//! Prometheus's messages in requests of remote write 1.0 and in answers of remote read:
//! `WriteRequest{timeseries=1: TimeSeries}` and `QueryResult{timeseries=1: TimeSeries}` with
//! `TimeSeries{labels=1:{name=1, value=2}, samples=2:{value=1, timestamp=2}, histograms=4}`.
//!
//! Integers that are 0 are left out, as proto3 does; floats and oneof fields are always written.

use sandur_model::FloatHistogram;
use sandur_model::histogram::Buckets;

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
    for span in buckets.spans() {
        histogram.message(field, |message| {
            message.number(1, zigzag(i64::from(span.offset)));
            message.number(2, u64::from(span.length));
        });
    }
    if integer {
        let before = [0.0].iter().chain(&buckets.counts);
        let differences =
            buckets.counts.iter().zip(before).map(|(count, before)| *count as i64 - *before as i64);
        histogram.packed(field + 1, differences.map(zigzag));
    } else {
        histogram.doubles(field + 2, buckets.counts.iter().copied());
    }
}

#[cfg(test)]
mod tests {
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
}
