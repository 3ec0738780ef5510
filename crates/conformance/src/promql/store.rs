//! Stores series as Prometheus's storage does: the counter reset hints that are read are those of its
//! chunks.
//!
//! A chunk of counter histograms contains no counter reset, so all samples but the first are known to
//! have no reset before them; for the first it is unknown. A chunk ends at a counter reset, at a change
//! of the bucket layout that cannot be recoded, at a sample of another kind, and at the end of its time
//! range of two hours.

use std::sync::Arc;

use sandur_model::histogram::CounterReset;
use sandur_model::{FloatHistogram, Labels, is_stale};
use sandur_query::{MemorySeries, Samples};

/// Time range of a chunk, in milliseconds.
const CHUNK_RANGE_MS: i64 = 2 * 3_600_000;

/// The samples of each series that storage accepted, as they are read.
pub type Accepted = Vec<(Labels, Vec<Added>)>;

/// A sample to add to a series.
#[derive(Clone, Debug)]
pub struct Added {
    /// Time in milliseconds since the epoch.
    pub time: i64,
    /// Start timestamp in milliseconds since the epoch; 0: unknown.
    pub start: i64,
    /// The value of a float sample.
    pub value: f64,
    /// The histogram of a histogram sample.
    pub histogram: Option<Arc<FloatHistogram>>,
}

/// The chunk that the next sample is appended to.
#[derive(Default)]
struct Chunk {
    last: Option<Arc<FloatHistogram>>,
    first_time: i64,
    samples: usize,
    gauge: bool,
}

/// Adds samples to a series. Returns the accepted ones: those that are later than all samples before
/// them.
pub fn add(series: &mut MemorySeries, labels: &Labels, added: &[Added]) -> Vec<Added> {
    let mut accepted = Vec::new();
    series.edit(labels, |samples| {
        let mut chunk = Chunk::default();
        let mut last = newest(samples);
        for sample in added {
            if last.is_some_and(|last| sample.time <= last) {
                continue; // out of order
            }
            last = Some(sample.time);
            match &sample.histogram {
                None => {
                    chunk.last = None;
                    samples.times.push(sample.time);
                    samples.values.push(sample.value);
                    samples.starts.push(sample.start);
                    accepted.push(sample.clone());
                }
                Some(histogram) => {
                    let stored = chunk.store(histogram, sample.time);
                    accepted.push(Added { histogram: Some(Arc::clone(&stored)), ..sample.clone() });
                    samples.histogram_times.push(sample.time);
                    samples.histograms.push(stored);
                    samples.histogram_starts.push(sample.start);
                }
            }
        }
    });
    accepted
}

fn newest(samples: &Samples) -> Option<i64> {
    samples.times.last().copied().max(samples.histogram_times.last().copied())
}

impl Chunk {
    /// Appends a histogram. Returns it with the counter reset hint with which it will be read.
    fn store(&mut self, histogram: &Arc<FloatHistogram>, time: i64) -> Arc<FloatHistogram> {
        let gauge = histogram.reset == CounterReset::Gauge;
        let continues = self.last.as_ref().is_some_and(|last| {
            let in_range = time.div_euclid(CHUNK_RANGE_MS) == self.first_time.div_euclid(CHUNK_RANGE_MS);
            in_range && gauge == self.gauge && fits(last, histogram, gauge)
        });
        if !continues {
            *self = Self { last: None, first_time: time, samples: 0, gauge };
        }
        self.samples += 1;
        let reset = match (gauge, self.samples > 1) {
            (true, _) => CounterReset::Gauge,
            (false, true) => CounterReset::NotReset,
            (false, false) => CounterReset::Unknown,
        };
        let stored = Arc::new(FloatHistogram { reset, ..(**histogram).clone() });
        self.last = Some(Arc::clone(&stored));
        stored
    }
}

/// Whether a histogram can be appended to the chunk of the histogram before it.
fn fits(last: &FloatHistogram, next: &FloatHistogram, gauge: bool) -> bool {
    if next.reset == CounterReset::Reset {
        return false;
    }
    if is_stale(next.sum) {
        return true;
    }
    if is_stale(last.sum)
        || next.schema != last.schema
        || next.zero_threshold != last.zero_threshold
        || next.bounds != last.bounds
    {
        return false;
    }
    gauge || {
        let mut plain = next.clone();
        plain.reset = CounterReset::Unknown;
        !plain.detect_reset(last)
    }
}
