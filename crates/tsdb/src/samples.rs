//! The samples of a series, decoded from chunks.

use sandur_model::FloatHistogram;

use crate::error::Error;
use crate::{floats, histograms};

/// Most bytes of decoded histograms. A bucket takes at least a bit in a chunk and 12 bytes in memory, so the
/// size of chunks does not bound them well. 400 chunks with 30 histograms of 200 buckets take 29 MB.
const HISTOGRAM_BYTES_MAX: u64 = 256 << 20;

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
    /// Memory of the histograms.
    histogram_bytes: u64,
}

impl Samples {
    /// Samples that are floats: times in milliseconds, and values.
    pub fn of_floats(floats: Vec<(i64, f64)>) -> Self {
        Self { floats, ..Self::default() }
    }

    /// Appends the samples of a chunk for which `is_wanted` holds. After an error some may be appended.
    pub fn add_chunk(&mut self, chunk: &[u8], is_wanted: impl Fn(i64) -> bool) -> Result<(), Error> {
        let (encoding, data) = chunk.split_first().ok_or(Error::Malformed { what: "an empty chunk" })?;
        let (histograms, bytes) = (&mut self.histograms, &mut self.histogram_bytes);
        let mut add = |integer: bool, time_ms: i64, histogram: FloatHistogram| {
            if is_wanted(time_ms) {
                *bytes += histogram.memory_bytes();
                if *bytes > HISTOGRAM_BYTES_MAX {
                    let (what, limit) = ("the number of bytes of decoded histograms", HISTOGRAM_BYTES_MAX);
                    return Err(Error::TooLarge { what, found: *bytes, limit });
                }
                histograms.push(TimedHistogram { time_ms, histogram, integer });
            }
            Ok(())
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
        self.histogram_bytes = 0;
    }
}
