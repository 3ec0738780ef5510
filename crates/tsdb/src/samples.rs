//! The samples of a series, decoded from chunks.

use sandur_model::FloatHistogram;

use crate::error::Error;
use crate::{floats, histograms};

/// A histogram and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedHistogram {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// The histogram.
    pub histogram: FloatHistogram,
    /// Whether the file has integer counts.
    pub integer: bool,
}

/// Samples of a series.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Milliseconds since the epoch, and value.
    pub floats: Vec<(i64, f64)>,
    /// Histograms.
    pub histograms: Vec<TimedHistogram>,
}

impl Samples {
    /// Appends the samples of a chunk for which `is_wanted` holds. After an error some may be appended.
    pub fn add_chunk(&mut self, chunk: &[u8], is_wanted: impl Fn(i64) -> bool) -> Result<(), Error> {
        let (encoding, data) = chunk.split_first().ok_or(Error::Malformed { what: "an empty chunk" })?;
        let histograms = &mut self.histograms;
        let mut add = |integer: bool, time_ms: i64, histogram| {
            if is_wanted(time_ms) {
                histograms.push(TimedHistogram { time_ms, histogram, integer });
            }
        };
        match encoding {
            1 => {
                let floats = &mut self.floats;
                floats::decode(data, |time_ms, value| {
                    if is_wanted(time_ms) {
                        floats.push((time_ms, value));
                    }
                })
            }
            2 => histograms::decode_integers(data, |time_ms, histogram| add(true, time_ms, histogram)),
            3 => histograms::decode_floats(data, |time_ms, histogram| add(false, time_ms, histogram)),
            encoding => Err(Error::Encoding { encoding: *encoding }),
        }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.floats.len() + self.histograms.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all samples, and keeps the memory.
    pub fn clear(&mut self) {
        self.floats.clear();
        self.histograms.clear();
    }
}
