//! Encodes requests of remote write 1.0: protobuf in a snappy block.
//!
//! Only the parts that are needed to send series. Field numbers are those of `prometheus.WriteRequest`.

use sandur_model::histogram::{Buckets, CounterReset};
use sandur_model::{FloatHistogram, is_stale};

use super::series::{BEGIN_MS, LENGTH_MS, RandomSeries, Sample};

/// Milliseconds of samples in a request.
const SLICE_MS: i64 = 5 * 60_000;

/// A protobuf message that is being built.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn zigzag(&mut self, field: u64, value: i64) {
        self.number(field, zigzag(value));
    }

    fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_bits().to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns bodies that together contain all samples, in order of time.
pub fn bodies(series: &[RandomSeries]) -> Vec<Vec<u8>> {
    requests(series).iter().map(|request| compressed(request)).collect()
}

/// Returns the bodies before compression.
pub fn requests(series: &[RandomSeries]) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    let mut from = BEGIN_MS - SLICE_MS;
    while from <= BEGIN_MS + LENGTH_MS + SLICE_MS {
        let mut request = Message::default();
        for one in series {
            let begin = one.samples.partition_point(|(time, _)| *time < from);
            let end = one.samples.partition_point(|(time, _)| *time < from + SLICE_MS);
            if begin < end {
                request.message(1, |message| time_series(message, one, &one.samples[begin..end]));
            }
        }
        if !request.0.is_empty() {
            requests.push(request.0);
        }
        from += SLICE_MS;
    }
    requests
}

fn compressed(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).expect("a request is smaller than 4 GiB")
}

fn time_series(message: &mut Message, series: &RandomSeries, samples: &[(i64, Sample)]) {
    for (name, value) in series.labels.iter() {
        message.message(1, |label| {
            label.bytes(1, name.as_bytes());
            label.bytes(2, value.as_bytes());
        });
    }
    for (time, sample) in samples {
        match sample {
            Sample::Float(value) => message.message(2, |sample| {
                sample.double(1, *value);
                sample.number(2, *time as u64);
            }),
            Sample::Histogram(histogram, integer) => {
                message.message(4, |message| native(message, histogram, *integer, *time));
            }
        }
    }
}

fn native(message: &mut Message, histogram: &FloatHistogram, integer: bool, time: i64) {
    if integer {
        message.number(1, histogram.count as u64);
    } else {
        message.double(2, histogram.count);
    }
    message.double(3, histogram.sum);
    message.zigzag(4, i64::from(histogram.schema));
    message.double(5, histogram.zero_threshold);
    if integer {
        message.number(6, histogram.zero_count as u64);
    } else {
        message.double(7, histogram.zero_count);
    }
    buckets(message, [8, 9, 10], &histogram.negative, integer);
    buckets(message, [11, 12, 13], &histogram.positive, integer);
    let hint = match histogram.reset {
        CounterReset::Unknown => 0,
        CounterReset::Reset => 1,
        CounterReset::NotReset => 2,
        CounterReset::Gauge => 3,
    };
    message.number(14, if is_stale(histogram.sum) { 0 } else { hint });
    message.number(15, time as u64);
    if !histogram.bounds.is_empty() {
        let bounds: Vec<u8> = histogram.bounds.iter().flat_map(|b| b.to_bits().to_le_bytes()).collect();
        message.bytes(16, &bounds);
    }
}

/// Encodes buckets as spans with deltas of integers, or with counts.
fn buckets(message: &mut Message, [spans, deltas, counts]: [u64; 3], buckets: &Buckets, integer: bool) {
    for span in buckets.spans() {
        message.message(spans, |message| {
            message.zigzag(1, i64::from(span.offset));
            message.number(2, u64::from(span.length));
        });
    }
    if buckets.is_empty() {
        return;
    }
    if integer {
        let mut packed = Message::default();
        let mut before = 0;
        for count in &buckets.counts {
            packed.varint(zigzag(*count as i64 - before));
            before = *count as i64;
        }
        message.bytes(deltas, &packed.0);
    } else {
        let packed: Vec<u8> = buckets.counts.iter().flat_map(|c| c.to_bits().to_le_bytes()).collect();
        message.bytes(counts, &packed);
    }
}
