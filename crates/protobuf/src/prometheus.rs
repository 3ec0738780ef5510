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

/// Adds a sample to a series; also of remote write 2.0.
#[inline]
pub fn sample(series: &mut impl Writer, time_ms: i64, value: f64) {
    series.message(2, |sample| {
        sample.double(1, value);
        sample.number(2, time_ms as u64);
    });
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
