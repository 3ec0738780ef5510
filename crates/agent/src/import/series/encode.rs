//! Encodes series as requests of remote write 1.0.

use sandur_model::STALE_BITS;
use sandur_model::histogram::IntegerHistogram;
use sandur_protobuf::{Writer as _, prometheus};
use sandur_tsdb::{Histograms, IntegerHistograms, Samples};

use crate::import::sending::{Request, Written};

/// Most samples of a request.
const REQUEST_SAMPLES: usize = 50_000;
/// A request with this many bytes gets no more samples.
const REQUEST_BYTES: usize = 4 << 20;
/// Histograms that are added at a time: each may take some KiB.
const HISTOGRAMS_AT_ONCE: usize = 100;

/// Requests that are being written.
#[derive(Default)]
pub struct Encoder {
    request: Vec<u8>,
    samples: usize,
    done: Vec<Request>,
}

impl Encoder {
    /// Adds samples of a series.
    pub fn add(&mut self, labels: &[(String, String)], samples: &Samples) {
        let pairs = || labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut floats = samples.floats.as_slice();
        while !floats.is_empty() {
            let room = REQUEST_SAMPLES.saturating_sub(self.samples).max(1);
            let (now, later) = floats.split_at(floats.len().min(room));
            prometheus::series(&mut self.request, pairs(), now.iter().copied());
            floats = later;
            self.added(now.len());
        }
        for some in &samples.histograms {
            match some {
                Histograms::Integers(all) => self.integers(labels, all),
                Histograms::Floats(all) => {
                    for some in all.chunks(HISTOGRAMS_AT_ONCE) {
                        self.series(labels, some, |series, one| {
                            prometheus::histogram(series, one.time_ms, &one.histogram, one.integer);
                        });
                    }
                }
            }
        }
    }

    fn integers(&mut self, labels: &[(String, String)], all: &IntegerHistograms) {
        let mut writer = prometheus::IntegerHistograms::new(all.layout());
        let rows: Vec<IntegerHistogram<'_>> = all.iter().collect();
        for some in rows.chunks(HISTOGRAMS_AT_ONCE) {
            self.series(labels, some, |series, one| {
                if one.sum.to_bits() == STALE_BITS {
                    return prometheus::histogram(series, one.time_ms, &all.as_float(one), true);
                }
                writer.add(series, one);
            });
        }
    }

    /// Adds a series with some histograms.
    fn series<T>(&mut self, labels: &[(String, String)], some: &[T], mut add: impl FnMut(&mut Vec<u8>, &T)) {
        self.request.message(1, |series| {
            prometheus::labels(series, labels.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            some.iter().for_each(|one| add(series, one));
        });
        self.added(some.len());
    }

    fn added(&mut self, samples: usize) {
        self.samples += samples;
        if self.samples >= REQUEST_SAMPLES || self.request.len() >= REQUEST_BYTES {
            self.complete();
        }
    }

    fn complete(&mut self) {
        if self.samples == 0 {
            return;
        }
        // A request is much shorter than the 4 GiB that a snappy block can have.
        if let Ok(body) = snap::raw::Encoder::new().compress_vec(&self.request) {
            let points = std::mem::take(&mut self.samples) as u64;
            self.done.push(Request { body, points, form: Written::One });
        }
        self.request.clear();
    }

    /// Returns the requests, and empties the encoder.
    pub fn finish(&mut self) -> Vec<Request> {
        self.complete();
        std::mem::take(&mut self.done)
    }
}
