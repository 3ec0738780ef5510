//! Encodes requests of remote write 1.0: protobuf in a snappy block.

use sandur_model::histogram::CounterReset;
use sandur_model::{FloatHistogram, is_stale};
use sandur_protobuf::{Writer as _, prometheus};

use super::series::{BEGIN_MS, LENGTH_MS, RandomSeries, Sample};

/// Milliseconds of samples in a request.
const SLICE_MS: i64 = 5 * 60_000;

/// Returns bodies that together contain all samples, in order of time.
pub fn bodies(series: &[RandomSeries]) -> Vec<Vec<u8>> {
    requests(series).iter().map(|request| compressed(request)).collect()
}

/// Returns the bodies before compression.
pub fn requests(series: &[RandomSeries]) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    let mut from = BEGIN_MS - SLICE_MS;
    while from <= BEGIN_MS + LENGTH_MS + SLICE_MS {
        let mut request = Vec::new();
        for one in series {
            let begin = one.samples.partition_point(|(time, _)| *time < from);
            let end = one.samples.partition_point(|(time, _)| *time < from + SLICE_MS);
            if begin < end {
                request.message(1, |message| time_series(message, one, &one.samples[begin..end]));
            }
        }
        if !request.is_empty() {
            requests.push(request);
        }
        from += SLICE_MS;
    }
    requests
}

fn compressed(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).expect("a request is smaller than 4 GiB")
}

fn time_series(series: &mut Vec<u8>, of: &RandomSeries, samples: &[(i64, Sample)]) {
    prometheus::labels(series, of.labels.iter());
    for (time, sample) in samples {
        match sample {
            Sample::Float(value) => prometheus::sample(series, *time, *value),
            Sample::Histogram(histogram, integer) => {
                let mut histogram = FloatHistogram::clone(histogram);
                if is_stale(histogram.sum) {
                    histogram.reset = CounterReset::Unknown;
                }
                prometheus::histogram(series, *time, &histogram, *integer);
            }
        }
    }
}
